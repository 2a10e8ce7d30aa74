-- What a worker that knows these jobs, and all SQL jobs, has still to do now. Left out: what waits for a later
-- time, for parents, for a paused queue, for a limit that makes no room by itself, or for another worker.
SELECT o.id, o.job, o.state
FROM rota.open_runs o
WHERE (o.job = ANY (%(jobs)s::text[]) OR EXISTS (SELECT FROM rota.jobs j WHERE j.name = o.job AND j.kind = 'sql'))
  AND (o.state = 'running'
       OR o.state = 'queued' AND coalesce(o.held_by, 'no_worker') IN ('no_worker', 'suspect')
       OR o.held_by = 'limit' AND NOT EXISTS (
           SELECT FROM rota.limits l LEFT JOIN rota.limit_slots s ON s.tenant = l.tenant AND s.key = o.limit_key
           WHERE l.id = substr(split_part(o.limit_key, ':', 1), 2)::bigint AND (l.cap = 0 OR s.wait_until > rota.now() OR s.blocked_by IS NOT NULL))
       OR o.state = 'scheduled' AND o.run_at <= rota.now())
  AND (o.state = 'running' OR NOT EXISTS (SELECT FROM rota.queues q WHERE q.name = o.queue AND rota.queue_is_paused(q)))
ORDER BY o.id
LIMIT 10
