-- What was done between two times, by job under its present name, the busiest first. The times are whole minutes, hours or days, as `unit`
-- says: long ranges are read from whole days and, at their ends, whole hours. What is not folded yet is in no sum.
WITH r AS (
    SELECT s.job, s.queue, s.outcome, s.attempts, s.duration_ms, s.longest_ms, s.histogram
    FROM rota.rollup_spans s WHERE s.span = 'day' AND s.started_at >= %(first_day)s::timestamptz AND s.started_at < %(last_day)s::timestamptz
      AND %(unit)s::text <> 'minute' AND s.job <> ''
    UNION ALL
    SELECT s.job, s.queue, s.outcome, s.attempts, s.duration_ms, s.longest_ms, s.histogram
    FROM rota.rollup_spans s WHERE s.span = 'hour' AND s.started_at >= %(since)s::timestamptz AND s.started_at < %(first_day)s::timestamptz
      AND %(unit)s::text = 'hour' AND s.job <> ''
    UNION ALL
    SELECT s.job, s.queue, s.outcome, s.attempts, s.duration_ms, s.longest_ms, s.histogram
    FROM rota.rollup_spans s WHERE s.span = 'hour' AND s.started_at >= %(last_day)s::timestamptz AND s.started_at < %(until)s::timestamptz
      AND %(unit)s::text = 'hour' AND s.job <> ''
    UNION ALL
    SELECT m.job, m.queue, m.outcome, m.attempts, m.duration_ms, m.longest_ms, m.histogram
    FROM rota.rollup_minutes m WHERE m.minute >= %(since)s::timestamptz AND m.minute < %(until)s::timestamptz
      AND %(unit)s::text = 'minute' AND m.worker = 0
    UNION ALL
    SELECT m.job, m.queue, m.outcome, m.attempts, m.duration_ms, m.longest_ms, m.histogram
    FROM rota.rollup_minutes m WHERE m.minute >= %(since)s::timestamptz AND m.minute < %(until)s::timestamptz AND m.worker <> 0
)
SELECT coalesce(n.job, r.job) AS job, sum(r.attempts)::bigint AS attempts,
       coalesce(sum(r.attempts) FILTER (WHERE r.outcome = 'succeeded'), 0)::bigint AS succeeded,
       coalesce(sum(r.attempts) FILTER (WHERE r.outcome = 'failed'), 0)::bigint AS failed,
       coalesce(sum(r.attempts) FILTER (WHERE r.outcome = 'timed_out'), 0)::bigint AS timed_out,
       coalesce(sum(r.attempts) FILTER (WHERE r.outcome = 'lost'), 0)::bigint AS lost,
       coalesce(sum(r.attempts) FILTER (WHERE r.outcome = 'snoozed'), 0)::bigint AS snoozed,
       coalesce(sum(r.attempts) FILTER (WHERE r.outcome = 'cancelled'), 0)::bigint AS cancelled,
       sum(r.duration_ms) AS duration_ms, max(r.longest_ms)::double precision AS longest_ms,
       numeric_send(sum(r.histogram)) AS histogram
FROM r LEFT JOIN rota.job_names n ON n.alias = r.job
WHERE (%(job)s::text IS NULL OR r.job = ANY ((SELECT rota.names_of(%(job)s::text))::text[])) AND (%(queue)s::text IS NULL OR r.queue = %(queue)s::text)
GROUP BY 1 ORDER BY attempts DESC, 1 LIMIT %(limit)s::integer
