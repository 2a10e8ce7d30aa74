-- What was done between two times, by job, the busiest first. The times are whole minutes, hours or days, as `unit`
-- says: long ranges are read from whole days and, at their ends, whole hours. What is not folded yet is in no sum.
-- Buckets are added as floats, as in a series.
WITH r AS (
    SELECT s.job, s.queue, s.outcome, s.attempts, s.duration_ms, s.longest_ms, s.buckets
    FROM rota.rollup_sums s WHERE s.span = 'day' AND s.started_at >= %(first_day)s::timestamptz AND s.started_at < %(last_day)s::timestamptz
      AND %(unit)s::text <> 'minute' AND s.job <> ''
    UNION ALL
    SELECT s.job, s.queue, s.outcome, s.attempts, s.duration_ms, s.longest_ms, s.buckets
    FROM rota.rollup_sums s WHERE s.span = 'hour' AND s.started_at >= %(since)s::timestamptz AND s.started_at < %(first_day)s::timestamptz
      AND %(unit)s::text = 'hour' AND s.job <> ''
    UNION ALL
    SELECT s.job, s.queue, s.outcome, s.attempts, s.duration_ms, s.longest_ms, s.buckets
    FROM rota.rollup_sums s WHERE s.span = 'hour' AND s.started_at >= %(last_day)s::timestamptz AND s.started_at < %(until)s::timestamptz
      AND %(unit)s::text = 'hour' AND s.job <> ''
    UNION ALL
    SELECT m.job, m.queue, m.outcome, m.attempts, m.duration_ms, m.longest_ms, m.buckets::bigint[]
    FROM rota.rollups m WHERE m.minute >= %(since)s::timestamptz AND m.minute < %(until)s::timestamptz
      AND %(unit)s::text = 'minute' AND m.worker = 0
    UNION ALL
    SELECT m.job, m.queue, m.outcome, m.attempts, m.duration_ms, m.longest_ms, m.buckets::bigint[]
    FROM rota.rollups m WHERE m.minute >= %(since)s::timestamptz AND m.minute < %(until)s::timestamptz AND m.worker <> 0
)
SELECT r.job, sum(r.attempts)::bigint AS attempts,
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
FROM r
WHERE (%(job)s::text IS NULL OR r.job = %(job)s::text) AND (%(queue)s::text IS NULL OR r.queue = %(queue)s::text)
GROUP BY r.job ORDER BY attempts DESC, r.job LIMIT %(limit)s::integer
