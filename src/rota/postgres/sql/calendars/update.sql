-- What is NULL stays as it is.
UPDATE rota.calendars c
SET description = coalesce(%(description)s::text, c.description),
    definition = coalesce(%(definition)s::text::jsonb, c.definition), updated_at = rota.now()
WHERE c.name = %(name)s::text
  AND (c.description, c.definition) IS DISTINCT FROM
      (coalesce(%(description)s::text, c.description), coalesce(%(definition)s::text::jsonb, c.definition))
