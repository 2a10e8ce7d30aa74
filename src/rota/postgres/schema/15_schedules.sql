-- `schedules` with `calendars` and `schedule_templates`; `ledger`, one row for each nominal time and the decision
-- about it; `backfills`. People write the tables, triggers check and audit. The times are computed by the tick
-- (16_tick), never here: SQL knows no cron.

-- When a schedule is closed or open. The definition is read by Python.
CREATE TABLE rota.calendars (
    name        text COLLATE "C" PRIMARY KEY CHECK (name <> '' AND length(name) <= 100),
    description text NOT NULL DEFAULT '' CONSTRAINT calendars_description CHECK (length(description) <= 10000),
    definition  jsonb NOT NULL CHECK (jsonb_typeof(definition) = 'object'),
    updated_at  timestamptz NOT NULL DEFAULT rota.now(),
    version     bigint NOT NULL DEFAULT 1
);
COMMENT ON TABLE rota.calendars IS 'Holidays, weekends and closed windows, shared by schedules.';

-- Trigger: the zone of a calendar is one; what else is wrong with a definition, the tick says. Then its version.
CREATE FUNCTION rota.before_calendar() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF jsonb_typeof(NEW.definition -> 'timezone') = 'string'
        AND (TG_OP = 'INSERT' OR NEW.definition -> 'timezone' IS DISTINCT FROM OLD.definition -> 'timezone') THEN
        PERFORM rota.check_zone('calendar', NEW.name, NEW.definition ->> 'timezone');
    END IF;
    IF TG_OP = 'UPDATE' THEN
        NEW.version := rota.next_version(OLD.version, to_jsonb(OLD), to_jsonb(NEW), '{version,updated_at}');
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER calendars_before BEFORE INSERT OR UPDATE ON rota.calendars FOR EACH ROW
    EXECUTE FUNCTION rota.before_calendar();

-- Trigger: writes the audit; a calendar that can be read again brings back the schedules that it parked. Whatever they
-- missed meanwhile, their catch-up decides.
CREATE FUNCTION rota.after_calendar() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    PERFORM rota.audit_row('calendar', '{created,updated,deleted}', to_jsonb(OLD), to_jsonb(NEW),
        '{version,updated_at}');
    IF TG_OP = 'INSERT' OR (TG_OP = 'UPDATE' AND NEW.definition <> OLD.definition) THEN
        UPDATE rota.schedule_state t SET parked_at = NULL, error = NULL, parked_times = 0, retry_at = NULL,
            tick_version = t.tick_version + 1
        FROM rota.schedules s WHERE s.calendar = NEW.name AND t.schedule_id = s.id AND t.parked_at IS NOT NULL;
        PERFORM rota.call_workers('schedules') WHERE FOUND;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER calendars_after AFTER INSERT OR UPDATE OR DELETE ON rota.calendars FOR EACH ROW
    EXECUTE FUNCTION rota.after_calendar();

-- Cron lines with a name, offered where somebody makes a schedule.
CREATE TABLE rota.schedule_templates (
    name        text PRIMARY KEY CHECK (name <> '' AND length(name) <= 100),
    cron        text NOT NULL,
    description text NOT NULL DEFAULT ''
        CONSTRAINT schedule_templates_description CHECK (length(description) <= 10000),
    version     bigint NOT NULL DEFAULT 1
);

INSERT INTO rota.schedule_templates (name, cron, description) VALUES
    ('Every 5 minutes', '*/5 * * * *', 'Every five minutes'),
    ('Every 15 minutes', '*/15 * * * *', 'Every quarter of an hour'),
    ('Hourly', '0 * * * *', 'Every hour on the hour'),
    ('Every 6 hours', '0 */6 * * *', 'At 00:00, 06:00, 12:00 and 18:00'),
    ('Daily midnight', '0 0 * * *', 'Every day at midnight'),
    ('Daily 3 AM', '0 3 * * *', 'Every day at 3 AM, a quiet hour for upkeep'),
    ('Daily 9 AM', '0 9 * * *', 'Every day at 9 AM'),
    ('Weekdays 9 AM', '0 9 * * 1-5', 'Monday to Friday at 9 AM'),
    ('Weekly Monday 8 AM', '0 8 * * 1', 'Every Monday at 8 AM'),
    ('Weekly Sunday midnight', '0 0 * * 0', 'Every Sunday at midnight'),
    ('Monthly first midnight', '0 0 1 * *', 'The first of every month at midnight'),
    ('Monthly last day 6 PM', '0 18 L * *', 'The last day of every month at 6 PM'),
    ('Quarterly', '0 0 1 1,4,7,10 *', 'The first day of every quarter at midnight'),
    ('Yearly', '0 0 1 1 *', 'The first of January at midnight');

-- Whether a cron expression has as many fields as it must; a macro (@daily) has none. Python reads what they say.
-- Called by: before_template, check_schedule_words.
CREATE FUNCTION rota.has_cron_fields(cron text, fields integer[]) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT cron ~ '^\s*@' OR array_length(regexp_split_to_array(btrim(cron), '\s+'), 1) = ANY (fields)
$$;

-- Trigger: refuses a template whose cron expression can be none.
CREATE FUNCTION rota.before_template() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF NOT rota.has_cron_fields(NEW.cron, '{5,6}') THEN
        RAISE EXCEPTION 'template "%": cron "%" does not have 5 or 6 fields', NEW.name, NEW.cron
            USING ERRCODE = 'RO002', HINT = 'Six fields begin with the seconds.';
    END IF;
    IF TG_OP = 'UPDATE' THEN
        NEW.version := rota.next_version(OLD.version, to_jsonb(OLD), to_jsonb(NEW), '{version}');
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER schedule_templates_before BEFORE INSERT OR UPDATE ON rota.schedule_templates FOR EACH ROW
    EXECUTE FUNCTION rota.before_template();

-- Trigger: writes the audit. It comes after the rows that every installation has.
CREATE FUNCTION rota.after_template() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    PERFORM rota.audit_row('template', '{added,updated,removed}', to_jsonb(OLD), to_jsonb(NEW), '{version}');
    RETURN NULL;
END $$;
CREATE TRIGGER schedule_templates_after AFTER INSERT OR UPDATE OR DELETE ON rota.schedule_templates FOR EACH ROW
    EXECUTE FUNCTION rota.after_template();

