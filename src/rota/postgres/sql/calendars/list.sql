-- Calendars in an order, or one of them. `place` is where each stands: the next page begins after it.
SELECT c.name, c.description, c.definition, c.updated_at, c.version,
       (SELECT count(*) FROM rota.schedules s WHERE s.calendar = c.name) AS schedules, jsonb_build_array(p.place, c.name) AS place
FROM rota.calendars c CROSS JOIN LATERAL (
    SELECT CASE %(order)s::text WHEN 'changed' THEN -extract(epoch FROM c.updated_at) ELSE 0 END::double precision AS place) p
WHERE (%(name)s::text IS NULL OR c.name = %(name)s::text)
  AND (%(after)s::jsonb IS NULL
       OR (p.place, c.name) > ((%(after)s::jsonb ->> 0)::double precision, %(after)s::jsonb ->> 1))
ORDER BY p.place, c.name LIMIT %(limit)s::integer
