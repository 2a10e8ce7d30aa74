-- An instant that somebody sets for the next time of a schedule holds until it comes, whoever sets it and in whatever state the
-- schedule is; and stretches of the past are written down at once, whenever the next time is.

DROP INDEX rota.schedules_due;
ALTER TABLE rota.schedules DROP COLUMN due_at;
-- When a tick has something to do: at the end of the pause, at once, or at the next time.
ALTER TABLE rota.schedules ADD COLUMN due_at timestamptz GENERATED ALWAYS AS (
    CASE WHEN paused_at IS NOT NULL THEN paused_until
         WHEN segments <> '[]' OR next_run_at IS NULL THEN '1000-01-01 00:00Z'
         ELSE next_run_at END) STORED;
CREATE INDEX schedules_due ON rota.schedules (due_at, id) WHERE is_ticking AND init IS NULL;

-- The next time is this instant; regular ones before it are superseded, the timing goes on after it.
CREATE FUNCTION rota.move_schedule(s rota.schedules, at timestamptz) RETURNS rota.schedules LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF s.init IS NOT NULL THEN
        PERFORM rota.bad_schedule(s.name, 'an init schedule has no time to move');
    ELSIF at < rota.now() - interval '1 minute' OR NOT rota.is_instant(at) THEN
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

-- Cron cannot be computed here: next_run_at becomes NULL, and whoever can, fills it in: the tick, or the Python that edits.
CREATE OR REPLACE FUNCTION rota.check_schedule() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    clock    timestamptz := rota.now();
    told     text;
    is_timed boolean;       -- another timing
BEGIN
    -- The tick counts the version up itself: what it writes is no edit.
    IF TG_OP = 'UPDATE' AND NEW.version <> OLD.version THEN
        RETURN NEW;
    END IF;
    -- Only what is new: the end of a run may pause a schedule whose calendar is gone, and must not fail.
    IF TG_OP = 'INSERT' OR (NEW.job, NEW.calendar, NEW.timezone, NEW.cron, NEW.has_seconds)
       IS DISTINCT FROM (OLD.job, OLD.calendar, OLD.timezone, OLD.cron, OLD.has_seconds) THEN
        PERFORM rota.check_schedule_words(NEW);
    END IF;

    IF TG_OP = 'INSERT' THEN
        -- It owes nothing from before it was made. A start a moment ago still counts.
        NEW.anchor_at := coalesce(NEW.anchor_at, NEW.start_at, clock);
        NEW.cursor_at := coalesce(NEW.cursor_at, least(clock, CASE
            WHEN coalesce(NEW.start_at, NEW.run_at) > clock - make_interval(secs => NEW.grace_seconds)
            THEN coalesce(NEW.start_at, NEW.run_at) - interval '1 microsecond' ELSE clock END));
        IF NEW.next_run_at IS NOT NULL THEN
            NEW := rota.move_schedule(NEW, NEW.next_run_at);
        END IF;
        RETURN NEW;
    END IF;

    told := CASE WHEN NOT OLD.is_enabled THEN 'disabled' WHEN OLD.paused_at IS NOT NULL THEN 'paused' END;
    NEW.version := OLD.version + 1;
    NEW.updated_at := clock;
    NEW.updated_by := coalesce(nullif(current_setting('rota' || '.actor', true), ''), session_user);
    IF NEW.interval_seconds IS DISTINCT FROM OLD.interval_seconds OR NEW.start_at IS DISTINCT FROM OLD.start_at THEN
        NEW.anchor_at := coalesce(NEW.start_at, clock);
    END IF;
    is_timed := rota.timing_of(OLD) <> rota.timing_of(NEW) OR NEW.init IS DISTINCT FROM OLD.init;
    IF is_timed OR (NOT OLD.is_enabled AND NEW.is_enabled) OR (OLD.paused_at IS NOT NULL AND NEW.paused_at IS NULL) THEN
        IF OLD.init IS NULL AND OLD.finished_at IS NULL AND clock > OLD.cursor_at THEN
            NEW.segments := OLD.segments || jsonb_build_object('timing', rota.timing_of(OLD), 'until', clock,
                'decision', CASE WHEN told IS NULL THEN 'superseded' ELSE 'skipped' END, 'reason', coalesce(told, 'edited'));
        ELSE
            NEW.cursor_at := greatest(OLD.cursor_at, clock);
        END IF;
    END IF;
    -- Any edit revives; if there is nothing left to do, the tick finishes it again. It owes nothing meanwhile.
    IF OLD.finished_at IS NOT NULL THEN
        NEW.finished_at := NULL;
        NEW.cursor_at := greatest(OLD.cursor_at, clock);
    END IF;
    IF OLD.paused_at IS NOT NULL AND NEW.paused_at IS NULL THEN
        NEW.failures_in_a_row := 0;
    END IF;
    NEW.parked_at := NULL;
    NEW.error := NULL;
    NEW.parked_times := 0;
    NEW.retry_at := NULL;
    NEW.ticking_until := NULL;
    IF NEW.next_run_at IS DISTINCT FROM OLD.next_run_at AND NEW.next_run_at IS NOT NULL THEN
        NEW := rota.move_schedule(NEW, NEW.next_run_at);
    ELSE
        -- Who says anew when it runs, has said it for the next time too; nobody else takes back an instant that was set.
        NEW.moved_to := CASE WHEN NOT is_timed THEN NEW.moved_to END;
        NEW.next_run_at := NEW.moved_to;
    END IF;
    RETURN NEW;
