-- The ids of schedules in another order than by name: `next` is due first, `last` ran last, `newest` and `changed` as they say.
-- Thin, as all that fit are put in order; what a page shows is read afterwards.
SELECT s.id, jsonb_build_array(p.place, s.id) AS place
FROM rota.schedules s JOIN rota.schedule_status v ON v.schedule_id = s.id
CROSS JOIN LATERAL (
    SELECT CASE %(order)s::text WHEN 'next' THEN coalesce(extract(epoch FROM v.next_run_at), 1e300)
                                WHEN 'last' THEN coalesce(-extract(epoch FROM s.last_run_at), 1e300)
                                WHEN 'changed' THEN -extract(epoch FROM s.updated_at)
                                ELSE -extract(epoch FROM s.created_at) END::double precision AS place) p
WHERE (%(tenant)s::text IS NULL OR s.tenant = %(tenant)s::text)
  AND (%(job)s::text IS NULL OR s.job = %(job)s::text)
  AND (%(tag)s::text IS NULL OR s.tags @> ARRAY[%(tag)s::text])
  AND (%(state)s::text IS NULL OR v.state = %(state)s::text)
  AND (%(system)s::boolean OR NOT s.is_system)
  AND NOT EXISTS (SELECT FROM jsonb_each_text(%(metadata)s::jsonb) m WHERE s.metadata ->> m.key IS DISTINCT FROM m.value)
  AND (%(after)s::jsonb IS NULL
       OR (p.place, s.id) > ((%(after)s::jsonb ->> 0)::double precision, (%(after)s::jsonb ->> 1)::bigint))
ORDER BY p.place, s.id LIMIT %(limit)s::integer