-- One row for each schedule: what people and code say of it. Where it stands is in schedule_state: no tick and no end
-- of a run writes here, but for what Rota does as an operator would (a pause after failures, the end of a pause, a set
-- time that has come).
CREATE TABLE rota.schedules (
    id                   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant               text COLLATE "C" NOT NULL DEFAULT '',
    name                 text COLLATE "C" NOT NULL CHECK (name <> '' AND length(name) <= 200),
    job                  text COLLATE "C" NOT NULL,
    description          text NOT NULL DEFAULT ''
        CONSTRAINT schedules_description CHECK (length(description) <= 10000),
    tags                 text[] NOT NULL DEFAULT '{}',
    metadata             jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    -- When: exactly one of four.
    cron                 text,
    interval_seconds     double precision CHECK (interval_seconds >= 1),
    run_at               timestamptz,
    init                 text CHECK (init IN ('once', 'release', 'start')),
    has_seconds          boolean NOT NULL DEFAULT false,
    timezone             text NOT NULL DEFAULT 'UTC',
    gap                  text NOT NULL DEFAULT 'run_after' CHECK (gap IN ('run_after', 'skip')),
    fold                 text NOT NULL DEFAULT 'first' CHECK (fold IN ('first', 'second', 'both')),
    every_from           text NOT NULL DEFAULT 'start' CHECK (every_from IN ('start', 'end')),
    start_at             timestamptz,
    end_at               timestamptz,
    max_runs             integer CHECK (max_runs >= 1),
    jitter_seconds       double precision NOT NULL DEFAULT 0 CHECK (jitter_seconds >= 0),
    calendar             text,
    on_closed            text NOT NULL DEFAULT 'skip' CHECK (on_closed IN ('skip', 'next_day')),
    -- Policies.
    catch_up             text NOT NULL DEFAULT 'latest' CHECK (catch_up IN ('none', 'latest', 'all')),
    catch_up_window_seconds     double precision CHECK (catch_up_window_seconds >= 0),
    catch_up_limit       integer NOT NULL DEFAULT 100 CHECK (catch_up_limit >= 1),
    grace_seconds        double precision NOT NULL DEFAULT 60 CHECK (grace_seconds >= 0),
    overlap              text NOT NULL DEFAULT 'skip'
        CHECK (overlap IN ('skip', 'queue_one', 'queue_all', 'cancel_running', 'allow')),
    max_concurrent_runs  integer NOT NULL DEFAULT 1 CHECK (max_concurrent_runs >= 1),
    pause_after_failures integer CHECK (pause_after_failures >= 1),
    requires             jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(requires) = 'array'),
    is_shadow            boolean NOT NULL DEFAULT false,
    delete_when_finished boolean NOT NULL DEFAULT false,
    -- What its runs get.
    payload              jsonb CHECK (jsonb_typeof(payload) = 'object'),
    queue                text COLLATE "C" CHECK (queue <> '' AND length(queue) <= 100),
    priority             smallint CHECK (priority BETWEEN 0 AND 9),
    max_attempts         smallint CHECK (max_attempts BETWEEN 1 AND 100),
    timeout_seconds      real CHECK (timeout_seconds > 0),
    run_tags             text[],
    run_metadata         jsonb CHECK (jsonb_typeof(run_metadata) = 'object'),
    -- What operators say.
    is_enabled           boolean NOT NULL DEFAULT true,
    paused_at            timestamptz,
    paused_by            text,
    pause_reason         text,
    paused_until         timestamptz,
    is_system            boolean NOT NULL DEFAULT false,
    created_at           timestamptz NOT NULL DEFAULT rota.now(),
    updated_at           timestamptz NOT NULL DEFAULT rota.now(),
    updated_by           text,
    anchor_at            timestamptz,                 -- from where an interval counts
    origin               text CHECK (origin IN ('definition', 'code')),
    code                 jsonb CHECK (jsonb_typeof(code) = 'object'),
    edited               jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(edited) = 'object'),
    version              bigint NOT NULL DEFAULT 1,
    -- Schedules that are due at one instant are spread over a few seconds, unless they say burst_allowed. The start of
    -- the run moves (run_at), the nominal time does not.
    burst_allowed        boolean NOT NULL DEFAULT false,
    -- Whose code says it at its start (app.schedule), so that a line that was removed is seen; NULL: nobody's, or said
    -- at run time.
    application          text COLLATE "C",
    -- The next time, if somebody has set it, until it comes; NULL: the timing says. schedule_state has the next time in
    -- any case.
    next_run_at          timestamptz,
    moved_xid            xid8,                        -- which transaction set it
    CONSTRAINT schedules_name UNIQUE (tenant, name),
    CONSTRAINT schedules_timing CHECK (num_nonnulls(cron, interval_seconds, run_at, init) = 1),
    CONSTRAINT schedules_pause CHECK (paused_at IS NOT NULL OR (paused_until IS NULL AND pause_reason IS NULL)),
    CONSTRAINT schedules_bounds CHECK (end_at > start_at),
    CONSTRAINT schedules_every_from CHECK (every_from = 'start' OR interval_seconds IS NOT NULL)
);
CREATE INDEX schedules_job ON rota.schedules (job);
CREATE INDEX schedules_stopped ON rota.schedules (paused_at) WHERE paused_by = 'rota' AND paused_at IS NOT NULL;

-- Where each schedule stands: how far it has come, and how its runs have ended. Written by ticks, by the ends of runs,
-- and by the trigger of edits (follow_edit), never by people. Narrow: every tick and every end writes it.
CREATE TABLE rota.schedule_state (
    schedule_id       bigint PRIMARY KEY,
    tick_version      bigint NOT NULL DEFAULT 1,    -- grows with all that a tick must not overwrite
    cursor_at         timestamptz NOT NULL,         -- everything up to here is decided
    next_run_at       timestamptz,                  -- NULL: the next tick computes it; infinity: after the end of a run
    moved_to          timestamptz,                  -- the next time, because somebody has set it
    -- Stretches that end before now and are decided already, each with the timing it had:
    -- [{timing, until, decision, reason}], oldest first.
    segments          jsonb NOT NULL DEFAULT '[]',
    -- What the choice of due schedules needs of the definition: whether it is disabled, paused or run by starts; the
    -- end of the pause; whether it is spread with those that are due at the same instant.
    is_stopped        boolean NOT NULL,
    stopped_until     timestamptz,
    is_spread         boolean NOT NULL,
    finished_at       timestamptz,
    parked_at         timestamptz,
    error             text,
    parked_times      integer NOT NULL DEFAULT 0,   -- in a row
    retry_at          timestamptz,                  -- when a parked one is tried again
    run_count         bigint NOT NULL DEFAULT 0,
    failures_in_a_row integer NOT NULL DEFAULT 0,
    last_enqueued_at  timestamptz,
    last_run_at       timestamptz,
    last_run_success  boolean,
    last_success_at   timestamptz,
    last_success_for  timestamptz,
    -- When a tick has something to do: at the end of the pause, at once, or at the next time; NULL: never.
    due_at            timestamptz GENERATED ALWAYS AS (
        CASE WHEN finished_at IS NOT NULL OR parked_at IS NOT NULL THEN NULL
             WHEN is_stopped THEN stopped_until
             WHEN segments <> '[]' OR next_run_at IS NULL THEN '1000-01-01 00:00Z'
             ELSE nullif(next_run_at, 'infinity') END) STORED
) WITH (fillfactor = 70);
CREATE INDEX schedule_state_due ON rota.schedule_state (due_at, schedule_id) WHERE due_at IS NOT NULL;
CREATE INDEX schedule_state_finished ON rota.schedule_state (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX schedule_state_parked ON rota.schedule_state (retry_at) WHERE parked_at IS NOT NULL;
COMMENT ON TABLE rota.schedule_state IS 'How far each schedule has come, and how its runs have ended.';

-- Refuses a schedule (RO002), in words that name it.
-- Called by: before_schedule, check_next_run, check_requirements, check_requires, check_schedule_words, pause_schedule.
CREATE FUNCTION rota.bad_schedule(name text, what text, hint text DEFAULT NULL, field text DEFAULT '') RETURNS void
LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
BEGIN
    IF hint IS NULL THEN
        RAISE EXCEPTION 'schedule "%": %', name, what USING ERRCODE = 'RO002', COLUMN = field;
    END IF;
    RAISE EXCEPTION 'schedule "%": %', name, what USING ERRCODE = 'RO002', COLUMN = field, HINT = hint;
END $$;

-- Everything of a schedule that says when: what a stretch of the past was decided by.
-- Called by: before_schedule, follow_edit.
CREATE FUNCTION rota.timing_of(s rota.schedules) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'cron', s.cron, 'interval_seconds', s.interval_seconds, 'run_at', s.run_at, 'has_seconds', s.has_seconds,
        'timezone', s.timezone, 'gap', s.gap, 'fold', s.fold, 'every_from', s.every_from,
        'start_at', s.start_at, 'end_at', s.end_at, 'anchor_at', s.anchor_at)
