-- Written by the watchdog of a process that is about to end. Nothing is known of the job's
-- backoff here: the run is tried again at once, by another process, or ends. It is counted here, too: the process
-- that would is about to end.
WITH run AS MATERIALIZED (
    SELECT o.id, o.attempt, o.job, o.queue, o.tenant, o.attempts_used + 1 >= o.max_attempts AS is_last,
           format('attempt exceeded its timeout of %%s s', %(timeout)s::real) AS error
    FROM rota.open_runs o
    WHERE o.id = %(id)s::bigint AND o.attempt = %(attempt)s::integer AND o.worker = %(worker)s::bigint
)
SELECT rota.count_attempt(r.job, r.queue, 'timed_out', %(timeout)s::real * 1000),
       rota.log_failure(r.id, r.attempt, %(worker)s::bigint, r.job, r.tenant, 'AttemptTimeout', r.error)
FROM run r
WHERE CASE WHEN r.is_last
    THEN (SELECT count(*) FROM rota.finish_runs(
            %(worker)s::bigint, ARRAY[r.id], ARRAY[r.attempt], ARRAY[(%(timeout)s::real * 1000)::real], NULL, ARRAY['failed'], ARRAY['timed_out'],
            ARRAY['attempts used up'], NULL, ARRAY['AttemptTimeout'], ARRAY[r.error]))
    ELSE (SELECT count(*) FROM rota.requeue_runs(
            %(worker)s::bigint, ARRAY[r.id], ARRAY[r.attempt], ARRAY[(%(timeout)s::real * 1000)::real], ARRAY['timed_out'],
            ARRAY[0::double precision], ARRAY[true], NULL, ARRAY['AttemptTimeout'], ARRAY[r.error]))
    END > 0
