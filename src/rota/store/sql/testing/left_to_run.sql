-- What a worker that knows these jobs, and all SQL jobs, has still to do now. Left out: what waits for a later
-- time, for parents, for a paused queue, or for another worker.
SELECT o.id, o.job, o.state
FROM rota.open_runs o
WHERE (o.job = ANY (%(jobs)s::text[]) OR EXISTS (SELECT FROM rota.jobs j WHERE j.name = o.job AND j.kind = 'sql'))
  AND (o.state = 'running'
       OR o.state = 'queued' AND coalesce(o.held_by, 'no_worker') IN ('no_worker', 'suspect')
       OR o.state = 'scheduled' AND o.run_at <= rota.now())
  AND (o.state = 'running' OR NOT EXISTS (SELECT FROM rota.queues q WHERE q.name = o.queue AND q.is_paused))
ORDER BY o.id
LIMIT 10
