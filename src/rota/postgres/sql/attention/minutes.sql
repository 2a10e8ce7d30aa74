-- What these jobs did in each minute of the last day, for when their failing began.
SELECT m.job, m.minute AS at, coalesce(sum(m.attempts) FILTER (WHERE m.outcome = 'succeeded'), 0)::bigint AS good,
       coalesce(sum(m.attempts) FILTER (WHERE m.outcome IN ('failed', 'timed_out', 'lost')), 0)::bigint AS bad
FROM rota.rollup_minutes m
WHERE m.job = ANY (%(jobs)s::text[]) AND m.minute >= date_trunc('minute', rota.now() - interval '1 day')
GROUP BY m.job, m.minute ORDER BY m.job, m.minute