$$;

-- Checks what SQL can check; the tick parks the rest with its error.
-- Called by: before_schedule.
CREATE FUNCTION rota.check_schedule_words(s rota.schedules) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    fields constant integer := CASE WHEN s.has_seconds THEN 6 ELSE 5 END;
BEGIN
    IF NOT EXISTS (SELECT FROM rota.jobs j WHERE j.name = s.job) THEN
        PERFORM rota.unknown_job(s.job);
    END IF;
    IF s.calendar IS NOT NULL AND NOT EXISTS (SELECT FROM rota.calendars c WHERE c.name = s.calendar) THEN
        PERFORM rota.bad_schedule(s.name, format('there is no calendar "%s"', s.calendar), field => 'calendar');
    END IF;
    IF NOT rota.has_cron_fields(s.cron, ARRAY[fields]) THEN
        PERFORM rota.bad_schedule(s.name, format('cron "%s" does not have %s fields', s.cron, fields),
            'Six fields (seconds first) require has_seconds.', 'cron');
    END IF;
END $$;

-- Checks the shape of what a schedule requires: names, each with a period or not. What they mean is looked at when the
-- transaction ends (requirement_fault), so that schedules that require one another can come in any order.
-- Called by: before_schedule.
CREATE FUNCTION rota.check_requires(s rota.schedules) RETURNS void LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    one jsonb;
BEGIN
    FOR one IN SELECT e FROM jsonb_array_elements(s.requires) e LOOP
        IF (CASE WHEN jsonb_typeof(one) <> 'object' THEN true
                 WHEN coalesce(one ->> 'name', '') = '' OR one - '{name,within_seconds}'::text[] <> '{}' THEN true
                 WHEN jsonb_typeof(one -> 'within_seconds') = 'number' THEN (one ->> 'within_seconds')::numeric <= 0
                 ELSE jsonb_typeof(one -> 'within_seconds') <> 'null' END) THEN
            PERFORM rota.bad_schedule(s.name, format('requires cannot contain %s', left(one::text, 100)),
                'Write for example [{"name": "import", "within_seconds": 3600}].', 'requires');
        END IF;
    END LOOP;
END $$;

-- What a schedule requires, with the present names of jobs. A name of a schedule goes before that of a job.
-- Called by: before_schedule.
CREATE FUNCTION rota.present_requires(s rota.schedules) RETURNS jsonb LANGUAGE plpgsql STABLE SET jit = off AS $$
BEGIN
    RETURN coalesce((SELECT jsonb_agg(CASE
            WHEN EXISTS (SELECT FROM rota.schedules o WHERE o.tenant = s.tenant AND o.name = e ->> 'name') THEN e
            ELSE e || jsonb_build_object('name', rota.present_name(e ->> 'name')) END ORDER BY n)
        FROM jsonb_array_elements(s.requires) WITH ORDINALITY AS v (e, n)), '[]');
END $$;

-- What is wrong with what a schedule requires, in words; NULL: nothing. It is known, and does not wait for the schedule
-- itself; a job stands for all of its schedules. Each schedule on the way is looked at once.
-- Called by: check_requirements, sql/schedules/requirements.sql.
CREATE FUNCTION rota.requirement_fault(s rota.schedules, is_code boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    seen    bigint[] := ARRAY[s.id];
    names   text[] := ARRAY[s.name];
    befores integer[] := '{0}';         -- from which of them each was reached
    at      integer := 1;
    way     text;
    next    record;
    unknown text;
BEGIN
    -- A path takes what is no array for its only element, and what somebody wrote by hand may have no name.
    SELECT r ->> 'name' INTO unknown FROM jsonb_path_query(s.requires, '$[*]') r
    WHERE NOT is_code AND NOT EXISTS (SELECT FROM rota.jobs j WHERE j.name = r ->> 'name')
      AND NOT EXISTS (SELECT FROM rota.schedules o WHERE o.tenant = s.tenant AND o.name = r ->> 'name') LIMIT 1;
    IF FOUND THEN
        RETURN format('requires "%s": no schedule or job has that name', unknown);
    END IF;
    WHILE at <= cardinality(seen) LOOP
        FOR next IN
            SELECT DISTINCT o.id, o.name FROM rota.schedules x CROSS JOIN LATERAL jsonb_path_query(x.requires, '$[*]') r
            JOIN rota.schedules o ON o.tenant = x.tenant AND (o.name = r ->> 'name' OR (o.job = r ->> 'name'
                AND NOT EXISTS (SELECT FROM rota.schedules e WHERE e.tenant = x.tenant AND e.name = r ->> 'name')))
            WHERE x.id = seen[at] AND o.requires <> '[]'
        LOOP
            IF next.id = s.id THEN
                way := next.name;
                WHILE at > 0 LOOP
                    way := names[at] || ' → ' || way;
                    at := befores[at];
                END LOOP;
                RETURN format('the requirements of schedules form a cycle: %s', way);
            ELSIF next.id <> ALL (seen) THEN
                seen := seen || next.id;
                names := names || next.name;
                befores := befores || at;
            END IF;
        END LOOP;
        at := at + 1;
    END LOOP;
    RETURN NULL;
END $$;

-- Trigger at the end of a transaction: refuses requirements that nobody can meet. One transaction at a time looks, and
-- sees what the others have committed: two cannot make a cycle of two halves. What code declares may name what it
-- declares later.
-- Locks: "requirements".
CREATE FUNCTION rota.check_requirements() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    s     rota.schedules;
    fault text;
BEGIN
    PERFORM rota.take_lock('requirements');
    -- Written too: one that reads an older snapshot fails here, and is repeated.
    UPDATE rota.locks l SET name = l.name WHERE l.name = 'requirements';
    SELECT * INTO s FROM rota.schedules o WHERE o.id = NEW.id;
    fault := rota.requirement_fault(s, s.origin IS NOT NULL AND NOT s.edited ? 'requires');
    IF fault IS NOT NULL THEN
        PERFORM rota.bad_schedule(s.name, fault);
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER schedules_requires AFTER INSERT OR UPDATE OF requires, name, tenant, job ON rota.schedules
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.requires <> '[]')
    EXECUTE FUNCTION rota.check_requirements();

