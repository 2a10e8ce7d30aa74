-- Sums that hold whatever is in a row: one that fails keeps all runs from being promoted, or a whole batch from ending.

-- As before (0006); an infinite time is nobody's next one.
CREATE OR REPLACE FUNCTION rota.promote_runs(max_runs integer, OUT promoted integer, OUT next_due_seconds double precision)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    clock   timestamptz := rota.now();
    touched text[];
BEGIN
    -- Places are given in the order of the due times, not in that of the rows on their pages.
    WITH due AS MATERIALIZED (
        SELECT o.ctid AS tid FROM rota.open_runs o WHERE o.is_future AND o.run_at <= clock
        ORDER BY o.run_at LIMIT max_runs FOR UPDATE SKIP LOCKED
    ), placed AS MATERIALIZED (
        SELECT tid, nextval('rota.run_ids') AS seq FROM due
    ), moved AS (
        UPDATE rota.open_runs o
        SET state = 'queued', seq = p.seq, enqueued_at = clock_timestamp()
        FROM placed p WHERE o.ctid = p.tid
        RETURNING o.queue
    )
    SELECT count(*), array_agg(DISTINCT queue) INTO promoted, touched FROM moved;
    IF promoted > 0 THEN
        PERFORM rota.wake(touched);
    END IF;
    SELECT extract(epoch FROM o.run_at - clock) INTO next_due_seconds
    FROM rota.open_runs o WHERE o.is_future AND o.run_at < 'infinity' ORDER BY o.run_at LIMIT 1;
END $$;

-- As before (0010); a time that adds up to no instant is cut.
CREATE OR REPLACE FUNCTION rota.schedule_run_ended() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    ok boolean := NEW.state = 'succeeded';
BEGIN
    UPDATE rota.ledger l
    SET state = NEW.state, success = ok, duration_ms = NEW.duration_ms, error = NEW.error,
        lateness_ms = CASE WHEN isfinite(NEW.run_at) THEN extract(epoch FROM NEW.started_at - NEW.run_at) * 1000 END
    WHERE l.schedule_id = NEW.schedule_id AND l.nominal_at = NEW.scheduled_for AND l.run_id = NEW.id;
    -- Locks the schedule, whatever it changes: a tick that holds a run back because of this one is then either
    -- seen below, or sees this end.
    UPDATE rota.schedules s
    SET last_run_at = greatest(s.last_run_at, NEW.finished_at),
        last_run_success = CASE WHEN s.last_run_at > NEW.finished_at THEN s.last_run_success ELSE ok END,
        last_success_at = CASE WHEN ok THEN greatest(s.last_success_at, NEW.finished_at) ELSE s.last_success_at END,
        last_success_for = CASE WHEN ok THEN greatest(s.last_success_for, NEW.scheduled_for) ELSE s.last_success_for END,
        failures_in_a_row = CASE WHEN ok THEN 0 WHEN NEW.state = 'failed' THEN s.failures_in_a_row + 1 ELSE s.failures_in_a_row END,
        next_run_at = CASE WHEN s.every_from = 'end' AND s.moved_to IS NULL
                      THEN rota.after(NEW.finished_at, least(s.interval_seconds, 3153600000)) ELSE s.next_run_at END
    WHERE s.id = NEW.schedule_id;
    UPDATE rota.schedules s
    SET paused_at = rota.now(), paused_by = 'rota', pause_reason = format('%s runs failed in a row', s.failures_in_a_row)
    WHERE s.id = NEW.schedule_id AND s.failures_in_a_row >= s.pause_after_failures AND s.paused_at IS NULL;
    PERFORM pg_notify('rota', 'schedules') FROM rota.schedules s WHERE s.id = NEW.schedule_id AND s.every_from = 'end';
    PERFORM rota.free_held_runs(ARRAY[NEW.schedule_id]);
    RETURN NULL;
END $$;

-- Columns have been added since these tables were guarded.
SELECT rota.guard_values(t, false) FROM unnest(ARRAY['rota.open_runs', 'rota.workers']::regclass[]) t;
SELECT rota.guard_values(t, true) FROM unnest(ARRAY['rota.jobs', 'rota.schedules']::regclass[]) t;
