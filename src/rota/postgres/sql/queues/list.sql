-- Every queue that a job, an open run or an operator has named, or one, with what waits in it. A run that
-- is held counts as queued, too; it does not make the oldest, as no worker may take it. The queue of Rota's own jobs
-- is one to be asked for by name. `place` is where each stands in the order: the next page begins after it.
WITH open AS (
    SELECT queue, sum(blocked)::bigint AS blocked, sum(scheduled)::bigint AS scheduled, sum(queued)::bigint AS queued,
           sum(held)::bigint AS held, sum(running)::bigint AS running, min(oldest_at) AS oldest_at, min(counted_at) AS counted_at
    FROM rota.read_depths() GROUP BY queue
), named AS (
    SELECT queue AS name FROM open UNION SELECT name FROM rota.queues UNION SELECT queue FROM rota.jobs
    WHERE NOT is_system OR queue = 'rota' || '.system'
)
SELECT n.name, coalesce(o.blocked, 0) AS blocked, coalesce(o.scheduled, 0) AS scheduled, coalesce(o.queued, 0) AS queued,
       coalesce(o.held, 0) AS held, coalesce(o.running, 0) AS running,
       -- enqueued_at is by the real clock.
       extract(epoch FROM clock_timestamp() - o.oldest_at)::double precision AS oldest_seconds,
       coalesce(extract(epoch FROM clock_timestamp() - o.counted_at), 0)::double precision AS counted_seconds,
       (SELECT count(*) FROM rota.workers w
        WHERE w.state = 'live' AND w.lease_expires_at > clock_timestamp()
          AND w.drain_requested_at IS NULL AND (w.queues = '{}' OR n.name = ANY (w.queues))) AS workers,
       o.queue IS NOT NULL OR EXISTS (SELECT FROM rota.jobs j WHERE j.queue = n.name) AS is_used,
       q.name IS NOT NULL AS is_paused, q.paused_at, q.paused_by, q.pause_reason, q.paused_until, coalesce(v.version, 1) AS version,
       rota.queue_settings(v) AS settings, k.full_since, coalesce(v.is_edited, false) AS is_edited,
       jsonb_build_array(p.place, n.name) AS place
FROM named n
LEFT JOIN open o ON o.queue = n.name
LEFT JOIN rota.queues v ON v.name = n.name
LEFT JOIN rota.queue_caps k ON k.queue = n.name
-- A pause that is over is none, whoever has written that down.
LEFT JOIN rota.queues q ON q.name = n.name AND rota.queue_is_paused(q)
CROSS JOIN LATERAL (
    -- By when the oldest came, not by its age: that is another one at the next page.
    SELECT CASE %(order)s::text WHEN 'longest' THEN -coalesce(o.queued, 0) WHEN 'oldest' THEN coalesce(extract(epoch FROM o.oldest_at), 1e300)
                ELSE 0 END::double precision AS place) p
WHERE CASE WHEN %(name)s::text IS NULL THEN n.name <> 'rota' || '.system' ELSE n.name = %(name)s::text END
  AND (%(paused)s::boolean IS NULL OR (q.name IS NOT NULL) = %(paused)s::boolean)
  AND (%(after)s::jsonb IS NULL
       OR (p.place, n.name) > ((%(after)s::jsonb ->> 0)::double precision, %(after)s::jsonb ->> 1))
ORDER BY p.place, n.name LIMIT %(limit)s::integer