-- Whether the definition stops a schedule, and until when; NULL: not by itself.
-- Called by: follow_edit, start_schedule.
CREATE FUNCTION rota.stop_of(s rota.schedules, OUT is_stopped boolean, OUT until timestamptz)
LANGUAGE sql IMMUTABLE AS $$
    SELECT NOT s.is_enabled OR s.init IS NOT NULL OR s.paused_at IS NOT NULL,
           CASE WHEN s.is_enabled AND s.init IS NULL THEN s.paused_until END
$$;

-- Whether a schedule is enabled and not paused. A pause whose end has come is over, even if no tick has noted it.
-- Called by: follow_edit.
CREATE FUNCTION rota.goes_on(s rota.schedules) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT s.is_enabled AND (s.paused_at IS NULL OR s.paused_until <= rota.now()) IS TRUE
$$;

-- Whether a schedule is spread with others that are due at the same instant: unless it says otherwise, spreads itself
-- (jitter), or enqueues nothing (shadow).
-- Called by: follow_edit, start_schedule.
CREATE FUNCTION rota.is_spread(s rota.schedules) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT NOT s.burst_allowed AND s.jitter_seconds = 0 AND NOT s.is_shadow
$$;

-- The end of all stretches of a schedule that are decided: nothing up to this instant will run.
-- Called by: follow_edit, start_schedule.
CREATE FUNCTION rota.decided_until(st rota.schedule_state) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT greatest(st.cursor_at, (st.segments -> -1 ->> 'until')::timestamptz,
                    CASE WHEN st.stopped_until <= rota.now() THEN st.stopped_until END)
$$;

-- Refuses a next time of a schedule that is outside the years that Rota computes with.
-- Called by: check_next_run, reschedule.
CREATE FUNCTION rota.refuse_infinite(s rota.schedules, at timestamptz) RETURNS void LANGUAGE plpgsql STABLE
SET jit = off AS $$
BEGIN
    RAISE EXCEPTION 'schedule "%": its next time must be in the years 1 to 9999 (0001-01-02 to 9999-12-30, UTC), '
        'not %', s.name, at
        USING ERRCODE = 'RO002', CONSTRAINT = 'next_time_infinite', COLUMN = 'next_run_at',
            DETAIL = jsonb_build_object('schedule', s.name, 'tenant', s.tenant),
            HINT = 'To stop it, use rota.pause_schedule or rota.disable_schedule; next_run_at = NULL recomputes its '
            'next time.';
END $$;

-- Refuses an instant that cannot be the next time of a schedule, as somebody sets it.
-- Called by: before_schedule.
CREATE FUNCTION rota.check_next_run(s rota.schedules) RETURNS void LANGUAGE plpgsql STABLE SET jit = off AS $$
BEGIN
    IF s.init IS NOT NULL THEN
        PERFORM rota.bad_schedule(s.name, 'an init schedule has no next time');
    ELSIF NOT rota.is_instant(s.next_run_at) THEN
        PERFORM rota.refuse_infinite(s, s.next_run_at);
    ELSIF s.next_run_at < rota.now() - interval '1 minute' THEN
        RAISE EXCEPTION 'schedule "%": its next time must be in the future, not %', s.name, s.next_run_at
            USING ERRCODE = 'RO002', CONSTRAINT = 'next_time_past', COLUMN = 'next_run_at',
                DETAIL = jsonb_build_object('schedule', s.name, 'tenant', s.tenant),
                HINT = 'next_run_at = NULL recomputes it; rota.trigger_schedule runs it now.';
    END IF;
END $$;

