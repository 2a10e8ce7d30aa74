-- `schedules` with `calendars` and `schedule_templates`; `ledger`, one row for each nominal time and the decision
-- about it; `backfills`. People write the tables, triggers check and audit. The times are computed by the tick
-- (16_tick), never here: SQL knows no cron.

-- When a schedule is closed or open. The definition is read by Python.
CREATE TABLE rota.calendars (
    name        text COLLATE "C" PRIMARY KEY CHECK (name <> '' AND length(name) <= 100),
    description text NOT NULL DEFAULT '',
    definition  jsonb NOT NULL CHECK (jsonb_typeof(definition) = 'object'),
    updated_at  timestamptz NOT NULL DEFAULT rota.now(),
    version     bigint NOT NULL DEFAULT 1
);
COMMENT ON TABLE rota.calendars IS 'Holidays, weekends and closed windows, shared by schedules.';
CREATE TRIGGER calendars_version BEFORE UPDATE ON rota.calendars FOR EACH ROW
    EXECUTE FUNCTION rota.raise_version('{version,updated_at}');

-- The zone of a calendar is checked as that of a schedule (29_values). What else is wrong with a definition, the tick
-- says.
CREATE TRIGGER calendars_audit AFTER INSERT OR UPDATE OR DELETE ON rota.calendars FOR EACH ROW
    EXECUTE FUNCTION rota.audit_row('calendar', 'created', 'updated', 'deleted', '{version,updated_at}');

-- Cron lines with a name, offered where somebody makes a schedule.
CREATE TABLE rota.schedule_templates (
    name        text PRIMARY KEY CHECK (name <> '' AND length(name) <= 100),
    cron        text NOT NULL,
    description text NOT NULL DEFAULT '',
    version     bigint NOT NULL DEFAULT 1
);
CREATE TRIGGER schedule_templates_version BEFORE UPDATE ON rota.schedule_templates FOR EACH ROW
    EXECUTE FUNCTION rota.raise_version('{version}');

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
-- After the rows that every installation has.
CREATE TRIGGER schedule_templates_audit AFTER INSERT OR UPDATE OR DELETE ON rota.schedule_templates FOR EACH ROW
    EXECUTE FUNCTION rota.audit_row('template', 'added', 'updated', 'removed', '{version}');

-- Whether a cron expression has as many fields as it must; a macro (@daily) has none. Python reads what they say.
-- Called by: check_schedule_words, check_template.
CREATE FUNCTION rota.has_cron_fields(cron text, fields integer[]) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT cron ~ '^\s*@' OR array_length(regexp_split_to_array(btrim(cron), '\s+'), 1) = ANY (fields)
$$;

-- Trigger: refuses a template whose cron expression can be none.
CREATE FUNCTION rota.check_template() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF NOT rota.has_cron_fields(NEW.cron, '{5,6}') THEN
        RAISE EXCEPTION 'template "%": cron "%" does not have 5 or 6 fields', NEW.name, NEW.cron
            USING ERRCODE = 'RO002', HINT = 'Six fields begin with the seconds.';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER schedule_templates_check BEFORE INSERT OR UPDATE OF cron ON rota.schedule_templates FOR EACH ROW
    EXECUTE FUNCTION rota.check_template();

