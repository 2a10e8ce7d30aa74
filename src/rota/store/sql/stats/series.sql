-- What was done in each step between two times; steps in which nothing ended are left out. All jobs together have
-- rows of their own (job ''), and all queues too (queue ''), so that many cost no more than one. Buckets are added as
-- floats: whole numbers up to 2^53, and no numeric for each step and bucket.
WITH r AS (
    SELECT s.started_at AS at, s.queue, s.outcome, s.attempts, s.duration_ms, s.longest_ms, s.buckets
    FROM rota.rollup_sums s
    WHERE s.span = %(unit)s::text AND s.job = coalesce(%(job)s::text, '')
      AND s.queue = CASE WHEN %(job)s::text IS NULL THEN coalesce(%(queue)s::text, '') ELSE coalesce(%(queue)s::text, s.queue) END
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
       ARRAY[sum(r.buckets[1]::float8), sum(r.buckets[2]::float8), sum(r.buckets[3]::float8), sum(r.buckets[4]::float8), sum(r.buckets[5]::float8),
       sum(r.buckets[6]::float8), sum(r.buckets[7]::float8), sum(r.buckets[8]::float8), sum(r.buckets[9]::float8), sum(r.buckets[10]::float8),
       sum(r.buckets[11]::float8), sum(r.buckets[12]::float8), sum(r.buckets[13]::float8), sum(r.buckets[14]::float8), sum(r.buckets[15]::float8),
       sum(r.buckets[16]::float8), sum(r.buckets[17]::float8), sum(r.buckets[18]::float8), sum(r.buckets[19]::float8), sum(r.buckets[20]::float8),
       sum(r.buckets[21]::float8), sum(r.buckets[22]::float8), sum(r.buckets[23]::float8), sum(r.buckets[24]::float8), sum(r.buckets[25]::float8),
       sum(r.buckets[26]::float8), sum(r.buckets[27]::float8), sum(r.buckets[28]::float8), sum(r.buckets[29]::float8), sum(r.buckets[30]::float8),
       sum(r.buckets[31]::float8), sum(r.buckets[32]::float8), sum(r.buckets[33]::float8), sum(r.buckets[34]::float8), sum(r.buckets[35]::float8),
       sum(r.buckets[36]::float8), sum(r.buckets[37]::float8), sum(r.buckets[38]::float8), sum(r.buckets[39]::float8), sum(r.buckets[40]::float8)]::bigint[] AS buckets
FROM r WHERE %(queue)s::text IS NULL OR r.queue = %(queue)s::text
GROUP BY 1 ORDER BY 1
