-- Jobs in an order, or one of them. `place` is where each stands: the next page begins after it. Schedules and workers are counted
-- once for all jobs, and not for each.
WITH timed AS (
    SELECT s.job, bool_or(s.cron IS NOT NULL) AS has_cron, bool_or(s.cron IS NULL AND s.interval_seconds IS NOT NULL) AS has_interval,
           bool_or(s.cron IS NULL AND s.interval_seconds IS NULL AND s.run_at IS NOT NULL) AS has_once,
           bool_or(s.cron IS NULL AND s.interval_seconds IS NULL AND s.run_at IS NULL) AS has_init,
           min(t.next_run_at) FILTER (WHERE t.due_at IS NOT NULL AND NOT t.is_stopped) AS next_run_at
    FROM rota.schedules s JOIN rota.schedule_state t ON t.schedule_id = s.id WHERE %(name)s::text IS NULL OR s.job = %(name)s::text GROUP BY s.job
), knowing AS (
    SELECT k.job, count(DISTINCT w.id) AS workers
    FROM rota.workers w CROSS JOIN LATERAL unnest(w.jobs) k (job)
    WHERE w.state = 'live' AND w.lease_expires_at > clock_timestamp() AND (%(name)s::text IS NULL OR k.job = %(name)s::text) GROUP BY k.job
)
SELECT j.name, rota.listed_text(j.description, %(value_bytes)s::integer) AS description, j.queue, j.priority, j.max_attempts, j.timeout_seconds, j.backoff, j.executor, rota.listed(j.payload_schema, %(value_bytes)s::integer, '/jobs/{name}') AS payload_schema,
       j.tags, rota.listed(j.metadata, %(value_bytes)s::integer, '/jobs/{name}') AS metadata, j.source, j.created_at, j.updated_at,
       rota.listed(j.default_payload, %(value_bytes)s::integer, '/jobs/{name}') AS default_payload, j.is_enabled, j.application, rota.listed(j.code, %(value_bytes)s::integer, '/jobs/{name}') AS code, j.edited, j.deleted_from_code_at, j.log_level, j.version, j.events, rota.listed(j.event_filters, %(value_bytes)s::integer, '/jobs/{name}') AS event_filters, j.event_delivery, j.retention,
       j.kind, j.function_name, j.run_as, j.transaction_mode, j.is_system, j.delay_seconds, j.expires_in_seconds, j.key, j.tenant, j.definition_hash,
       (SELECT e.finished_at FROM rota.ended_runs e WHERE e.job = j.name ORDER BY e.finished_at DESC LIMIT 1) AS last_run_at, t.next_run_at,
       array_remove(ARRAY['on_demand', CASE WHEN t.has_cron THEN 'cron' END, CASE WHEN t.has_interval THEN 'interval' END,
                          CASE WHEN t.has_once THEN 'once' END, CASE WHEN t.has_init THEN 'init' END,
                          CASE WHEN j.events <> '{}' THEN 'event' END], NULL) AS strategies,
       coalesce(w.workers, 0) AS workers,
       jsonb_build_array(p.place, j.name) AS place
FROM rota.jobs j LEFT JOIN timed t ON t.job = j.name LEFT JOIN knowing w ON w.job = j.name
CROSS JOIN LATERAL (
    SELECT CASE %(order)s::text WHEN 'newest' THEN -extract(epoch FROM j.created_at) WHEN 'changed' THEN -extract(epoch FROM j.updated_at)
                ELSE 0 END::double precision AS place) p
WHERE (%(name)s::text IS NULL OR j.name = %(name)s::text)
  AND (%(system)s::boolean OR NOT j.is_system)
  AND (%(tag)s::text IS NULL OR j.tags @> ARRAY[%(tag)s::text])
  AND (%(queue)s::text IS NULL OR j.queue = %(queue)s::text)
  AND (%(enabled)s::boolean IS NULL OR j.is_enabled = %(enabled)s::boolean)
  AND (%(text)s::text IS NULL OR strpos(lower(j.name), lower(%(text)s::text)) > 0 OR strpos(lower(j.description), lower(%(text)s::text)) > 0)
  AND NOT EXISTS (SELECT FROM jsonb_each_text(%(metadata)s::jsonb) m WHERE j.metadata ->> m.key IS DISTINCT FROM m.value)
  AND (%(after)s::jsonb IS NULL
       OR (p.place, j.name) > ((%(after)s::jsonb ->> 0)::double precision, %(after)s::jsonb ->> 1))
ORDER BY p.place, j.name LIMIT %(limit)s::integer
