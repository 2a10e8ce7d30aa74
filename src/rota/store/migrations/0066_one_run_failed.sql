-- As before (0065), with words that are right for one run.
CREATE OR REPLACE FUNCTION rota.note_schedule_end(e rota.schedule_ends) RETURNS void LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    ok      boolean := e.state = 'succeeded';
    is_time boolean := e.scheduled_for IS NOT NULL OR e.is_init;
BEGIN
    UPDATE rota.ledger l
    SET state = e.state, success = ok, duration_ms = e.duration_ms, error = e.error, lateness_ms = e.lateness_ms
    WHERE l.schedule_id = e.schedule_id AND l.nominal_at = e.scheduled_for AND l.run_id = e.run_id;
    UPDATE rota.schedules s
    SET last_run_at = greatest(s.last_run_at, e.finished_at),
        last_run_success = CASE WHEN s.last_run_at > e.finished_at THEN s.last_run_success ELSE ok END,
        last_success_at = CASE WHEN ok THEN greatest(s.last_success_at, e.finished_at) ELSE s.last_success_at END,
        last_success_for = CASE WHEN ok THEN greatest(s.last_success_for, e.scheduled_for) ELSE s.last_success_for END,
        failures_in_a_row = CASE WHEN ok THEN 0 WHEN e.state = 'failed' AND is_time THEN s.failures_in_a_row + 1 ELSE s.failures_in_a_row END,
        finished_at = CASE WHEN ok AND e.is_init AND s.init = 'once' THEN e.finished_at ELSE s.finished_at END
    WHERE s.id = e.schedule_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF is_time THEN
        -- One that counts from the end of its run is due so long after it.
        UPDATE rota.schedules s SET next_run_at = rota.after(e.finished_at, least(s.interval_seconds, 3153600000)), version = s.version + 1
        WHERE s.id = e.schedule_id AND s.every_from = 'end' AND s.moved_to IS NULL;
    ELSE
        -- A worker of an older release may have let it wait for this end: the next tick computes its time.
        UPDATE rota.schedules s SET next_run_at = NULL, version = s.version + 1
        WHERE s.id = e.schedule_id AND s.every_from = 'end' AND s.moved_to IS NULL AND s.next_run_at = 'infinity'
          AND NOT EXISTS (SELECT FROM rota.open_runs o WHERE o.schedule_id = e.schedule_id AND o.scheduled_for IS NOT NULL);
    END IF;
    PERFORM pg_notify('rota', 'schedules') WHERE FOUND;
    UPDATE rota.schedules s
    SET paused_at = rota.now(), paused_by = 'rota',
        pause_reason = CASE s.failures_in_a_row WHEN 1 THEN '1 run failed in a row' ELSE format('%s runs failed in a row', s.failures_in_a_row) END
    WHERE s.id = e.schedule_id AND s.failures_in_a_row >= s.pause_after_failures AND s.paused_at IS NULL;
    IF e.is_init THEN
        UPDATE rota.init_runs i SET state = e.state WHERE i.run_id = e.run_id;
    END IF;
    INSERT INTO rota.schedule_days AS d (schedule_id, day, succeeded, failed, cancelled, timed, duration_ms, longest_ms)
    VALUES (e.schedule_id, (e.finished_at AT TIME ZONE 'UTC')::date, ok::integer, (e.state = 'failed')::integer,
            (e.state = 'cancelled')::integer, (e.duration_ms IS NOT NULL)::integer, coalesce(e.duration_ms, 0), coalesce(e.duration_ms, 0))
    ON CONFLICT (schedule_id, day) DO UPDATE SET
        succeeded = d.succeeded + excluded.succeeded, failed = d.failed + excluded.failed,
        cancelled = d.cancelled + excluded.cancelled, timed = d.timed + excluded.timed,
        duration_ms = d.duration_ms + excluded.duration_ms, longest_ms = greatest(d.longest_ms, excluded.longest_ms);
END $$;