-- One row for each schedule: what it runs, when, and how far it has come. People edit it, the tick moves it on;
-- `tick_version` tells the tick that a row has changed since it was read, `version` tells people that somebody has
-- edited it since.
CREATE TABLE rota.schedules (
    id                   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant               text COLLATE "C" NOT NULL DEFAULT '',
    name                 text COLLATE "C" NOT NULL CHECK (name <> '' AND length(name) <= 200),
    job                  text COLLATE "C" NOT NULL,
    description          text NOT NULL DEFAULT '',
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
    catch_up_seconds     double precision CHECK (catch_up_seconds >= 0),
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
    queue                text COLLATE "C" CHECK (queue <> ''),
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
    -- Where it stands: written by the tick and by the ends of its runs.
    tick_version         bigint NOT NULL DEFAULT 1,
    anchor_at            timestamptz,
    cursor_at            timestamptz,                 -- everything up to here is decided
    next_run_at          timestamptz,                 -- NULL: the next tick computes it
    -- Stretches that end before now and are decided already, each with the timing it had:
    -- [{timing, until, decision, reason}], oldest first.
    segments             jsonb NOT NULL DEFAULT '[]',
    moved_to             timestamptz,                 -- an instant that an operator set for the next time
    finished_at          timestamptz,
    parked_at            timestamptz,
    error                text,
    run_count            bigint NOT NULL DEFAULT 0,
    failures_in_a_row    integer NOT NULL DEFAULT 0,
    last_enqueued_at     timestamptz,
    last_run_at          timestamptz,
    last_run_success     boolean,
    last_success_at      timestamptz,
    last_success_for     timestamptz,
    is_ticking           boolean NOT NULL GENERATED ALWAYS AS (is_enabled AND finished_at IS NULL AND parked_at IS NULL
                                                               AND (paused_at IS NULL
                                                                   OR paused_until IS NOT NULL)) STORED,
    origin               text CHECK (origin IN ('definition', 'code')),
    code                 jsonb CHECK (jsonb_typeof(code) = 'object'),
    edited               jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(edited) = 'object'),
    version              bigint NOT NULL DEFAULT 1,
    parked_times         integer NOT NULL DEFAULT 0,  -- in a row
    retry_at             timestamptz,                 -- when a parked one is tried again
    -- When a tick has something to do: at the end of the pause, at once, or at the next time.
    due_at               timestamptz GENERATED ALWAYS AS (
        CASE WHEN paused_at IS NOT NULL THEN paused_until
             WHEN segments <> '[]' OR next_run_at IS NULL THEN '1000-01-01 00:00Z'
             ELSE next_run_at END) STORED,
    -- Schedules that are due at one instant are spread over a few seconds, unless they say burst_allowed. The start of
    -- the run moves (run_at), the nominal time does not.
    burst_allowed        boolean NOT NULL DEFAULT false,
    -- Whose code says it at its start (app.schedule), so that a line that was removed is seen; NULL: nobody's, or said
    -- at run time.
    application          text COLLATE "C",
    CONSTRAINT schedules_name UNIQUE (tenant, name),
    CONSTRAINT schedules_timing CHECK (num_nonnulls(cron, interval_seconds, run_at, init) = 1),
    CONSTRAINT schedules_pause CHECK (paused_at IS NOT NULL OR (paused_until IS NULL AND pause_reason IS NULL)),
    CONSTRAINT schedules_bounds CHECK (end_at > start_at),
    CONSTRAINT schedules_every_from CHECK (every_from = 'start' OR interval_seconds IS NOT NULL)
) WITH (fillfactor = 70);
CREATE INDEX schedules_job ON rota.schedules (job);
CREATE INDEX schedules_finished ON rota.schedules (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX schedules_parked ON rota.schedules (retry_at) WHERE parked_at IS NOT NULL;
CREATE INDEX schedules_due ON rota.schedules (due_at, id) WHERE is_ticking AND init IS NULL;
CREATE INDEX schedules_stopped ON rota.schedules (paused_at) WHERE paused_by = 'rota' AND paused_at IS NOT NULL;
CREATE TRIGGER schedules_edits BEFORE UPDATE OF description, tags, metadata, cron, interval_seconds, run_at, init,
    has_seconds, timezone, gap, fold, every_from, start_at, end_at, max_runs, jitter_seconds, burst_allowed, calendar,
    on_closed, catch_up, catch_up_seconds, catch_up_limit, grace_seconds, overlap, max_concurrent_runs,
    pause_after_failures, requires, is_shadow, payload, queue, priority, max_attempts, timeout_seconds, run_tags,
    run_metadata, is_enabled, delete_when_finished ON rota.schedules FOR EACH ROW WHEN ((old.code IS NOT NULL))
    EXECUTE FUNCTION rota.note_edits();
CREATE TRIGGER schedules_guard_system BEFORE DELETE ON rota.schedules FOR EACH ROW WHEN (OLD.is_system)
    EXECUTE FUNCTION rota.keep_system();

-- Refuses a schedule (RO002), in words that name it.
-- Called by: check_requires, check_schedule_timeout, check_schedule_words, move_schedule, pause_schedule, reschedule.
CREATE FUNCTION rota.bad_schedule(name text, what text, hint text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
BEGIN
    IF hint IS NULL THEN
        RAISE EXCEPTION 'schedule "%": %', name, what USING ERRCODE = 'RO002';
    END IF;
    RAISE EXCEPTION 'schedule "%": %', name, what USING ERRCODE = 'RO002', HINT = hint;
END $$;

-- Everything of a schedule that says when: what a stretch of the past was decided by.
-- Called by: check_schedule.
CREATE FUNCTION rota.timing_of(s rota.schedules) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'cron', s.cron, 'interval_seconds', s.interval_seconds, 'run_at', s.run_at, 'has_seconds', s.has_seconds,
        'timezone', s.timezone, 'gap', s.gap, 'fold', s.fold, 'every_from', s.every_from,
        'start_at', s.start_at, 'end_at', s.end_at, 'anchor_at', s.anchor_at)
$$;

-- Checks what SQL can check; the tick parks the rest with its error.
-- Called by: check_schedule.
CREATE FUNCTION rota.check_schedule_words(s rota.schedules) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    fields constant integer := CASE WHEN s.has_seconds THEN 6 ELSE 5 END;
BEGIN
    IF NOT EXISTS (SELECT FROM rota.jobs j WHERE j.name = s.job) THEN
        PERFORM rota.unknown_job(s.job);
    END IF;
    IF s.calendar IS NOT NULL AND NOT EXISTS (SELECT FROM rota.calendars c WHERE c.name = s.calendar) THEN
        PERFORM rota.bad_schedule(s.name, format('there is no calendar "%s"', s.calendar));
    END IF;
    IF NOT rota.has_cron_fields(s.cron, ARRAY[fields]) THEN
        PERFORM rota.bad_schedule(s.name, format('cron "%s" does not have %s fields', s.cron, fields),
            'Six fields (seconds first) require has_seconds.');
    END IF;
END $$;

-- Checks what a schedule requires: names of schedules or jobs that exist, each with a period or not. Those that code
-- declares together may require each other; the process that declares them checks that.
-- Called by: check_schedule.
CREATE FUNCTION rota.check_requires(s rota.schedules) RETURNS void LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    is_code boolean := s.origin IS NOT NULL OR coalesce(current_setting('rota' || '.syncing', true), '') = 'on';
    one     jsonb;
BEGIN
    FOR one IN SELECT e FROM jsonb_array_elements(s.requires) e LOOP
        IF (CASE WHEN jsonb_typeof(one) <> 'object' THEN true
                 WHEN coalesce(one ->> 'name', '') = '' OR one - '{name,within_seconds}'::text[] <> '{}' THEN true
                 WHEN jsonb_typeof(one -> 'within_seconds') = 'number' THEN (one ->> 'within_seconds')::numeric <= 0
                 ELSE jsonb_typeof(one -> 'within_seconds') <> 'null' END) THEN
            PERFORM rota.bad_schedule(s.name, format('requires cannot contain %s', left(one::text, 100)),
                'Write for example [{"name": "import", "within_seconds": 3600}].');
        ELSIF NOT is_code AND NOT EXISTS (SELECT FROM rota.jobs j WHERE j.name = one ->> 'name')
            AND NOT EXISTS (SELECT FROM rota.schedules o WHERE o.tenant = s.tenant AND o.name = one ->> 'name') THEN
            PERFORM rota.bad_schedule(s.name, format('requires "%s": no schedule or job has that name',
                one ->> 'name'));
        END IF;
    END LOOP;
END $$;

-- Trigger: checks a schedule and works out what an edit means for its times. Cron cannot be computed here:
-- next_run_at becomes NULL, and the tick, or the Python that edits, fills it in.
CREATE FUNCTION rota.check_schedule() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    clock    timestamptz := rota.now();
    told     text;
    is_timed boolean;       -- another timing
BEGIN
    -- The tick counts tick_version up itself: what it writes is no edit.
    IF TG_OP = 'UPDATE' AND NEW.tick_version <> OLD.tick_version THEN
        RETURN NEW;
    END IF;
    -- Only what is new: the end of a run may pause a schedule whose calendar is gone, and must not fail.
    IF TG_OP = 'INSERT' OR (NEW.job, NEW.calendar, NEW.timezone, NEW.cron, NEW.has_seconds)
       IS DISTINCT FROM (OLD.job, OLD.calendar, OLD.timezone, OLD.cron, OLD.has_seconds) THEN
        PERFORM rota.check_schedule_words(NEW);
    END IF;
    IF jsonb_typeof(NEW.requires) = 'array' AND (TG_OP = 'INSERT' OR NEW.requires IS DISTINCT FROM OLD.requires) THEN
        PERFORM rota.check_requires(NEW);
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
    NEW.tick_version := OLD.tick_version + 1;
    NEW.updated_at := clock;
    NEW.updated_by := coalesce(nullif(current_setting('rota' || '.actor', true), ''), session_user);
    IF NEW.interval_seconds IS DISTINCT FROM OLD.interval_seconds OR NEW.start_at IS DISTINCT FROM OLD.start_at THEN
        NEW.anchor_at := coalesce(NEW.start_at, clock);
    END IF;
    is_timed := rota.timing_of(OLD) <> rota.timing_of(NEW) OR NEW.init IS DISTINCT FROM OLD.init;
    IF is_timed OR (NOT OLD.is_enabled AND NEW.is_enabled) OR (OLD.paused_at IS NOT NULL AND NEW.paused_at IS NULL) THEN
        IF OLD.init IS NULL AND OLD.finished_at IS NULL AND clock > OLD.cursor_at THEN
            NEW.segments := OLD.segments || jsonb_build_object('timing', rota.timing_of(OLD), 'until', clock,
                'decision', CASE WHEN told IS NULL THEN 'superseded' ELSE 'skipped' END, 'reason',
                coalesce(told, 'edited'));
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
    IF NEW.next_run_at IS DISTINCT FROM OLD.next_run_at AND NEW.next_run_at IS NOT NULL THEN
        NEW := rota.move_schedule(NEW, NEW.next_run_at);
    ELSE
        -- An edit of the timing also decides the next time; other edits keep a time that an operator set.
        NEW.moved_to := CASE WHEN NOT is_timed THEN NEW.moved_to END;
        NEW.next_run_at := NEW.moved_to;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER schedules_check BEFORE INSERT OR UPDATE OF name, tenant, job, cron, interval_seconds, run_at, init,
    has_seconds, timezone, gap, fold, every_from, start_at, end_at, max_runs, jitter_seconds, burst_allowed, calendar,
    on_closed, catch_up, catch_up_seconds, catch_up_limit, grace_seconds, overlap, max_concurrent_runs,
    pause_after_failures, requires, is_shadow, payload, queue, priority, max_attempts, timeout_seconds, run_tags,
    run_metadata, is_enabled, paused_at, paused_until, pause_reason ON rota.schedules FOR EACH ROW
    EXECUTE FUNCTION rota.check_schedule();

-- Trigger: schedules have the same least timeout as jobs and runs.
CREATE FUNCTION rota.check_schedule_timeout() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF TG_OP = 'INSERT' OR NEW.timeout_seconds IS DISTINCT FROM OLD.timeout_seconds THEN
        PERFORM rota.bad_schedule(NEW.name, format('timeout_seconds %s is less than 0.001 (a millisecond)',
            NEW.timeout_seconds));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER schedules_least_timeout BEFORE INSERT OR UPDATE OF timeout_seconds ON rota.schedules
FOR EACH ROW WHEN (NEW.timeout_seconds < real '0.001') EXECUTE FUNCTION rota.check_schedule_timeout();

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
-- Called by: check_default_payload, check_schedule_payload, retry_run, sql/schedules/payload_problems.sql,
-- trigger_schedule.
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

-- Trigger: refuses a payload that the schedule's job would not take, where it is written. What code declares is checked
-- by the process that declares it, which knows the types: a build that is older than what the job says now must start.
CREATE FUNCTION rota.check_schedule_payload() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    problem text;
BEGIN
    IF rota.is_syncing() OR (TG_OP = 'INSERT' AND NEW.code IS NOT NULL)
        OR (TG_OP = 'UPDATE' AND (NEW.job, NEW.payload) IS NOT DISTINCT FROM (OLD.job, OLD.payload)) THEN
        RETURN NEW;
    END IF;
    -- One that is no object is refused by its constraint.
    SELECT rota.payload_problem(j.payload_schema, p.given) INTO problem
    FROM rota.jobs j, LATERAL (SELECT coalesce(NEW.payload, j.default_payload, '{}') AS given) p
    WHERE j.name = NEW.job AND jsonb_typeof(p.given) = 'object';
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'schedule "%": its payload does not fit job "%": %', NEW.name, NEW.job, problem
            USING ERRCODE = 'RO018', HINT =
            'rota.jobs.payload_schema describes its arguments; without a payload, the default payload of the job is '
            'used.';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER schedules_payload BEFORE INSERT OR UPDATE OF job, payload ON rota.schedules FOR EACH ROW
    EXECUTE FUNCTION rota.check_schedule_payload();

-- Trigger: a plain UPDATE of next_run_at is a reschedule. Whoever counts tick_version up has computed it.
CREATE FUNCTION rota.check_next_run() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    at timestamptz := CASE WHEN NEW.next_run_at IS DISTINCT FROM OLD.next_run_at THEN NEW.next_run_at
        ELSE NEW.moved_to END;
BEGIN
    IF at IS NULL THEN
        NEW.moved_to := NULL;
        NEW.next_run_at := NULL;
    ELSE
        NEW := rota.move_schedule(NEW, at);
    END IF;
    NEW.tick_version := OLD.tick_version + 1;
    NEW.version := OLD.version + 1;
    NEW.updated_at := rota.now();
    NEW.updated_by := coalesce(nullif(current_setting('rota' || '.actor', true), ''), session_user);
    RETURN NEW;
END $$;
CREATE TRIGGER schedules_check_next BEFORE UPDATE OF next_run_at, moved_to ON rota.schedules FOR EACH ROW
WHEN (NEW.tick_version = OLD.tick_version
      AND (NEW.next_run_at, NEW.moved_to) IS DISTINCT FROM (OLD.next_run_at, OLD.moved_to))
EXECUTE FUNCTION rota.check_next_run();

-- Trigger: version grows with every edit. What a tick and the end of a run write is no edit, and neither is a
-- pause that they begin or end.
CREATE FUNCTION rota.raise_schedule_version() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    hidden text[] :=
        '{tick_version,version,anchor_at,cursor_at,next_run_at,segments,moved_to,finished_at,parked_at,'
        'error,run_count,failures_in_a_row,last_enqueued_at,last_run_at,last_run_success,last_success_at,'
        'last_success_for,is_ticking,due_at,updated_at,updated_by,created_at,origin,code,edited}';
BEGIN
    -- A trigger at the end of a run begins it, the tick ends it under the name of Rota.
    IF (NEW.paused_by = 'rota' AND pg_trigger_depth() > 1) OR current_setting('rota' || '.actor', true) = 'rota' THEN
        hidden := hidden || '{paused_at,paused_by,paused_until,pause_reason}'::text[];
    END IF;
    NEW.version := OLD.version + (to_jsonb(OLD) - hidden IS DISTINCT FROM to_jsonb(NEW) - hidden)::integer;
    RETURN NEW;
END $$;
CREATE TRIGGER schedules_version BEFORE UPDATE OF name, tenant, job, description, tags, metadata, cron,
    interval_seconds, run_at, init, has_seconds, timezone, gap, fold, every_from, start_at, end_at, max_runs,
    jitter_seconds, burst_allowed, calendar, on_closed, catch_up, catch_up_seconds, catch_up_limit, grace_seconds,
    overlap, max_concurrent_runs, pause_after_failures, requires, is_shadow, payload, queue, priority, max_attempts,
    timeout_seconds, run_tags, run_metadata, is_enabled, paused_at, paused_until, pause_reason, delete_when_finished
    ON rota.schedules FOR EACH ROW EXECUTE FUNCTION rota.raise_schedule_version();

-- Trigger: writes who changed what, and wakes the tick.
CREATE FUNCTION rota.audit_schedule() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    hidden constant text[] :=
        '{tick_version,version,anchor_at,cursor_at,next_run_at,segments,moved_to,run_count,'
        'failures_in_a_row,last_enqueued_at,last_run_at,last_run_success,last_success_at,last_success_for,is_ticking,'
        'due_at,updated_at,updated_by,created_at,id}';
    before jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) - hidden END;
    after  jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) - hidden END;
