-- Work that waits for nobody: no live worker serves its queue and knows its job. Not what an operator holds back, and not what
-- came a moment ago, while a worker starts. Who sleeps will come.
WITH live AS MATERIALIZED (
    SELECT w.queues, w.jobs FROM rota.workers w
    WHERE w.state = 'live' AND w.lease_expires_at > clock_timestamp() AND w.drain_requested_at IS NULL
), awake_or_asleep AS MATERIALIZED (
    SELECT * FROM live UNION ALL SELECT w.queues, w.jobs FROM rota.workers w WHERE rota.is_asleep(w)
)
SELECT d.job, d.queue, d.queued, (SELECT count(*) FROM live) AS workers,
       EXISTS (SELECT FROM live l WHERE d.job = ANY (l.jobs)) AS is_known,
       -- Held ones by the clock of the business, others by the real one.
       least(d.oldest_at, CASE WHEN d.held > 0 THEN (
           SELECT min(o.held_at) FROM rota.open_runs o WHERE o.held_by = 'no_worker' AND o.job = d.job) END) AS since
FROM rota.read_depths() d
WHERE d.queued > 0 AND (d.held > 0 OR d.oldest_at < clock_timestamp() - interval '30 seconds')
  AND NOT EXISTS (SELECT FROM awake_or_asleep l WHERE (l.queues = '{}' OR d.queue = ANY (l.queues)) AND d.job = ANY (l.jobs))
  AND NOT EXISTS (SELECT FROM rota.queues q WHERE q.name = d.queue AND rota.queue_is_paused(q))
  AND NOT EXISTS (SELECT FROM rota.jobs j WHERE j.name = d.job AND (NOT j.is_enabled OR j.is_system))
ORDER BY d.queued DESC, d.job, d.queue LIMIT 1000
