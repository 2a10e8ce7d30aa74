-- What has run longest, each beside what its job usually takes: its successes of the last week.
WITH longest AS MATERIALIZED (
    SELECT r.id, r.job, r.worker, r.attempt, r.max_attempts, r.started_at
    FROM rota.running_runs() r WHERE r.started_at < rota.now() - make_interval(secs => %(least)s::double precision)
    ORDER BY r.started_at, r.id LIMIT 200
), usual AS MATERIALIZED (
    SELECT s.job, sum(s.attempts)::bigint AS attempts, max(s.longest_ms)::double precision AS longest_ms,
           numeric_send(sum(s.histogram)) AS histogram
    FROM rota.rollup_spans s
    WHERE s.span = 'day' AND s.outcome = 'succeeded' AND s.started_at > rota.now() - interval '8 days'
      AND s.job IN (SELECT l.job FROM longest l)
    GROUP BY s.job
)
SELECT l.id, l.job, l.attempt, l.max_attempts, l.started_at, w.name AS worker,
       extract(epoch FROM rota.now() - l.started_at)::double precision AS seconds, u.attempts, u.longest_ms, u.histogram
FROM longest l JOIN usual u ON u.job = l.job LEFT JOIN rota.workers w ON w.id = l.worker
ORDER BY l.started_at, l.id