BEGIN
    IF before IS DISTINCT FROM after THEN
        PERFORM rota.write_audit(NULL, CASE TG_OP WHEN 'INSERT' THEN 'schedule.created' WHEN 'DELETE'
            THEN 'schedule.deleted'
            ELSE CASE WHEN OLD.paused_at IS NULL AND NEW.paused_at IS NOT NULL THEN 'schedule.paused'
                      WHEN OLD.paused_at IS NOT NULL AND NEW.paused_at IS NULL THEN 'schedule.resumed'
                      WHEN NOT OLD.is_enabled AND NEW.is_enabled THEN 'schedule.enabled'
                      WHEN OLD.is_enabled AND NOT NEW.is_enabled THEN 'schedule.disabled'
                      ELSE 'schedule.updated' END END,
            'schedule', coalesce(NEW.name, OLD.name),
            CASE WHEN TG_OP = 'UPDATE' THEN (SELECT jsonb_object_agg(o.key, o.value) FROM jsonb_each(before) o
                WHERE o.value IS DISTINCT FROM after -> o.key) ELSE before END,
            CASE WHEN TG_OP = 'UPDATE' THEN (SELECT jsonb_object_agg(n.key, n.value) FROM jsonb_each(after) n
                WHERE n.value IS DISTINCT FROM before -> n.key) ELSE after END,
            CASE WHEN TG_OP = 'UPDATE' AND NEW.pause_reason IS DISTINCT FROM OLD.pause_reason THEN NEW.pause_reason END,
            coalesce(NEW.tenant, OLD.tenant));
    END IF;
    PERFORM pg_notify('rota', 'schedules');
    RETURN NULL;
