-- Jobs in an order, or one of them. `place` is where each stands: the next page begins after it.
SELECT j.name, j.description, j.queue, j.priority, j.max_attempts, j.timeout_seconds, j.backoff, j.executor, j.payload_schema,
       j.tags, j.metadata, j.source, j.created_at, j.updated_at,
       j.default_payload, j.is_enabled, j.application, j.code, j.edited, j.deleted_from_code_at, j.log_level, j.version, j.events, j.retention,
       ARRAY(SELECT u.word FROM (
           SELECT 0 AS place, 'on demand' AS word
           UNION SELECT x.place, x.word FROM rota.schedules s CROSS JOIN LATERAL (
               SELECT CASE WHEN s.cron IS NOT NULL THEN 1 WHEN s.interval_seconds IS NOT NULL THEN 2 WHEN s.run_at IS NOT NULL THEN 3 ELSE 4 END,
                      CASE WHEN s.cron IS NOT NULL THEN 'cron' WHEN s.interval_seconds IS NOT NULL THEN 'interval'
                           WHEN s.run_at IS NOT NULL THEN 'once' ELSE 'init' END) x (place, word) WHERE s.job = j.name
           UNION SELECT 5, 'event' WHERE j.events <> '{}') u ORDER BY u.place) AS strategies,
       (SELECT count(*) FROM rota.workers w
        WHERE w.state = 'live' AND w.lease_expires_at > clock_timestamp() AND j.name = ANY (w.jobs)) AS workers,
       jsonb_build_array(p.place, j.name) AS place
FROM rota.jobs j CROSS JOIN LATERAL (
    SELECT CASE %(order)s::text WHEN 'newest' THEN -extract(epoch FROM j.created_at) WHEN 'changed' THEN -extract(epoch FROM j.updated_at)
                ELSE 0 END::double precision AS place) p
WHERE (%(name)s::text IS NULL OR j.name = %(name)s::text)
  AND (%(system)s::boolean OR NOT j.is_system)
  AND (%(tag)s::text IS NULL OR j.tags @> ARRAY[%(tag)s::text])
  AND (%(queue)s::text IS NULL OR j.queue = %(queue)s::text)
  AND (%(enabled)s::boolean IS NULL OR j.is_enabled = %(enabled)s::boolean)
  AND NOT EXISTS (SELECT FROM jsonb_each_text(%(metadata)s::jsonb) m WHERE j.metadata ->> m.key IS DISTINCT FROM m.value)
  AND (%(after)s::jsonb IS NULL
       OR (p.place, j.name) > ((%(after)s::jsonb ->> 0)::double precision, %(after)s::jsonb ->> 1))
ORDER BY p.place, j.name LIMIT %(limit)s::integer
