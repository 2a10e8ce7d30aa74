-- What was done between two times, first in all (without a time), then in each step; steps in which nothing ended are left
-- out. All jobs together have rows of their own (job ''), and all queues too (queue ''), so that many cost no more than one.
WITH r AS (
    SELECT s.started_at AS at, s.queue, s.outcome, s.attempts, s.duration_ms, s.longest_ms, s.histogram
    FROM rota.rollup_spans s
    WHERE s.span = %(unit)s::text AND s.job = ANY (coalesce((SELECT rota.names_of(%(job)s::text)), ARRAY['']))
      AND s.queue = CASE WHEN %(job)s::text IS NULL THEN coalesce(%(queue)s::text, '') ELSE coalesce(%(queue)s::text, s.queue) END
      AND s.started_at >= %(since)s::timestamptz AND s.started_at < %(until)s::timestamptz
    UNION ALL
    SELECT m.minute, m.queue, m.outcome, m.attempts, m.duration_ms, m.longest_ms, m.histogram
    FROM rota.rollup_minutes m
    WHERE %(unit)s::text = 'minute' AND m.job = ANY ((SELECT rota.names_of(%(job)s::text))::text[]) AND m.worker = 0
      AND m.minute >= %(since)s::timestamptz AND m.minute < %(until)s::timestamptz
    UNION ALL
    SELECT m.minute, m.queue, m.outcome, m.attempts, m.duration_ms, m.longest_ms, m.histogram
    FROM rota.rollup_minutes m
    WHERE m.worker <> 0 AND (%(job)s::text IS NULL OR m.job = ANY ((SELECT rota.names_of(%(job)s::text))::text[]))
      AND m.minute >= %(since)s::timestamptz AND m.minute < %(until)s::timestamptz
)
SELECT date_bin(make_interval(secs => %(step)s::integer), r.at, %(since)s::timestamptz) AS at,
       sum(r.attempts)::bigint AS attempts,
       coalesce(sum(r.attempts) FILTER (WHERE r.outcome = 'succeeded'), 0)::bigint AS succeeded,
       coalesce(sum(r.attempts) FILTER (WHERE r.outcome = 'failed'), 0)::bigint AS failed,
       coalesce(sum(r.attempts) FILTER (WHERE r.outcome = 'timed_out'), 0)::bigint AS timed_out,
       coalesce(sum(r.attempts) FILTER (WHERE r.outcome = 'lost'), 0)::bigint AS lost,
       coalesce(sum(r.attempts) FILTER (WHERE r.outcome = 'snoozed'), 0)::bigint AS snoozed,
       coalesce(sum(r.attempts) FILTER (WHERE r.outcome = 'cancelled'), 0)::bigint AS cancelled,
       sum(r.duration_ms) AS duration_ms, max(r.longest_ms)::double precision AS longest_ms,
       numeric_send(sum(r.histogram)) AS histogram
FROM r WHERE %(queue)s::text IS NULL OR r.queue = %(queue)s::text
GROUP BY GROUPING SETS ((), (1)) ORDER BY 1 NULLS FIRST
