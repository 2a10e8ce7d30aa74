-- What people do to schedules. Plain INSERT, UPDATE and DELETE on rota.schedules work too: the triggers
-- validate, audit and wake. Errors: RO007 no such schedule, RO005 not in this state.

CREATE FUNCTION rota.find_schedule(name text, tenant text) RETURNS rota.schedules LANGUAGE plpgsql STABLE AS $$
DECLARE
    found rota.schedules;
BEGIN
    SELECT s.* INTO found FROM rota.schedules s WHERE s.tenant = find_schedule.tenant AND s.name = find_schedule.name;
    IF found.id IS NULL THEN
        RAISE EXCEPTION 'no schedule is named "%"', find_schedule.name USING ERRCODE = 'RO007', HINT = 'rota.schedules lists them.';
    END IF;
    RETURN found;
END $$;

-- The audit's triggers read the actor from a setting: local to the transaction.
CREATE FUNCTION rota.act_as(actor text) RETURNS void LANGUAGE sql VOLATILE AS $$
    SELECT set_config('rota' || '.actor', actor, true) WHERE actor IS NOT NULL
$$;

CREATE FUNCTION rota.pause_schedule(name text, reason text DEFAULT NULL, until timestamptz DEFAULT NULL, tenant text DEFAULT '', actor text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    found rota.schedules := rota.find_schedule(pause_schedule.name, pause_schedule.tenant);
BEGIN
    IF pause_schedule.until <= rota.now() THEN
        PERFORM rota.bad_schedule(found.name, 'a pause ends in the future');
    END IF;
    PERFORM rota.act_as(pause_schedule.actor);
    UPDATE rota.schedules s
    SET paused_at = coalesce(s.paused_at, rota.now()), pause_reason = pause_schedule.reason, paused_until = pause_schedule.until,
        paused_by = coalesce(pause_schedule.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user)
    WHERE s.id = found.id;
END $$;

-- Goes on from now; with catch_up, the times since the pause are treated as missed and the policy decides.
CREATE FUNCTION rota.resume_schedule(name text, catch_up boolean DEFAULT false, tenant text DEFAULT '', actor text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    found rota.schedules := rota.find_schedule(resume_schedule.name, resume_schedule.tenant);
BEGIN
    IF found.paused_at IS NULL THEN
        RAISE EXCEPTION 'schedule "%" is not paused', found.name USING ERRCODE = 'RO005';
    END IF;
    PERFORM rota.act_as(resume_schedule.actor);
    UPDATE rota.schedules s SET paused_at = NULL, paused_by = NULL, pause_reason = NULL, paused_until = NULL, failures_in_a_row = 0
    WHERE s.id = found.id;
    IF resume_schedule.catch_up THEN
        -- The trigger has noted the stretch of the pause as skipped; it is owed after all.
        UPDATE rota.schedules s SET segments = s.segments - -1
        WHERE s.id = found.id AND jsonb_array_length(s.segments) > jsonb_array_length(found.segments);
    END IF;
END $$;

CREATE FUNCTION rota.set_schedule_enabled(name text, enabled boolean, tenant text DEFAULT '', actor text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    found rota.schedules := rota.find_schedule(set_schedule_enabled.name, set_schedule_enabled.tenant);
BEGIN
    PERFORM rota.act_as(set_schedule_enabled.actor);
    UPDATE rota.schedules s SET is_enabled = enabled WHERE s.id = found.id AND s.is_enabled <> enabled;
END $$;
CREATE FUNCTION rota.enable_schedule(name text, tenant text DEFAULT '', actor text DEFAULT NULL) RETURNS void LANGUAGE sql VOLATILE AS $$
    SELECT rota.set_schedule_enabled(enable_schedule.name, true, enable_schedule.tenant, enable_schedule.actor)
$$;
CREATE FUNCTION rota.disable_schedule(name text, tenant text DEFAULT '', actor text DEFAULT NULL) RETURNS void LANGUAGE sql VOLATILE AS $$
    SELECT rota.set_schedule_enabled(disable_schedule.name, false, disable_schedule.tenant, disable_schedule.actor)
$$;

-- Now, whatever the schedule's state; the cursor stays where it is.
CREATE FUNCTION rota.trigger_schedule(name text, payload jsonb DEFAULT NULL, tenant text DEFAULT '', actor text DEFAULT NULL)
RETURNS jsonb LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    found rota.schedules := rota.find_schedule(trigger_schedule.name, trigger_schedule.tenant);
    who   text := coalesce(trigger_schedule.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    made  bigint;
BEGIN
    SELECT r.run_id INTO made FROM rota.enqueue_run(
        job => found.job,
        payload => coalesce(trigger_schedule.payload, found.payload, (SELECT j.default_payload FROM rota.jobs j WHERE j.name = found.job), '{}'),
        queue => found.queue, priority => found.priority::integer, tenant => found.tenant, max_attempts => found.max_attempts::integer,
        timeout_seconds => found.timeout_seconds::double precision, tags => found.run_tags, metadata => found.run_metadata,
        triggered_by => jsonb_build_object('type', 'manual', 'actor', who, 'schedule', found.name)) r;
    PERFORM rota.write_audit(who, 'schedule.triggered', 'schedule', found.name, NULL, jsonb_build_object('run_id', made), NULL, found.tenant);
    RETURN jsonb_build_object('success', true, 'run_id', made, 'job', found.job, 'job_name', found.job, 'schedule', found.name);
END $$;

-- The next time is this instant; regular ones before it are superseded, the timing goes on after it.
CREATE FUNCTION rota.reschedule(name text, at timestamptz, tenant text DEFAULT '', actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    found rota.schedules := rota.find_schedule(reschedule.name, reschedule.tenant);
BEGIN
    IF reschedule.at IS NULL OR reschedule.at < rota.now() - interval '1 minute' THEN
        PERFORM rota.bad_schedule(found.name, 'the new time must be in the future');
    ELSIF found.init IS NOT NULL THEN
        PERFORM rota.bad_schedule(found.name, 'an init schedule has no time to move');
    END IF;
    PERFORM rota.act_as(reschedule.actor);
    UPDATE rota.schedules s SET moved_to = greatest(reschedule.at, s.cursor_at + interval '1 microsecond'), next_run_at = reschedule.at,
        version = s.version + 1, ticking_until = NULL, finished_at = NULL
    WHERE s.id = found.id;
    PERFORM rota.write_audit(NULL, 'schedule.rescheduled', 'schedule', found.name, jsonb_build_object('next_run_at', found.next_run_at),
        jsonb_build_object('next_run_at', reschedule.at), NULL, found.tenant);
END $$;

CREATE FUNCTION rota.delete_schedule(name text, cancel_waiting boolean DEFAULT false, tenant text DEFAULT '', actor text DEFAULT NULL)
RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    found     rota.schedules := rota.find_schedule(delete_schedule.name, delete_schedule.tenant);
    cancelled integer := 0;
BEGIN
    IF found.is_system THEN
        RAISE EXCEPTION 'schedule "%" belongs to Rota and cannot be deleted', found.name
            USING ERRCODE = 'RO005', HINT = 'Disable it instead.';
    END IF;
    PERFORM rota.act_as(delete_schedule.actor);
    DELETE FROM rota.schedules s WHERE s.id = found.id;
    IF cancel_waiting THEN
        SELECT count(*) INTO cancelled FROM rota.end_waiting_runs(
            ARRAY(SELECT o.id FROM rota.open_runs o WHERE o.schedule_id = found.id AND o.state <> 'running'), 'cancelled', 'its schedule was deleted');
    END IF;
    RETURN cancelled;
END $$;
