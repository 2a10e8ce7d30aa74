-- Rota's functions normally maintain these tables as runs end: sums of roll-ups, and the statistics of each schedule. Here
-- they are computed from the generated history, which is all that the tables contain.
INSERT INTO rota.rollup_spans (span, started_at, job, queue, outcome, attempts, duration_ms, longest_ms, histogram, first_at)
SELECT s.span, s.started_at, coalesce(m.job, ''), coalesce(m.queue, ''), m.outcome, sum(m.attempts), sum(m.duration_ms), max(m.longest_ms),
       sum(m.histogram), min(m.minute)
FROM rota.rollup_minutes m CROSS JOIN LATERAL rota.spans_of(m.minute) s
GROUP BY GROUPING SETS ((s.span, s.started_at, m.job, m.queue, m.outcome), (s.span, s.started_at, m.queue, m.outcome), (s.span, s.started_at, m.outcome))
HAVING s.span <> 'minute' OR grouping(m.job) = 1;

UPDATE rota.ended_runs r SET schedule_id = s.id FROM rota.schedules s WHERE s.name = r.schedule AND s.tenant = '';

INSERT INTO rota.schedule_days (schedule_id, day, succeeded, failed, cancelled, timed, duration_ms, longest_ms)
SELECT r.schedule_id, (r.finished_at AT TIME ZONE 'UTC')::date, count(*) FILTER (WHERE r.state = 'succeeded'),
       count(*) FILTER (WHERE r.state = 'failed'), count(*) FILTER (WHERE r.state = 'cancelled'), count(*), sum(r.duration_ms), max(r.duration_ms)
FROM rota.ended_runs r WHERE r.schedule_id IS NOT NULL GROUP BY 1, 2;

UPDATE rota.schedules s SET created_at = l.first_at
FROM (SELECT l.schedule_id, min(l.nominal_at) - interval '1 hour' AS first_at FROM rota.ledger l GROUP BY l.schedule_id) l
WHERE l.schedule_id = s.id;

UPDATE rota.schedule_state s
SET last_enqueued_at = l.enqueued_at, run_count = l.runs, last_run_at = l.run_at, last_run_success = l.last_success,
    last_success_at = l.success_at, last_success_for = l.success_for,
    failures_in_a_row = (SELECT count(*) FROM rota.ledger f WHERE f.schedule_id = s.schedule_id AND NOT f.success AND f.nominal_at > coalesce(l.success_for, '-infinity'))
FROM (SELECT l.schedule_id, max(l.enqueued_at) AS enqueued_at, count(l.run_id) AS runs,
             max(r.finished_at) AS run_at, (array_agg(l.success ORDER BY l.nominal_at DESC) FILTER (WHERE l.success IS NOT NULL))[1] AS last_success,
             max(r.finished_at) FILTER (WHERE l.success) AS success_at, max(l.nominal_at) FILTER (WHERE l.success) AS success_for
      FROM rota.ledger l LEFT JOIN rota.ended_runs r ON r.id = l.run_id GROUP BY l.schedule_id) l
WHERE l.schedule_id = s.schedule_id;

-- How long runs had waited, by minute: the samples of upkeep, and the counters of workers.
WITH waits AS (
    SELECT date_trunc('minute', r.started_at) AS minute, r.queue, extract(epoch FROM r.started_at - r.created_at)::double precision AS seconds
    FROM rota.ended_runs r WHERE r.attempt = 1
), minutes AS (
    SELECT coalesce(w.queue, '') AS queue, w.minute, count(*) AS pickups, max(w.seconds) AS longest,
           sum(trunc(10::numeric ^ (16 * width_bucket(w.seconds * 1e6, ARRAY(SELECT 2::double precision ^ n FROM generate_series(0, 38) AS n))))) AS histogram
    FROM waits w GROUP BY GROUPING SETS ((w.minute, w.queue), (w.minute))
)
INSERT INTO rota.samples (queue, minute, queued, running, oldest_seconds, pickups, histogram)
SELECT m.queue, m.minute, 0, least(m.pickups, 8), m.longest, sum(m.pickups) OVER w, sum(m.histogram) OVER w
FROM minutes m WINDOW w AS (PARTITION BY m.queue ORDER BY m.minute) ON CONFLICT DO NOTHING;
INSERT INTO rota.counts (name, labels, amount, total, buckets, at)
SELECT 'pickups', jsonb_build_object('queue', s.queue), max(s.pickups), 0, rota.unpack_buckets(max(s.histogram)), clock_timestamp()
FROM rota.samples s WHERE s.queue <> '' GROUP BY s.queue ON CONFLICT DO NOTHING;

-- Error groups: failures that ended a run are counted already.
INSERT INTO rota.error_changes (error_group, job, queue, run_id, at, error_type, error, file, line, function)
SELECT g.id, p.job, r.queue, p.run_id, p.finished_at, p.error_type, p.error, g.file, g.line, g.function
FROM rota.past_attempts p JOIN rota.ended_runs r ON r.id = p.run_id
CROSS JOIN LATERAL rota.group_error(p.job, p.error_type, p.error, p.traceback) g WHERE p.error_type IS NOT NULL;
SELECT rota.fold_errors();

INSERT INTO rota.tenant_days (tenant, day, succeeded, failed, other, seconds)
SELECT r.tenant, (r.finished_at AT TIME ZONE 'UTC')::date, count(*) FILTER (WHERE r.state = 'succeeded'),
       count(*) FILTER (WHERE r.state = 'failed'), count(*) FILTER (WHERE r.state = 'cancelled'), sum(r.duration_ms) / 1000
FROM rota.ended_runs r WHERE r.tenant <> '' GROUP BY 1, 2 ON CONFLICT DO NOTHING;

-- The schedules were created before the history, and operators paused and resumed a queue.
UPDATE rota.audit SET at = at - interval '73 hours';
INSERT INTO rota.audit (at, actor, action, object_type, object_id, before, after, reason)
VALUES (rota.now() - interval '26 hours', 'grace', 'queue.paused', 'queue', 'mail', '{"is_paused": false}', '{"is_paused": true}',
        'the mail provider refuses us'),
       (rota.now() - interval '25 hours', 'ada', 'queue.resumed', 'queue', 'mail', '{"is_paused": true}', '{"is_paused": false}', 'they are back');

ANALYZE rota.ended_runs, rota.past_attempts, rota.logs, rota.ledger, rota.rollup_minutes, rota.rollup_spans;