-- Trigger: all that happens before a schedule is written, in this order. Checks what is new, then notes who edited it.
-- NULL leaves out what code declares and cannot have.
CREATE FUNCTION rota.before_schedule() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    is_new   constant boolean := TG_OP = 'INSERT';
    clock    constant timestamptz := rota.now();
    stops    constant text[] := '{paused_at,paused_by,pause_reason,paused_until,next_run_at}';
    is_timed boolean;
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM rota.keep_system('schedule', OLD.name, OLD.is_system);
        RETURN OLD;
    END IF;
    IF NEW.tenant <> '' AND (is_new OR NEW.tenant <> OLD.tenant) THEN
        PERFORM rota.check_tenant(NEW.tenant);
    END IF;
    IF is_new OR NEW.timezone <> OLD.timezone THEN
        PERFORM rota.check_zone('schedule', NEW.name, NEW.timezone);
    END IF;
    IF is_new OR (NEW.job, NEW.payload) IS DISTINCT FROM (OLD.job, OLD.payload) THEN
        PERFORM rota.check_cleanup(NEW);
    END IF;
    IF is_new OR NEW.job <> OLD.job THEN
        NEW.job := rota.present_name(NEW.job);
    END IF;
    -- Only what is new: Rota may pause a schedule whose calendar is gone.
    IF is_new OR (NEW.job, NEW.calendar, NEW.cron, NEW.has_seconds)
       IS DISTINCT FROM (OLD.job, OLD.calendar, OLD.cron, OLD.has_seconds) THEN
        PERFORM rota.check_schedule_words(NEW);
    END IF;
    IF jsonb_typeof(NEW.requires) = 'array' AND (is_new OR NEW.requires <> OLD.requires) THEN
        PERFORM rota.check_requires(NEW);
        NEW.requires := rota.present_requires(NEW);
    END IF;
    IF (is_new OR NEW.job <> OLD.job) AND NOT rota.may_be_scheduled(NEW.name, NEW.job) THEN
        RETURN NULL;
    END IF;
    IF NEW.timeout_seconds < real '0.001' AND (is_new OR NEW.timeout_seconds IS DISTINCT FROM OLD.timeout_seconds) THEN
        PERFORM rota.bad_schedule(NEW.name, format('timeout_seconds %s is less than 0.001 (a millisecond)',
            NEW.timeout_seconds), field => 'timeout_seconds');
    END IF;
    IF NEW.timeout_seconds > 31536000 AND (is_new OR NEW.timeout_seconds IS DISTINCT FROM OLD.timeout_seconds) THEN
        PERFORM rota.bad_schedule(NEW.name, format('timeout_seconds %s is more than 31536000 (a year)',
            NEW.timeout_seconds), field => 'timeout_seconds');
    END IF;
    IF NOT rota.is_syncing() AND (CASE WHEN is_new THEN NEW.code IS NULL
        ELSE (NEW.job, NEW.payload) IS DISTINCT FROM (OLD.job, OLD.payload) END) THEN
        PERFORM rota.check_schedule_payload(NEW);
    END IF;

    IF is_new THEN
        NEW.anchor_at := coalesce(NEW.anchor_at, NEW.start_at, clock);
        NEW.moved_xid := CASE WHEN NEW.next_run_at IS NOT NULL THEN pg_current_xact_id() END;
    ELSE
        IF NEW.interval_seconds IS DISTINCT FROM OLD.interval_seconds OR NEW.start_at IS DISTINCT FROM OLD.start_at THEN
            NEW.anchor_at := coalesce(NEW.start_at, clock);
        END IF;
        is_timed := rota.timing_of(OLD) <> rota.timing_of(NEW) OR NEW.init IS DISTINCT FROM OLD.init;
        IF NEW.next_run_at IS DISTINCT FROM OLD.next_run_at THEN
            NEW.moved_xid := CASE WHEN NEW.next_run_at IS NOT NULL THEN pg_current_xact_id() END;
        ELSIF is_timed AND NEW.moved_xid IS DISTINCT FROM pg_current_xact_id() THEN
            -- An edit of the timing decides the next time too, unless the same transaction has set one; other edits
            -- keep one that somebody has set. Clocks go back, numbers of transactions do not.
            NEW.next_run_at := NULL;
            NEW.moved_xid := NULL;
        END IF;
        NEW.edited := rota.note_edits(to_jsonb(OLD), to_jsonb(NEW), NEW.code, NEW.edited);
        NEW.version := OLD.version;
        -- What Rota does by itself, it does to the pause and to a set time that has come: nobody has edited it.
        IF rota.said_of(OLD) <> rota.said_of(NEW) AND NOT (
            rota.who() = 'rota' AND rota.said_of(OLD) - stops = rota.said_of(NEW) - stops) THEN
            NEW.version := OLD.version + 1;
            NEW.updated_at := clock;
            NEW.updated_by := rota.who();
        END IF;
    END IF;
    IF NEW.next_run_at IS NOT NULL AND (is_new OR NEW.next_run_at IS DISTINCT FROM OLD.next_run_at) THEN
        PERFORM rota.check_next_run(NEW);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER schedules_before BEFORE INSERT OR UPDATE OR DELETE ON rota.schedules FOR EACH ROW
    EXECUTE FUNCTION rota.before_schedule();

-- What a definition says, without who said it and when: other than that is no edit.
-- Called by: after_schedule, before_schedule, follow_edit.
CREATE FUNCTION rota.said_of(s rota.schedules) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT to_jsonb(s) - '{version,created_at,updated_at,updated_by,moved_xid,origin,code,edited,application}'::text[]
$$;

-- A new schedule begins: it owes nothing from before it was made. A start a moment ago still counts.
-- Called by: after_schedule.
CREATE FUNCTION rota.start_schedule(s rota.schedules) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    clock constant timestamptz := rota.now();
    first constant timestamptz := coalesce(s.start_at, s.run_at);
    st    rota.schedule_state;
BEGIN
    SELECT * INTO st.is_stopped, st.stopped_until FROM rota.stop_of(s);
    st.cursor_at := least(clock, CASE WHEN first > clock - make_interval(secs => s.grace_seconds)
        THEN first - interval '1 microsecond' ELSE clock END);
    st.moved_to := greatest(s.next_run_at, CASE WHEN s.next_run_at IS NOT NULL
        THEN rota.decided_until(st) + interval '1 microsecond' END);
    INSERT INTO rota.schedule_state (schedule_id, cursor_at, next_run_at, moved_to, is_stopped, stopped_until,
        is_spread)
    VALUES (s.id, st.cursor_at, st.moved_to, st.moved_to, st.is_stopped, st.stopped_until, rota.is_spread(s));
END $$;

-- What an edit means for the times of a schedule. Those that came while the old words held are decided by them; cron
-- cannot be computed here, so next_run_at becomes NULL, and the tick, or the Python that edits, fills it in.
-- Called by: after_schedule.
-- Locks: rows.
CREATE FUNCTION rota.follow_edit(was rota.schedules, given rota.schedules) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    about    constant text[] := '{description,tags,metadata,delete_when_finished}';
    stops    constant text[] := '{is_enabled,paused_at,paused_by,pause_reason,paused_until,next_run_at}';
    before   constant jsonb := rota.said_of(was) - about;
    after    constant jsonb := rota.said_of(given) - about;
    is_stop  constant boolean := before - stops = after - stops;  -- nothing else
    is_timed constant boolean := rota.timing_of(was) <> rota.timing_of(given) OR given.init IS DISTINCT FROM was.init;
    is_on    constant boolean := (NOT was.is_enabled AND given.is_enabled)
        OR (was.paused_at IS NOT NULL AND given.paused_at IS NULL);
    is_off   constant boolean := was.every_from = 'start' AND rota.goes_on(was) AND NOT rota.goes_on(given);
    told     constant text := CASE WHEN NOT was.is_enabled THEN 'disabled' WHEN was.paused_at IS NOT NULL
        THEN 'paused' END;
    clock    constant timestamptz := rota.now();
    -- A pause that was over by itself ended then.
    until    constant timestamptz := CASE WHEN told = 'paused' THEN least(clock, was.paused_until) ELSE clock END;
    st       rota.schedule_state;