END $$;
CREATE TRIGGER schedules_audit AFTER INSERT OR DELETE OR UPDATE OF name, tenant, job, description, tags, metadata, cron,
    interval_seconds, run_at, init, has_seconds, timezone, gap, fold, every_from, start_at, end_at, max_runs,
    jitter_seconds, burst_allowed, calendar, on_closed, catch_up, catch_up_seconds, catch_up_limit, grace_seconds,
    overlap, max_concurrent_runs, pause_after_failures, requires, is_shadow, payload, queue, priority, max_attempts,
    timeout_seconds, run_tags, run_metadata, is_enabled, paused_at, paused_until, pause_reason, delete_when_finished,
    moved_to ON rota.schedules FOR EACH ROW EXECUTE FUNCTION rota.audit_schedule();

-- Trigger: writes to the audit that somebody moved the next time of a schedule, and wakes the tick.
CREATE FUNCTION rota.audit_next_run() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF NEW.moved_to IS DISTINCT FROM OLD.moved_to AND NEW.moved_to IS NOT NULL THEN
        PERFORM rota.write_audit(NULL, 'schedule.rescheduled', 'schedule', NEW.name,
            jsonb_build_object('next_run_at', OLD.next_run_at), jsonb_build_object('next_run_at', NEW.next_run_at),
            NULL, NEW.tenant);
    END IF;
    PERFORM pg_notify('rota', 'schedules');
    RETURN NULL;
