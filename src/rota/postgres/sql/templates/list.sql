-- Templates by name, or one of them.
SELECT t.name, t.cron, t.description, t.version, jsonb_build_array(0, t.name) AS place
FROM rota.schedule_templates t
WHERE (%(name)s::text IS NULL OR t.name = %(name)s::text)
  AND (%(after)s::jsonb IS NULL OR t.name > %(after)s::jsonb ->> 1)
ORDER BY t.name LIMIT %(limit)s::integer