BEGIN
    IF before = after THEN
        RETURN;
    END IF;
    SELECT * INTO st FROM rota.schedule_state t WHERE t.schedule_id = given.id FOR NO KEY UPDATE;
    IF st.finished_at IS NOT NULL OR was.init IS NOT NULL THEN
        -- It owes nothing from before. If there is nothing left to do, the tick finishes it again.
        st.cursor_at := greatest(st.cursor_at, clock);
        st.finished_at := CASE WHEN is_stop AND given.next_run_at IS NOT DISTINCT FROM was.next_run_at
            THEN st.finished_at END;
    ELSIF is_timed OR is_on THEN
        st.stopped_until := NULL;
        IF until > rota.decided_until(st) THEN
            st.segments := st.segments || jsonb_build_object('timing', rota.timing_of(was), 'until', until,
                'decision', CASE WHEN told IS NULL THEN 'superseded' ELSE 'skipped' END,
                'reason', coalesce(told, 'edited'));
        END IF;
        IF is_timed AND clock > until THEN
            st.segments := st.segments || jsonb_build_object('timing', rota.timing_of(was), 'until', clock,
                'decision', 'superseded', 'reason', 'edited');
        END IF;
    ELSIF is_off THEN
        st.stopped_until := NULL;
        IF was.paused_until > rota.decided_until(st) THEN
            st.segments := st.segments || jsonb_build_object('timing', rota.timing_of(was), 'until', was.paused_until,
                'decision', 'skipped', 'reason', 'paused');
        END IF;
        -- What was due until now, and no worker has processed: it does not run any more. What gave way to a later time
        -- would not have run anyway.
        IF clock > rota.decided_until(st) THEN
            st.segments := st.segments || (jsonb_build_object('timing', rota.timing_of(was), 'until', clock)
                || CASE WHEN st.moved_to > clock THEN '{"decision": "superseded", "reason": "rescheduled"}'::jsonb
                ELSE jsonb_build_object('decision', 'missed', 'reason',
                    CASE WHEN given.is_enabled THEN 'paused' ELSE 'disabled' END) END);
        END IF;
    END IF;
    SELECT * INTO st.is_stopped, st.stopped_until FROM rota.stop_of(given);
    IF given.next_run_at IS NOT NULL AND given.moved_xid = pg_current_xact_id() THEN
        -- Meant for after this transaction, whatever else that does.
        st.moved_to := greatest(given.next_run_at, rota.decided_until(st) + interval '1 microsecond');
        st.next_run_at := st.moved_to;
    ELSIF given.next_run_at IS NULL AND st.moved_to IS NOT NULL THEN
        st.moved_to := NULL;
        st.next_run_at := NULL;
    ELSIF NOT is_stop OR st.next_run_at <= greatest(CASE WHEN is_on THEN until END, st.stopped_until) THEN
        st.next_run_at := st.moved_to;
    END IF;
    UPDATE rota.schedule_state t
    SET tick_version = t.tick_version + 1, cursor_at = st.cursor_at, segments = st.segments,
        next_run_at = st.next_run_at, moved_to = st.moved_to, finished_at = st.finished_at,
        is_stopped = st.is_stopped, stopped_until = st.stopped_until, is_spread = rota.is_spread(given),
        parked_at = NULL, error = NULL, parked_times = 0, retry_at = NULL,
        failures_in_a_row = CASE WHEN was.paused_at IS NOT NULL AND given.paused_at IS NULL THEN 0
            ELSE t.failures_in_a_row END
    WHERE t.schedule_id = given.id;
END $$;

-- Whether a JSON value may be of a type of a JSON schema. Says yes wherever the handler's types might take it: a number
-- may come as text, an instant as a number, and what is behind a reference is not looked at.
-- Called by: payload_problem.
CREATE FUNCTION rota.fits_type(schema jsonb, given jsonb) RETURNS boolean LANGUAGE plpgsql IMMUTABLE
SET jit = off AS $$
DECLARE
    kind text := jsonb_typeof(given);
    said text := given #>> '{}';
BEGIN
    IF jsonb_typeof(schema -> 'anyOf') = 'array' THEN
        RETURN EXISTS (SELECT FROM jsonb_array_elements(schema -> 'anyOf') a WHERE rota.fits_type(a, given));
    END IF;
    RETURN CASE schema ->> 'type'
        WHEN 'string' THEN kind = 'string' OR (kind = 'number' AND schema ? 'format')
        WHEN 'integer' THEN kind = 'boolean' OR (kind = 'number' AND said::numeric % 1 = 0)
            OR (kind = 'string' AND said ~ '[0-9]')
        WHEN 'number' THEN kind IN ('boolean', 'number') OR (kind = 'string' AND said ~ '[0-9]')
        WHEN 'boolean' THEN kind = 'boolean' OR (kind IN ('number', 'string') AND
            said ~* '^(0|1|0\.0|1\.0|t|f|y|n|true|false|yes|no|on|off)$')
        WHEN 'array' THEN kind = 'array'
        WHEN 'object' THEN kind = 'object'
        WHEN 'null' THEN kind = 'null'
        ELSE true END;
END $$;

