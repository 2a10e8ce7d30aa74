UPDATE rota.calendars SET description = %(description)s::text, definition = %(definition)s::text::jsonb, updated_at = rota.now()
WHERE name = %(name)s::text AND (description, definition) IS DISTINCT FROM (%(description)s::text, %(definition)s::text::jsonb)
RETURNING name
