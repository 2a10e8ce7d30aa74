-- Workers, or one. What a worker has claimed ahead and not started counts as claimed, not as running. The queue of Rota's own
-- jobs, which all serve, is not named. is_silent: its lease ran out, and no other worker has been there to declare it lost.
-- Who has left, and who was lost a while ago, is listed on request: they are history.
-- `place` is where each stands in the order: the next page begins after it.
SELECT w.id, w.name, w.host, w.pid, w.version, w.application, w.state, ARRAY(SELECT q FROM unnest(w.queues) q WHERE q <> 'rota' || '.system') AS queues, w.jobs,
       w.concurrency, w.is_stuck, w.is_polling, w.lease_seconds,
       w.started_at, w.heartbeat_at, w.claimed_at, w.finished_at, w.errors, w.trouble, w.ended_at,
       CASE WHEN rota.is_asleep(w) THEN w.asleep_until END AS asleep_until, w.release,
       w.state = 'live' AND w.drain_requested_at IS NOT NULL AS is_draining, w.drain_requested_at, w.drain_requested_by,
       w.drain_reason, w.drain_seen_at, w.is_to_stop, w.is_to_hurry, w.memory_bytes, w.cpu_seconds, w.cpu_cores,
       x.is_silent, x.status,
       -- Before PostgreSQL 17 nothing can be subtracted from infinity.
       CASE WHEN isfinite(w.heartbeat_at) THEN extract(epoch FROM clock_timestamp() - w.heartbeat_at)::double precision
            ELSE -extract(epoch FROM w.heartbeat_at)::double precision END AS heartbeat_seconds,
       coalesce(o.running, 0) AS running, coalesce(o.claimed, 0) AS claimed,
       CASE WHEN w.isolating_run IS NOT NULL AND w.state IN ('live', 'stopping') THEN rota.isolating_of(w) END AS isolating_run, jsonb_build_array(w.id) AS place
FROM rota.workers w
LEFT JOIN rota.worker_loads() o ON o.worker = w.id
CROSS JOIN LATERAL (SELECT w.state IN ('live', 'stopping') AND w.lease_expires_at <= clock_timestamp() AS is_silent) l
CROSS JOIN LATERAL (
    SELECT l.is_silent, CASE WHEN l.is_silent THEN 'silent' WHEN rota.is_asleep(w) THEN 'asleep' WHEN w.state <> 'live' THEN w.state WHEN w.is_stuck THEN 'stuck'
                             WHEN w.trouble IS NOT NULL THEN 'failing'
                             WHEN w.drain_requested_at IS NOT NULL THEN 'draining' ELSE w.state END AS status) x
WHERE CASE WHEN %(id)s::bigint IS NOT NULL THEN w.id = %(id)s::bigint
           WHEN %(include_gone)s::boolean OR rota.is_asleep(w) THEN true
           WHEN w.state = 'lost' THEN w.ended_at > clock_timestamp() - interval '10 minutes'
           ELSE w.state <> 'gone' END
  AND (%(status)s::text IS NULL OR x.status = %(status)s::text)
  AND (%(host)s::text IS NULL OR w.host = %(host)s::text)
  AND (%(after)s::jsonb IS NULL OR CASE %(order)s::text WHEN 'oldest' THEN w.id > (%(after)s::jsonb ->> 0)::bigint
                                                     ELSE w.id < (%(after)s::jsonb ->> 0)::bigint END)
ORDER BY CASE %(order)s::text WHEN 'oldest' THEN w.id END, w.id DESC LIMIT %(limit)s::integer
