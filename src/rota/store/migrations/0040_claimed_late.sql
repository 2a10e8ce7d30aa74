-- A run that was claimed after it had expired is over too, as it was before the claim: its worker writes that down without calling the body.

CREATE OR REPLACE VIEW rota.run_rows AS
SELECT id, job, queue, CASE WHEN expires_at IS NULL OR expires_at > (SELECT rota.now()) OR (state = 'running' AND started_at < expires_at) THEN state ELSE 'cancelled' END AS state,
       priority, payload, run_at, attempt, max_attempts, key, tenant,
       coalesce(tags, '{}') AS tags, coalesce(metadata, '{}') AS metadata, schedule, scheduled_for,
       coalesce(triggered_by, '{"type": "code"}') AS triggered_by, worker, last_error, message,
       NULL::jsonb AS result, created_at, started_at,
       CASE WHEN expires_at IS NULL OR expires_at > (SELECT rota.now()) OR (state = 'running' AND started_at < expires_at) THEN NULL ELSE greatest(expires_at, created_at) END AS finished_at,
       NULL::real AS duration_ms, expires_at, CASE WHEN expires_at IS NULL OR expires_at > (SELECT rota.now()) OR (state = 'running' AND started_at < expires_at) THEN NULL ELSE 'expired' END AS end_reason,
       attempts_used, progress, CASE WHEN expires_at IS NULL OR expires_at > (SELECT rota.now()) OR (state = 'running' AND started_at < expires_at) THEN held_by END AS held_by, CASE WHEN expires_at IS NULL OR expires_at > (SELECT rota.now()) OR (state = 'running' AND started_at < expires_at) THEN enqueued_at END AS enqueued_at,
       false AS is_ended
FROM rota.open_runs
UNION ALL
SELECT id, job, queue, state, priority, payload, run_at, attempt, max_attempts, key, tenant,
       coalesce(tags, '{}'), coalesce(metadata, '{}'), schedule, scheduled_for,
       coalesce(triggered_by, '{"type": "code"}'), worker, error, message,
       result, created_at, started_at, finished_at, duration_ms, expires_at, end_reason, attempts_used, progress, NULL, NULL, true
FROM rota.ended_runs;

CREATE OR REPLACE FUNCTION rota.count_open_runs() RETURNS TABLE (
    queue text, job text, blocked bigint, scheduled bigint, queued bigint, held bigint, running bigint, expired bigint, oldest_at timestamptz
) LANGUAGE sql STABLE AS $$
    SELECT o.queue, o.job, count(*) FILTER (WHERE o.state = 'blocked'), count(*) FILTER (WHERE o.state = 'scheduled'),
           count(*) FILTER (WHERE o.state = 'queued'), count(*) FILTER (WHERE o.state = 'queued' AND o.held_by IS NOT NULL),
           count(*) FILTER (WHERE o.state = 'running'), count(*) FILTER (WHERE o.state = 'expired'),
           min(o.enqueued_at) FILTER (WHERE o.state = 'queued' AND o.held_by IS NULL)
    FROM (SELECT w.queue, w.job, w.held_by, w.enqueued_at,
                 CASE WHEN w.expires_at IS NULL OR w.expires_at > (SELECT rota.now()) OR (w.state = 'running' AND w.started_at < w.expires_at) THEN w.state ELSE 'expired' END AS state
          FROM rota.open_runs w) o
    GROUP BY o.queue, o.job
$$;
