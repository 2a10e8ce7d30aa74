-- All attempts that ever ended, by job, queue and outcome. The jobs seen first have rows of their own; those that come
-- after so many are one, for good, so that no total ever falls.
WITH r AS (
    SELECT s.job, s.queue, s.outcome, s.attempts, s.duration_ms, s.histogram, s.first_at
    FROM rota.rollup_spans s WHERE s.span = 'ever' AND s.job <> ''
    UNION ALL
    SELECT m.job, m.queue, m.outcome, m.attempts, m.duration_ms, m.histogram, m.minute
    FROM rota.rollup_minutes m WHERE m.worker <> 0
), named AS (
    SELECT f.job, f.queue FROM r f GROUP BY f.job, f.queue ORDER BY min(f.first_at), f.job, f.queue LIMIT %(most)s::integer
)
SELECT coalesce(n.job, '(other)') AS job, coalesce(n.queue, '(other)') AS queue, r.outcome,
       sum(r.attempts)::bigint AS attempts, sum(r.duration_ms) / 1000 AS seconds,
       numeric_send(sum(r.histogram)) AS histogram
FROM r LEFT JOIN named n ON n.job = r.job AND n.queue = r.queue
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
