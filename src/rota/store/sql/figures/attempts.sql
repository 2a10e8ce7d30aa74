-- All attempts that ever ended, by job, queue and outcome. The jobs seen first have rows of their own; those that come
-- after so many are one, for good, so that no total ever falls.
WITH r AS (
    SELECT s.job, s.queue, s.outcome, s.attempts, s.duration_ms, s.buckets, s.first_at
    FROM rota.rollup_sums s WHERE s.span = 'ever' AND s.job <> ''
    UNION ALL
    SELECT m.job, m.queue, m.outcome, m.attempts, m.duration_ms, m.buckets::bigint[], m.minute
    FROM rota.rollups m WHERE m.worker <> 0
), named AS (
    SELECT f.job, f.queue FROM r f GROUP BY f.job, f.queue ORDER BY min(f.first_at), f.job, f.queue LIMIT %(most)s::integer
)
SELECT coalesce(n.job, '(other)') AS job, coalesce(n.queue, '(other)') AS queue, r.outcome,
       sum(r.attempts)::bigint AS attempts, sum(r.duration_ms) / 1000 AS seconds,
       ARRAY[sum(r.buckets[1]), sum(r.buckets[2]), sum(r.buckets[3]), sum(r.buckets[4]), sum(r.buckets[5]), sum(r.buckets[6]),
       sum(r.buckets[7]), sum(r.buckets[8]), sum(r.buckets[9]), sum(r.buckets[10]), sum(r.buckets[11]), sum(r.buckets[12]),
       sum(r.buckets[13]), sum(r.buckets[14]), sum(r.buckets[15]), sum(r.buckets[16]), sum(r.buckets[17]), sum(r.buckets[18]),
       sum(r.buckets[19]), sum(r.buckets[20]), sum(r.buckets[21]), sum(r.buckets[22]), sum(r.buckets[23]), sum(r.buckets[24]),
       sum(r.buckets[25]), sum(r.buckets[26]), sum(r.buckets[27]), sum(r.buckets[28]), sum(r.buckets[29]), sum(r.buckets[30]),
       sum(r.buckets[31]), sum(r.buckets[32]), sum(r.buckets[33]), sum(r.buckets[34]), sum(r.buckets[35]), sum(r.buckets[36]),
       sum(r.buckets[37]), sum(r.buckets[38]), sum(r.buckets[39]), sum(r.buckets[40])]::bigint[] AS buckets
FROM r LEFT JOIN named n ON n.job = r.job AND n.queue = r.queue
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
