-- Jobs of which attempts failed in the last hour, the worst first, without what somebody has marked as handled; and how it usually is:
-- in the same hours of the seven days before, for each hour in which the job did something.
WITH lately AS (
    SELECT m.job, coalesce(sum(m.attempts) FILTER (WHERE m.outcome IN ('failed', 'timed_out', 'lost')), 0)::bigint AS bad,
           coalesce(sum(m.attempts) FILTER (WHERE m.outcome = 'succeeded'), 0)::bigint AS good
    FROM rota.rollup_minutes m WHERE m.minute >= date_trunc('minute', rota.now() - interval '1 hour')
    GROUP BY m.job
), handled AS (
    -- Counted by ten minutes. What happened again since is not handled any more.
    SELECT c.job, sum(c.failures) AS failures
    FROM rota.handled h JOIN rota.error_groups g ON g.id = h.id JOIN rota.error_counts c ON c.error_group = h.id
    WHERE h.kind = 'error' AND h.handled_at > rota.now() - interval '70 minutes' AND c.at > rota.now() - interval '70 minutes'
      AND (h.handled_at >= g.last_seen_at
           OR (c.at <= h.handled_at AND h.handled_at < date_bin('10 minutes', g.last_seen_at, '2001-01-01 00:00Z')))
    GROUP BY c.job
), failing AS (
    SELECT l.job, greatest(0, l.bad - coalesce(h.failures, 0))::bigint AS bad, l.good
    FROM lately l LEFT JOIN handled h ON h.job = l.job
    WHERE l.bad > coalesce(h.failures, 0) ORDER BY 2 DESC, l.job LIMIT 200
), hours AS (
    SELECT date_trunc('hour', (rota.now() - make_interval(hours => h)) AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - make_interval(days => d) AS at
    FROM generate_series(0, 1) AS h, generate_series(1, 7) AS d
)
SELECT f.job, f.bad, f.good, coalesce(u.bad, 0)::double precision AS usual_bad, coalesce(u.good, 0)::double precision AS usual_good
FROM failing f CROSS JOIN LATERAL (
    SELECT sum(s.attempts) FILTER (WHERE s.outcome IN ('failed', 'timed_out', 'lost')) / nullif(count(DISTINCT s.started_at), 0) AS bad,
           sum(s.attempts) FILTER (WHERE s.outcome = 'succeeded') / nullif(count(DISTINCT s.started_at), 0) AS good
    FROM rota.rollup_spans s WHERE s.span = 'hour' AND s.job = f.job AND s.started_at = ANY (ARRAY(SELECT at FROM hours))
) u
ORDER BY f.bad DESC, f.job