-- What keeps a payload from being that of a job, in words, by the top level of the job's JSON schema: arguments that
-- are missing, unknown or of another type. NULL: nothing that can be seen here; a job whose arguments are not known
-- (a SQL function) takes all.
-- Called by: check_default_payload, is_of_other_release, new_payload_problem, retry_refused, retry_run.
CREATE FUNCTION rota.payload_problem(schema jsonb, payload jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE
SET jit = off AS $$
DECLARE
    known constant jsonb := CASE WHEN jsonb_typeof(schema -> 'properties') = 'object' THEN schema -> 'properties'
        ELSE '{}' END;
    names constant text := coalesce((SELECT string_agg(k, ', ') FROM jsonb_object_keys(known) k), 'none');
    given record;
BEGIN
    FOR given IN SELECT r.name FROM jsonb_array_elements_text(CASE WHEN jsonb_typeof(schema -> 'required') = 'array'
        THEN schema -> 'required' ELSE '[]' END) r (name) LOOP
        IF NOT payload ? given.name THEN
            RETURN format('argument %s is missing', given.name);
        END IF;
    END LOOP;
    FOR given IN SELECT e.key, e.value FROM jsonb_each(payload) e LOOP
        IF known ? given.key AND NOT rota.fits_type(known -> given.key, given.value) THEN
            RETURN format('argument %s has the wrong type: %s', given.key, left(given.value::text, 60));
        ELSIF NOT known ? given.key AND schema -> 'additionalProperties' = 'false' THEN
            RETURN format('unknown argument %s; the job takes %s', given.key, names);
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

-- The same of a payload that somebody writes for a job; one that is no object is refused elsewhere. Without one its
-- default payload is used, which was checked when it was written: what the signature of that time took is left to the
-- worker, whose code may upgrade it.
-- Called by: check_schedule_payload, sql/schedules/payload_problems.sql, trigger_schedule.
CREATE FUNCTION rota.new_payload_problem(job rota.jobs, payload jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE
SET jit = off AS $$
BEGIN
    RETURN CASE WHEN jsonb_typeof(payload) = 'object' OR payload IS NULL AND job.default_payload IS NULL
        THEN rota.payload_problem(job.payload_schema, coalesce(payload, '{}')) END;
END $$;

-- Refuses a payload that the schedule's job would not take. What code declares is checked by the process that declares
-- it, which knows the types: a build that is older than what the job says now must start.
-- Called by: before_schedule.
CREATE FUNCTION rota.check_schedule_payload(s rota.schedules) RETURNS void LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    problem constant text := (SELECT rota.new_payload_problem(j, s.payload) FROM rota.jobs j WHERE j.name = s.job);
BEGIN
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'schedule "%": its payload does not fit job "%": %', s.name, s.job, problem
            USING ERRCODE = 'RO018', CONSTRAINT = 'no_payload', COLUMN = 'payload',
            DETAIL = jsonb_build_object('schedule', s.name, 'job', s.job), HINT =
            'rota.jobs.payload_schema describes its arguments; without a payload, the default payload of the job is '
            'used.';
    END IF;
END $$;

-- Writes to the audit what was made, changed or deleted of a schedule. Rota's own come with the schema: nobody made
-- them.
-- Called by: after_schedule.
CREATE FUNCTION rota.audit_schedule(was rota.schedules, given rota.schedules) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    hidden constant text[] := '{version,created_at,updated_at,updated_by,next_run_at,moved_xid,anchor_at,id}';
    before constant jsonb := to_jsonb(was) - hidden;
    after  constant jsonb := to_jsonb(given) - hidden;
BEGIN
    IF was.id IS NULL AND given.is_system THEN
        RETURN;
    ELSIF was.id IS NULL OR given.id IS NULL THEN
        PERFORM rota.write_audit(NULL, CASE WHEN was.id IS NULL THEN 'schedule.created' ELSE 'schedule.deleted' END,
            'schedule', coalesce(given.name, was.name), before, after, NULL, coalesce(given.tenant, was.tenant));
        RETURN;
    END IF;
    IF before <> after THEN
        PERFORM rota.write_audit(NULL, CASE
                WHEN was.paused_at IS NULL AND given.paused_at IS NOT NULL THEN 'schedule.paused'
                WHEN was.paused_at IS NOT NULL AND given.paused_at IS NULL THEN 'schedule.resumed'
                WHEN NOT was.is_enabled AND given.is_enabled THEN 'schedule.enabled'
                WHEN was.is_enabled AND NOT given.is_enabled THEN 'schedule.disabled'
                ELSE 'schedule.updated' END, 'schedule', given.name,
            (SELECT jsonb_object_agg(o.key, o.value) FROM jsonb_each(before) o
             WHERE o.value IS DISTINCT FROM after -> o.key),
            (SELECT jsonb_object_agg(n.key, n.value) FROM jsonb_each(after) n
             WHERE n.value IS DISTINCT FROM before -> n.key),
            CASE WHEN given.pause_reason IS DISTINCT FROM was.pause_reason THEN given.pause_reason END, given.tenant);
    END IF;
    IF given.next_run_at IS DISTINCT FROM was.next_run_at AND given.next_run_at IS NOT NULL THEN
        PERFORM rota.write_audit(NULL, 'schedule.rescheduled', 'schedule', given.name,
            jsonb_build_object('next_run_at', was.next_run_at), jsonb_build_object('next_run_at', given.next_run_at),
            NULL, given.tenant);
    END IF;
END $$;

-- The ledger of a schedule outlives it, and is found by its name. One that code declares and somebody deleted is kept
-- out: one of a decorator ('definition') stays deleted, one of app.schedule ('code') is not brought back by older code
-- than the newest.
CREATE TABLE rota.deleted_schedules (
    schedule_id bigint PRIMARY KEY,
    tenant      text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    deleted_at  timestamptz NOT NULL DEFAULT rota.now(),
    deleted_by  text NOT NULL,
    kept_out    text COLLATE "C" CHECK (kept_out IN ('definition', 'code'))
);
CREATE INDEX deleted_schedules_name ON rota.deleted_schedules (tenant, name);
CREATE INDEX deleted_schedules_at ON rota.deleted_schedules (deleted_at);
CREATE UNIQUE INDEX deleted_schedules_kept_out ON rota.deleted_schedules (tenant, name) WHERE kept_out IS NOT NULL;

-- A schedule is deleted, and its state with it. Its number is remembered for as long as its ledger may be read, and
-- that a person deleted one of the code's, so that the next sync does not bring it back.
-- Called by: after_schedule.
CREATE FUNCTION rota.end_schedule(s rota.schedules) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    finished timestamptz;
    keeper   text;
BEGIN
    DELETE FROM rota.schedule_state t WHERE t.schedule_id = s.id RETURNING t.finished_at INTO finished;
    IF (s.origin = 'definition' OR s.application IS NOT NULL) AND finished IS NULL AND NOT rota.is_syncing() THEN
        keeper := coalesce(s.origin, 'code');
        -- The last deletion of a name says how it is kept out.
        UPDATE rota.deleted_schedules d SET kept_out = NULL
        WHERE d.tenant = s.tenant AND d.name = s.name AND d.kept_out IS NOT NULL;
    END IF;
    INSERT INTO rota.deleted_schedules (schedule_id, tenant, name, deleted_by, kept_out)
    VALUES (s.id, s.tenant, s.name, rota.who(), keeper);
    -- Longer than any ledger is kept.
    DELETE FROM rota.deleted_schedules d WHERE d.deleted_at < rota.now() - interval '400 days' AND d.kept_out IS NULL;
END $$;

-- Trigger: all that follows from a written schedule, in this order: its state, the audit, and a call to whoever ticks.
CREATE FUNCTION rota.after_schedule() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND rota.said_of(OLD) = rota.said_of(NEW) THEN
        RETURN NULL;                                    -- nothing that matters
    END IF;
    CASE TG_OP
        WHEN 'INSERT' THEN PERFORM rota.start_schedule(NEW);
        WHEN 'UPDATE' THEN PERFORM rota.follow_edit(OLD, NEW);
        ELSE PERFORM rota.end_schedule(OLD);
    END CASE;
    PERFORM rota.audit_schedule(OLD, NEW);
    PERFORM rota.call_workers('schedules');
    RETURN NULL;
END $$;
CREATE TRIGGER schedules_after AFTER INSERT OR UPDATE OR DELETE ON rota.schedules FOR EACH ROW
    EXECUTE FUNCTION rota.after_schedule();

-- What was decided about each nominal time, or about a stretch of them. Outlives runs and schedules.
CREATE TABLE rota.ledger (
    schedule_id bigint NOT NULL,
    nominal_at  timestamptz NOT NULL,
    through_at  timestamptz NOT NULL,
    count       integer NOT NULL DEFAULT 1 CHECK (count >= 1),
    decision    text COLLATE "C" NOT NULL CHECK (decision IN ('ran', 'caught_up', 'skipped', 'missed', 'superseded')),
    reason      text COLLATE "C",
    tenant      text COLLATE "C" NOT NULL,
    schedule    text COLLATE "C" NOT NULL,
    is_moved    boolean NOT NULL DEFAULT false,  -- an instant that an operator set
    details     jsonb,
    claimed_at  timestamptz NOT NULL,
    decided_at  timestamptz NOT NULL,
    decided_by  bigint,
    enqueued_at timestamptz,
    run_id      bigint,
    -- How its run ended: the ledger outlives the runs.
    state       text COLLATE "C",
    success     boolean,
    duration_ms real,
    lateness_ms double precision,
    error       text,
    CONSTRAINT ledger_pkey PRIMARY KEY (schedule_id, nominal_at),
    CONSTRAINT ledger_span CHECK (through_at >= nominal_at AND (count = 1) = (through_at = nominal_at)),
    CONSTRAINT ledger_run CHECK ((run_id IS NOT NULL) = (decision IN ('ran', 'caught_up'))),
    CONSTRAINT ledger_reason CHECK (decision IN ('ran', 'caught_up') OR reason IS NOT NULL)
) PARTITION BY RANGE (nominal_at);
-- Missed times of the last day, and schedules that were paused because their runs failed: few rows among many.
CREATE INDEX ledger_missed ON rota.ledger (decided_at) WHERE decision = 'missed';

-- A week back too: what was missed while nobody was there is written into the week of its nominal time.
INSERT INTO rota.partitioned VALUES ('ledger', 7);
SELECT rota.ensure_partitions(rota.now() - interval '8 days', rota.now() + interval '7 days');

-- Makes partitions of the ledger for the weeks of these instants only: times far back have a decision too (a
-- schedule enabled again after years).
-- Called by: sql/schedules/ensure_ledger.sql.
-- Locks: "partitions".
CREATE FUNCTION rota.ensure_ledger(instants timestamptz[]) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET jit = off SET search_path = pg_catalog, pg_temp
SET DateStyle = 'ISO' SET TimeZone = 'UTC' AS $$
DECLARE
    monday date;
BEGIN
    IF (SELECT bool_and(rota.is_instant(at)) AND count(DISTINCT date_trunc('week', at)) <= 1000
        FROM unnest(instants) AS at) IS NOT TRUE THEN
        RAISE EXCEPTION 'the ledger has no partitions for such times: %', left(instants::text, 200)
            USING ERRCODE = 'RO002', HINT = 'Name instants of at most 1000 weeks.';
    END IF;
    PERFORM rota.take_lock('partitions');
    FOR monday IN SELECT DISTINCT date_trunc('week', at AT TIME ZONE 'UTC')::date FROM unnest(instants) AS at LOOP
        CONTINUE WHEN to_regclass('rota.ledger_' || to_char(monday, 'YYYYMMDD')) IS NOT NULL;
        EXECUTE format(
            'CREATE TABLE rota.%I (LIKE rota.ledger INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE)',
                       'ledger_' || to_char(monday, 'YYYYMMDD'));
        EXECUTE format('ALTER TABLE rota.ledger ATTACH PARTITION rota.%I FOR VALUES FROM (%L) TO (%L)',
                       'ledger_' || to_char(monday, 'YYYYMMDD'),
                       monday::timestamp AT TIME ZONE 'UTC', (monday + 7)::timestamp AT TIME ZONE 'UTC');
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION rota.ensure_ledger(timestamptz[]) FROM PUBLIC;

-- A request to run nominal times of the past; backfill_times has one row for each.
CREATE TABLE rota.backfills (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    schedule_id bigint NOT NULL,
    from_at     timestamptz NOT NULL,
    until_at    timestamptz NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT rota.now(),
    created_by  text NOT NULL,
    reason      text
);
CREATE INDEX backfills_created ON rota.backfills (created_at);

-- One nominal time of a backfill, and its run.
CREATE TABLE rota.backfill_times (
    backfill_id bigint NOT NULL REFERENCES rota.backfills ON DELETE CASCADE,
    schedule_id bigint NOT NULL,
    nominal_at  timestamptz NOT NULL,
    run_id      bigint NOT NULL,
    PRIMARY KEY (backfill_id, nominal_at)
);
CREATE INDEX backfill_times_schedule ON rota.backfill_times (schedule_id, nominal_at);

-- The state of a run, wherever it is; NULL once retention has deleted it.
-- Called by: backfill_states, occurrences, sql/schedules/history_only.sql.
CREATE FUNCTION rota.run_state(run_id bigint) RETURNS text LANGUAGE sql STABLE STRICT SET jit = off AS $$
    SELECT coalesce((SELECT CASE WHEN rota.is_over(o.state, o.expires_at) THEN 'cancelled' ELSE o.state END
                     FROM rota.open_runs o WHERE o.id = run_state.run_id),
                    (SELECT e.state FROM rota.find_ended(run_state.run_id) e))
$$;

-- How the backfills of a stretch of a schedule ended: for each of its latest 1,000 times the last run, counted by
-- state. Runs that retention has deleted are left out.
-- Called by: occurrences, sql/schedules/history_only.sql.
CREATE FUNCTION rota.backfill_states(of_schedule bigint, from_at timestamptz, through_at timestamptz) RETURNS jsonb
LANGUAGE sql STABLE SET jit = off AS $$
    SELECT jsonb_object_agg(s.state, s.times)
    FROM (SELECT rota.run_state(t.run_id) AS state, count(*) AS times
          FROM (SELECT max(b.run_id) AS run_id FROM rota.backfill_times b
                WHERE b.schedule_id = of_schedule AND b.nominal_at BETWEEN from_at AND backfill_states.through_at
                GROUP BY b.nominal_at ORDER BY b.nominal_at DESC LIMIT 1000) t
          GROUP BY 1) s
    WHERE s.state IS NOT NULL
$$;

CREATE VIEW rota.occurrences AS
SELECT l.schedule, l.tenant, l.nominal_at, l.through_at, l.count, l.decision, l.reason, l.claimed_at, l.decided_at,
       l.decided_by, l.enqueued_at, l.run_id,
       (SELECT max(b.run_id) FROM rota.backfill_times b
        WHERE b.schedule_id = l.schedule_id AND b.nominal_at BETWEEN l.nominal_at AND l.through_at) AS backfill_run_id,
       l.state, l.success, l.duration_ms, l.lateness_ms, l.error, l.is_moved, l.details, l.schedule_id,
       (SELECT rota.run_state(max(b.run_id)) FROM rota.backfill_times b
        WHERE b.schedule_id = l.schedule_id AND b.nominal_at BETWEEN l.nominal_at AND l.through_at) AS backfill_state,
       (SELECT count(DISTINCT b.nominal_at) FROM rota.backfill_times b
        WHERE b.schedule_id = l.schedule_id AND b.nominal_at BETWEEN l.nominal_at AND l.through_at) AS backfill_count,
       CASE WHEN EXISTS (SELECT FROM rota.backfill_times b WHERE b.schedule_id = l.schedule_id
                         AND b.nominal_at BETWEEN l.nominal_at AND l.through_at)
            THEN rota.backfill_states(l.schedule_id, l.nominal_at, l.through_at) END AS backfill_states
FROM rota.ledger l;
COMMENT ON VIEW rota.occurrences IS 'Every nominal time of every schedule, with the decision made for it.';
