-- Jobs whose attempts failed lately, the worst first, with their last error: of a run that ended, else of one
-- that waits for its next attempt. Both looks are bounded.
WITH counted AS (
    SELECT job, sum(attempts) FILTER (WHERE outcome IN ('failed', 'timed_out', 'lost'))::bigint AS failures, sum(attempts)::bigint AS attempts
    FROM rota.rollup_minutes WHERE minute >= date_trunc('minute', rota.now() - make_interval(secs => %(seconds)s::double precision))
    GROUP BY job
), failing AS (
    SELECT * FROM counted WHERE failures > 0 ORDER BY failures DESC, job LIMIT %(limit)s::integer
), errors AS (
    (SELECT job, finished_at AS at, error AS last_error FROM rota.ended_runs
     WHERE state <> 'succeeded' AND finished_at > rota.now() - make_interval(secs => %(seconds)s::double precision)
     ORDER BY finished_at DESC LIMIT 500)
    UNION ALL
    SELECT job, '-infinity', last_error FROM rota.waiting_errors(500)
), last AS MATERIALIZED (
    -- Once, and not for each job that fails.
    SELECT DISTINCT ON (job) job, last_error FROM errors WHERE last_error IS NOT NULL ORDER BY job, at DESC
)
SELECT f.job, f.failures, f.attempts, l.last_error
FROM failing f LEFT JOIN last l ON l.job = f.job ORDER BY f.failures DESC, f.job
