-- A run that somebody triggers belongs to its schedule: lists, status, requirements and overlap count it. It takes no nominal time.
CREATE OR REPLACE FUNCTION rota.trigger_schedule(
    name text, payload jsonb DEFAULT NULL, tenant text DEFAULT '', actor text DEFAULT NULL, metadata jsonb DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found rota.schedules := rota.find_schedule(trigger_schedule.name, trigger_schedule.tenant);
    who   text := coalesce(trigger_schedule.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    made  bigint;
BEGIN
    SELECT r.run_id INTO made FROM rota.enqueue_run(
        job => found.job,
        payload => coalesce(trigger_schedule.payload, found.payload, (SELECT j.default_payload FROM rota.jobs j WHERE j.name = found.job), '{}'),
        queue => found.queue, priority => found.priority::integer, tenant => found.tenant, max_attempts => found.max_attempts::integer,
        timeout_seconds => found.timeout_seconds::double precision, tags => found.run_tags,
        metadata => coalesce(trigger_schedule.metadata || found.run_metadata, trigger_schedule.metadata, found.run_metadata),
        triggered_by => jsonb_build_object('type', 'manual', 'actor', who, 'schedule', found.name)) r;
    UPDATE rota.open_runs o SET schedule = found.name, schedule_id = found.id WHERE o.id = made;
    PERFORM rota.write_audit(who, 'schedule.triggered', 'schedule', found.name, NULL, jsonb_build_object('run_id', made), NULL, found.tenant);
    RETURN jsonb_build_object('success', true, 'run_id', made, 'job', found.job, 'job_name', found.job, 'schedule', found.name);
END $$;

-- Of the unfinished runs of a schedule, those that somebody triggered: one that counts from the end of its runs does not wait for them.
CREATE FUNCTION rota.count_triggered(schedule_id bigint) RETURNS integer LANGUAGE sql STABLE SET enable_seqscan = off SET jit = off AS $$
    SELECT count(*)::integer FROM rota.open_runs o WHERE o.schedule_id = count_triggered.schedule_id AND o.scheduled_for IS NULL
$$;

-- Into the ledger, which outlives the run; into the schedule; and into the counts of its days. The rows are locked. A run without
-- a nominal time was triggered by somebody: its failure is none of the times' in a row, and its end moves no time.
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
    SET paused_at = rota.now(), paused_by = 'rota', pause_reason = format('%s runs failed in a row', s.failures_in_a_row)
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

-- Refusals without a hint have no empty one.
CREATE OR REPLACE FUNCTION rota.bad_schedule(name text, what text, hint text DEFAULT NULL) RETURNS void LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
BEGIN
    IF hint IS NULL THEN
        RAISE EXCEPTION 'schedule "%": %', name, what USING ERRCODE = 'RO002';
    END IF;
    RAISE EXCEPTION 'schedule "%": %', name, what USING ERRCODE = 'RO002', HINT = hint;
END $$;
CREATE OR REPLACE FUNCTION rota.bad_job(name text, what text, hint text DEFAULT NULL) RETURNS void LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
BEGIN
    IF hint IS NULL THEN
        RAISE EXCEPTION 'job "%": %', name, what USING ERRCODE = 'RO002';
    END IF;
    RAISE EXCEPTION 'job "%": %', name, what USING ERRCODE = 'RO002', HINT = hint;
END $$;

-- The next time is this instant; regular ones before it are superseded, the timing goes on after it.
CREATE OR REPLACE FUNCTION rota.move_schedule(s rota.schedules, at timestamptz) RETURNS rota.schedules LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF s.init IS NOT NULL THEN
        PERFORM rota.bad_schedule(s.name, 'an init schedule has no time to move');
    ELSIF NOT rota.is_instant(at) THEN
        PERFORM rota.bad_schedule(s.name, format('its next time must be an instant, not %s', at),
            'rota.pause_schedule and rota.disable_schedule keep it from running; next_run_at = NULL computes its next time anew.');
    ELSIF at < rota.now() - interval '1 minute' THEN
        PERFORM rota.bad_schedule(s.name, format('its next time must be in the future, not %s', at),
            'next_run_at = NULL computes it anew; rota.trigger_schedule runs it now.');
    END IF;
    s.moved_to := greatest(at, s.cursor_at + interval '1 microsecond');
    s.next_run_at := s.moved_to;
    s.finished_at := NULL;
    s.parked_at := NULL;
    s.error := NULL;
    s.parked_times := 0;
    s.retry_at := NULL;
    RETURN s;
END $$;