END $$;
CREATE TRIGGER schedules_audit_next AFTER UPDATE OF next_run_at, moved_to ON rota.schedules FOR EACH ROW
WHEN (NEW.version <> OLD.version)
EXECUTE FUNCTION rota.audit_next_run();

-- The ledger of a schedule outlives it, and is found by its name.
CREATE TABLE rota.deleted_schedules (
    schedule_id bigint PRIMARY KEY,
    tenant      text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    deleted_at  timestamptz NOT NULL DEFAULT rota.now()
);
CREATE INDEX deleted_schedules_name ON rota.deleted_schedules (tenant, name);
CREATE INDEX deleted_schedules_at ON rota.deleted_schedules (deleted_at);

-- Trigger: remembers deleted schedules by their number, for as long as their ledger may be read.
CREATE FUNCTION rota.note_deleted_schedule() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    INSERT INTO rota.deleted_schedules (schedule_id, tenant, name) VALUES (OLD.id, OLD.tenant, OLD.name);
    -- Longer than any ledger is kept.
    DELETE FROM rota.deleted_schedules d WHERE d.deleted_at < rota.now() - interval '400 days';
    RETURN NULL;
END $$;
CREATE TRIGGER schedules_deleted AFTER DELETE ON rota.schedules FOR EACH ROW
    EXECUTE FUNCTION rota.note_deleted_schedule();

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
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET jit = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    monday date;
BEGIN
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
