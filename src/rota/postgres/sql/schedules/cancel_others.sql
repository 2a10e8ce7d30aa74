-- Overlap policy cancel_running: the newest stay, as many as may run at once; what is older makes room, but for what `all` makes up for.
-- Numbers say which is newer: a run that somebody triggered has no nominal time.
SELECT rota.cancel_run(o.id, 'the next run of its schedule is due', 'rota')
FROM rota.schedules s CROSS JOIN LATERAL (
    SELECT w.id, w.triggered_by FROM rota.open_runs w WHERE w.schedule_id = s.id
    ORDER BY w.id DESC OFFSET s.max_concurrent_runs
) o WHERE s.id = ANY (%(ids)s::bigint[]) AND NOT (s.catch_up = 'all' AND o.triggered_by ->> 'type' = 'catch_up')
