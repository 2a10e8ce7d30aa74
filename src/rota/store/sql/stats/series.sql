-- What was done in each step between two times; steps in which nothing ended are left out. All jobs together have
-- rows of their own (job ''), so that many jobs cost no more than one.
WITH r AS (
    SELECT s.started_at AS at, s.queue, s.outcome, s.attempts, s.duration_ms, s.longest_ms, s.buckets
    FROM rota.rollup_sums s
    WHERE s.span = %(unit)s::text AND s.job = coalesce(%(job)s::text, '')
      AND s.started_at >= %(since)s::timestamptz AND s.started_at < %(until)s::timestamptz
    UNION ALL
    SELECT m.minute, m.queue, m.outcome, m.attempts, m.duration_ms, m.longest_ms, m.buckets::bigint[]
    FROM rota.rollups m
    WHERE %(unit)s::text = 'minute' AND m.job = %(job)s::text AND m.worker = 0
      AND m.minute >= %(since)s::timestamptz AND m.minute < %(until)s::timestamptz
    UNION ALL
    SELECT m.minute, m.queue, m.outcome, m.attempts, m.duration_ms, m.longest_ms, m.buckets::bigint[]
    FROM rota.rollups m
    WHERE m.worker <> 0 AND (%(job)s::text IS NULL OR m.job = %(job)s::text)
      AND m.minute >= %(since)s::timestamptz AND m.minute < %(until)s::timestamptz
)
SELECT floor(extract(epoch FROM r.at - %(since)s::timestamptz) / %(step)s::integer)::bigint AS step,
       sum(r.attempts)::bigint AS attempts,
       coalesce(sum(r.attempts) FILTER (WHERE r.outcome = 'succeeded'), 0)::bigint AS succeeded,
       coalesce(sum(r.attempts) FILTER (WHERE r.outcome = 'failed'), 0)::bigint AS failed,
       coalesce(sum(r.attempts) FILTER (WHERE r.outcome = 'timed_out'), 0)::bigint AS timed_out,
       coalesce(sum(r.attempts) FILTER (WHERE r.outcome = 'snoozed'), 0)::bigint AS snoozed,
       coalesce(sum(r.attempts) FILTER (WHERE r.outcome = 'cancelled'), 0)::bigint AS cancelled,
       sum(r.duration_ms) AS duration_ms, max(r.longest_ms)::double precision AS longest_ms,
       ARRAY[sum(r.buckets[1]), sum(r.buckets[2]), sum(r.buckets[3]), sum(r.buckets[4]), sum(r.buckets[5]), sum(r.buckets[6]),
       sum(r.buckets[7]), sum(r.buckets[8]), sum(r.buckets[9]), sum(r.buckets[10]), sum(r.buckets[11]), sum(r.buckets[12]),
       sum(r.buckets[13]), sum(r.buckets[14]), sum(r.buckets[15]), sum(r.buckets[16]), sum(r.buckets[17]), sum(r.buckets[18]),
       sum(r.buckets[19]), sum(r.buckets[20]), sum(r.buckets[21]), sum(r.buckets[22]), sum(r.buckets[23]), sum(r.buckets[24]),
       sum(r.buckets[25]), sum(r.buckets[26]), sum(r.buckets[27]), sum(r.buckets[28]), sum(r.buckets[29]), sum(r.buckets[30]),
       sum(r.buckets[31]), sum(r.buckets[32]), sum(r.buckets[33]), sum(r.buckets[34]), sum(r.buckets[35]), sum(r.buckets[36]),
       sum(r.buckets[37]), sum(r.buckets[38]), sum(r.buckets[39]), sum(r.buckets[40])]::bigint[] AS buckets
FROM r WHERE %(queue)s::text IS NULL OR r.queue = %(queue)s::text
GROUP BY 1 ORDER BY 1