END $$;

-- A plain UPDATE of next_run_at is a reschedule. Whoever counts the version up has computed it.
CREATE FUNCTION rota.check_next_run() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    at timestamptz := CASE WHEN NEW.next_run_at IS DISTINCT FROM OLD.next_run_at THEN NEW.next_run_at ELSE NEW.moved_to END;
BEGIN
    IF at IS NULL THEN
        NEW.moved_to := NULL;
        NEW.next_run_at := NULL;
    ELSE
        NEW := rota.move_schedule(NEW, at);
    END IF;
    NEW.version := OLD.version + 1;
    NEW.edit_version := OLD.edit_version + 1;
    NEW.updated_at := rota.now();
    NEW.updated_by := coalesce(nullif(current_setting('rota' || '.actor', true), ''), session_user);
    RETURN NEW;
END $$;
CREATE TRIGGER schedules_check_next BEFORE UPDATE OF next_run_at, moved_to ON rota.schedules FOR EACH ROW
WHEN (NEW.version = OLD.version AND (NEW.next_run_at, NEW.moved_to) IS DISTINCT FROM (OLD.next_run_at, OLD.moved_to))
EXECUTE FUNCTION rota.check_next_run();

CREATE FUNCTION rota.audit_next_run() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF NEW.moved_to IS DISTINCT FROM OLD.moved_to AND NEW.moved_to IS NOT NULL THEN
        PERFORM rota.write_audit(NULL, 'schedule.rescheduled', 'schedule', NEW.name, jsonb_build_object('next_run_at', OLD.next_run_at),
            jsonb_build_object('next_run_at', NEW.next_run_at), NULL, NEW.tenant);
    END IF;
    PERFORM pg_notify('rota', 'schedules');
    RETURN NULL;
END $$;
CREATE TRIGGER schedules_audit_next AFTER UPDATE OF next_run_at, moved_to ON rota.schedules FOR EACH ROW
WHEN (NEW.edit_version <> OLD.edit_version)
EXECUTE FUNCTION rota.audit_next_run();

CREATE OR REPLACE FUNCTION rota.reschedule(name text, at timestamptz, tenant text DEFAULT '', actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found rota.schedules := rota.find_schedule(reschedule.name, reschedule.tenant);
BEGIN
    IF reschedule.at IS NULL THEN
        PERFORM rota.bad_schedule(found.name, 'the new time must be in the future');
    END IF;
    PERFORM rota.act_as(reschedule.actor);
    UPDATE rota.schedules s SET next_run_at = reschedule.at, moved_to = reschedule.at WHERE s.id = found.id;
END $$;
