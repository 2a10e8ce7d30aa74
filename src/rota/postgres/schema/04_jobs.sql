-- `jobs`: one row for each job that some process has declared, or that somebody inserted. Triggers check what is
-- written, note what a person has edited, and write the audit. Verbs: `set_job_enabled`, `delete_job`. What code
-- says of jobs comes by 18_definitions.

-- One row for each job. What code declares comes by register_jobs; `code` is what it said, `edited` what a person
-- changed since.
CREATE TABLE rota.jobs (
    name                 text COLLATE "C" PRIMARY KEY CHECK (name <> '' AND length(name) <= 200),
    description          text NOT NULL DEFAULT '' CONSTRAINT jobs_description CHECK (length(description) <= 10000),
    queue                text COLLATE "C" NOT NULL DEFAULT 'default' CHECK (queue <> '' AND length(queue) <= 100),
    priority             smallint NOT NULL DEFAULT 5 CHECK (priority BETWEEN 0 AND 9),
    max_attempts         smallint NOT NULL DEFAULT 3 CHECK (max_attempts BETWEEN 1 AND 100),
    timeout_seconds      real CHECK (timeout_seconds > 0),
    backoff              jsonb CHECK (jsonb_typeof(backoff) = 'object'),
    executor             text NOT NULL DEFAULT 'async',
    payload_schema       jsonb NOT NULL DEFAULT '{}',
    tags                 text[] NOT NULL DEFAULT '{}',
    metadata             jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    source               text NOT NULL DEFAULT '',
    is_enabled           boolean NOT NULL DEFAULT true,         -- false: its runs wait
    created_at           timestamptz NOT NULL DEFAULT rota.now(),
    updated_at           timestamptz NOT NULL DEFAULT rota.now(),
    default_payload      jsonb CHECK (jsonb_typeof(default_payload) = 'object'),
    application          text COLLATE "C" NOT NULL DEFAULT '',  -- whose code it follows
    definition_hash      text,
    code                 jsonb CHECK (jsonb_typeof(code) = 'object'),
    edited               jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(edited) = 'object'),
    deleted_from_code_at timestamptz,
    kind                 text COLLATE "C" NOT NULL DEFAULT 'python' CHECK (kind IN ('python', 'sql')),
    function_name        text,
    run_as               text,
    transaction_mode     text COLLATE "C" NOT NULL DEFAULT 'whole' CHECK (transaction_mode IN ('whole', 'none')),
    is_system            boolean NOT NULL DEFAULT false,
    version              bigint NOT NULL DEFAULT 1,
    events               text[] NOT NULL DEFAULT '{}' CHECK (array_position(events, NULL) IS NULL),
    -- The least level that is stored of a job's lines; NULL: as the worker's configuration says. It follows the code by
    -- a trigger of its own.
    log_level            text
        CONSTRAINT jobs_log_level CHECK (log_level IN ('debug', 'info', 'warning', 'error', 'critical')),
    -- {"days", "count", "failed_days", "failed_count", "log_days", "log_count", "failed_log_days"}; NULL: as the
    -- configuration says.
    retention            jsonb CONSTRAINT jobs_retention CHECK (jsonb_typeof(retention) = 'object'),
    event_filters        jsonb NOT NULL DEFAULT '{}'
        CONSTRAINT jobs_event_filters CHECK (jsonb_typeof(event_filters) = 'object'),
    limits               jsonb,                                 -- what the code declares; rota.limits is what holds
    -- Which of many events are delivered: the last of a burst (debounce) or the first of each period (throttle), by its
    -- own key. The rule belongs to the job and not to a binding: `order.updated` continues a burst that `order.created`
    -- began.
    event_delivery       jsonb,                                 -- NULL: each event, as it comes
    -- Defaults of its runs: a delay, a time after which they are cancelled if they have not started (counted from the
    -- time at which they may), a key made from the payload (invoice:{invoice_id}), a tenant.
    delay_seconds        double precision,
    expires_in_seconds   double precision,
    key                  text COLLATE "C",
    tenant               text COLLATE "C",
    CONSTRAINT jobs_function CHECK ((kind = 'sql') = (function_name IS NOT NULL)),
    CONSTRAINT jobs_sql_only CHECK (kind = 'sql' OR (run_as IS NULL AND transaction_mode = 'whole')),
    -- A function that runs as another role cannot commit.
    CONSTRAINT jobs_run_as CHECK (run_as IS NULL OR transaction_mode = 'whole'),
    CONSTRAINT jobs_delay CHECK (delay_seconds >= 0),
    CONSTRAINT jobs_expires_in CHECK (expires_in_seconds > 0)
);
CREATE INDEX jobs_disabled ON rota.jobs (name) WHERE NOT is_enabled;
CREATE INDEX jobs_sql ON rota.jobs (name) WHERE kind = 'sql';
COMMENT ON TABLE rota.jobs IS 'Every job that a process has declared.';

-- Refuses a job (RO002), in words that name it.
-- Called by: many.
CREATE FUNCTION rota.bad_job(name text, what text, hint text DEFAULT NULL, field text DEFAULT '') RETURNS void
LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
BEGIN
    IF hint IS NULL THEN
        RAISE EXCEPTION 'job "%": %', name, what USING ERRCODE = 'RO002', COLUMN = field;
    END IF;
    RAISE EXCEPTION 'job "%": %', name, what USING ERRCODE = 'RO002', COLUMN = field, HINT = hint;
END $$;

-- Says in words what the constraints would refuse, and what they cannot see.
-- Called by: before_job.
CREATE FUNCTION rota.check_job(new rota.jobs, old rota.jobs) RETURNS rota.jobs
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF OLD.name IS NULL THEN
        NULL;  -- the constraints do
    ELSIF NEW.name <> OLD.name THEN
        RAISE EXCEPTION 'job "%": a job cannot be renamed', OLD.name
            USING ERRCODE = 'RO002', CONSTRAINT = 'renamed_by_hand', COLUMN = 'name',
                HINT = 'Call rota.rename_job, or declare it under its new name with the old one among its aliases.';
    ELSIF NEW.priority NOT BETWEEN 0 AND 9 THEN
        PERFORM rota.bad_job(NEW.name, format('priority %s is not between 0 (first) and 9 (last)', NEW.priority),
            field => 'priority');
    ELSIF NEW.max_attempts NOT BETWEEN 1 AND 100 THEN
        PERFORM rota.bad_job(NEW.name, format('max_attempts %s is not between 1 and 100', NEW.max_attempts),
            field => 'max_attempts');
    END IF;
    IF NEW.timeout_seconds < real '0.001' THEN
        PERFORM rota.bad_job(NEW.name, format('timeout_seconds %s is less than 0.001 (a millisecond)',
            NEW.timeout_seconds), field => 'timeout_seconds');
    ELSIF NEW.timeout_seconds > 31536000 THEN
        PERFORM rota.bad_job(NEW.name, format('timeout_seconds %s is more than 31536000 (a year)',
            NEW.timeout_seconds), field => 'timeout_seconds');
    ELSIF rota.backoff_fault(NEW.backoff) IS NOT NULL THEN
        PERFORM rota.bad_job(NEW.name, rota.backoff_fault(NEW.backoff),
            'Use kind, base_seconds, factor (at least 1), cap_seconds and jitter_seconds (at least 0).',
            field => 'backoff');
    END IF;
    PERFORM rota.check_event(e) FROM unnest(NEW.events) e;
    NEW.updated_at := CASE WHEN (OLD.name IS NOT NULL AND NEW.name IS NOT NULL) THEN rota.now() ELSE NEW.updated_at END;
    RETURN NEW;
END $$;

-- What is wrong with the template of a key, in words; NULL: nothing.
-- Called by: check_run_defaults.
CREATE FUNCTION rota.key_fault(template text) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT CASE
        WHEN template !~ '^[^[:cntrl:]]{1,200}$' THEN 'must have 1 to 200 characters'
        WHEN regexp_replace(template, '\{[A-Za-z_][A-Za-z0-9_.]*\}', '', 'g') ~ '[{}]'
            THEN 'has a brace that does not enclose the name of an argument' END
$$;

-- Checks the defaults of a job's runs, once the rule of delivery is known. Every nominal time of a schedule has its own
-- run, so a job with a schedule cannot have a key; bursts of events have their own keys. If the code declares a key and
-- a person has set something that excludes it, or the other way round, the key is left out with a warning: the worker
-- must start.
-- Called by: before_job.
CREATE FUNCTION rota.check_run_defaults(new rota.jobs, old rota.jobs) RETURNS rota.jobs
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found   text := (SELECT min(s.name) FROM rota.schedules s WHERE s.job = NEW.name);
    unknown text := (SELECT min(m[1]) FROM regexp_matches(NEW.key, '\{([A-Za-z_][A-Za-z0-9_]*)', 'g') m
        WHERE jsonb_typeof(NEW.payload_schema -> 'properties') = 'object'
          AND NOT NEW.payload_schema -> 'properties' ? m[1]);
BEGIN
    IF rota.is_syncing() AND NEW.key IS NOT NULL AND num_nonnulls(NEW.event_delivery, found, unknown) > 0 THEN
        RAISE WARNING 'job "%" is registered without its key "%": %', NEW.name, NEW.key, CASE
            WHEN NEW.event_delivery IS NOT NULL THEN 'it has an event_delivery'
            WHEN found IS NOT NULL THEN format('it has a schedule, "%s"', found)
            ELSE format('%s is not an argument', unknown) END;
        NEW.key := NULL;
    END IF;
    NEW.tenant := nullif(NEW.tenant, '');
    IF NEW.delay_seconds NOT BETWEEN 0 AND 3153600000 OR NEW.delay_seconds = 'NaN' THEN
        PERFORM rota.bad_job(NEW.name, format('delay_seconds %s is not between 0 and 3153600000 (100 years)',
            NEW.delay_seconds), field => 'delay_seconds');
    ELSIF NEW.expires_in_seconds NOT BETWEEN 0.001 AND 3153600000 OR NEW.expires_in_seconds = 'NaN' THEN
        PERFORM rota.bad_job(NEW.name, format('expires_in_seconds %s is not between 0.001 and 3153600000 (100 years)',
            NEW.expires_in_seconds), field => 'expires_in_seconds');
    ELSIF rota.key_fault(NEW.key) IS NOT NULL THEN
        PERFORM rota.bad_job(NEW.name, format('its key "%s" %s', left(NEW.key, 60), rota.key_fault(NEW.key)),
            'Write for example invoice:{invoice_id}.', field => 'key');
    ELSIF unknown IS NOT NULL AND NEW.key IS NOT NULL THEN
        PERFORM rota.bad_job(NEW.name, format('its key "%s" names %s, which is not an argument', NEW.key, unknown),
            field => 'key');
    ELSIF NEW.key IS NOT NULL AND NEW.event_delivery IS NOT NULL THEN
        PERFORM rota.bad_job(NEW.name, 'key and event_delivery cannot be combined',
            'Set the key in event_delivery instead.');
    ELSIF NEW.key IS NOT NULL AND found IS NOT NULL THEN
        PERFORM rota.bad_job(NEW.name, format('it has a schedule, "%s", so it cannot have a key', found),
            'Use the overlap policy of the schedule, which decides what happens while the previous run has not ended.');
    ELSIF rota.tenant_fault(NEW.tenant) IS NOT NULL THEN
        PERFORM rota.bad_job(NEW.name, format('its tenant %s', rota.tenant_fault(NEW.tenant)), field => 'tenant');
    END IF;
    RETURN NEW;
END $$;

-- Refuses a default payload that the job would not take, where it is written. What code declares is checked by the
-- process that declares it.
-- Called by: before_job.
CREATE FUNCTION rota.check_default_payload(new rota.jobs, old rota.jobs) RETURNS rota.jobs
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    problem text;
BEGIN
    IF NOT rota.is_syncing() AND (OLD.name IS NULL OR NEW.default_payload IS DISTINCT FROM OLD.default_payload) THEN
        problem := rota.payload_problem(NEW.payload_schema, NEW.default_payload);
    END IF;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'job "%": its default payload is not valid: %', NEW.name, problem
            USING ERRCODE = 'RO018', CONSTRAINT = 'payload_mismatch', COLUMN = 'default_payload',
                DETAIL = jsonb_build_object('job', NEW.name),
                HINT = 'rota.jobs.payload_schema describes its arguments.';
    END IF;
    RETURN NEW;
END $$;

-- Whether this transaction writes what code declares (register_jobs), and not what a person says.
-- Called by: many.
CREATE FUNCTION rota.is_syncing() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce(current_setting('rota' || '.syncing', true) = 'on', false)
$$;

-- What people have changed of what code declares, after one more edit. A field set back to what the code says follows
-- the code again.
-- Called by: before_job, before_schedule.
CREATE FUNCTION rota.note_edits(was jsonb, given jsonb, code jsonb, edited jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    field text;
BEGIN
    IF code IS NULL OR rota.is_syncing() THEN
        RETURN edited;
    END IF;
    FOR field IN SELECT jsonb_object_keys(code) LOOP
        IF given -> field IS DISTINCT FROM was -> field THEN
            edited := CASE WHEN given -> field = code -> field THEN edited - field
                ELSE edited || jsonb_build_object(field, jsonb_build_object('by', rota.who(), 'at', rota.now())) END;
        END IF;
    END LOOP;
    RETURN edited;
END $$;

-- Writes to the audit what an edit or a delete changed of a job, without the columns that only code writes.
-- Called by: after_job.
CREATE FUNCTION rota.audit_job(new rota.jobs, old rota.jobs) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    hidden constant text[] :=
        '{version,updated_at,created_at,code,edited,definition_hash,source,payload_schema,executor,application}';
    was    jsonb := to_jsonb(OLD) - hidden;
    given  jsonb := CASE WHEN (OLD.name IS NOT NULL AND NEW.name IS NOT NULL) THEN to_jsonb(NEW) - hidden ELSE '{}' END;
    before jsonb := (SELECT jsonb_object_agg(o.key, o.value) FROM jsonb_each(was) o
        WHERE o.value IS DISTINCT FROM given -> o.key);
    after  jsonb := (SELECT jsonb_object_agg(n.key, n.value) FROM jsonb_each(given) n
        WHERE n.value IS DISTINCT FROM was -> n.key);
BEGIN
    IF (NEW.name IS NULL OR before IS NOT NULL)
       AND current_setting('rota' || '.renaming', true) IS DISTINCT FROM OLD.name THEN
        PERFORM rota.write_audit(NULL, CASE
            WHEN NEW.name IS NULL THEN 'job.deleted'
            WHEN OLD.deleted_from_code_at IS NULL AND NEW.deleted_from_code_at IS NOT NULL THEN 'job.deleted_from_code'
            WHEN OLD.deleted_from_code_at IS NOT NULL AND NEW.deleted_from_code_at IS NULL THEN 'job.revived'
            WHEN rota.is_syncing() THEN 'job.synced'
            WHEN before = '{"is_enabled": true}' THEN 'job.disabled'
            WHEN before = '{"is_enabled": false}' THEN 'job.enabled'
            ELSE 'job.updated' END,
            'job', OLD.name, before, after, nullif(current_setting('rota' || '.reason', true), ''));
    END IF;
    IF NEW.name IS NULL THEN
        DELETE FROM rota.job_applications a WHERE a.job = OLD.name;
        DELETE FROM rota.signatures s WHERE s.job = OLD.name;
        DELETE FROM rota.job_names n WHERE n.job = OLD.name;
        RETURN;
    ELSIF NEW.is_enabled AND NOT OLD.is_enabled THEN
        -- Its runs may wait in any queue.
        PERFORM rota.wake(ARRAY(SELECT rota.busy_queues())), rota.wake_isolation();
    END IF;
    IF NEW.edited <> OLD.edited OR (NEW.edited <> '{}' AND before IS NOT NULL) THEN
        PERFORM rota.call_workers('jobs');              -- workers look at what was changed
    END IF;
END $$;

-- Writes to the audit that somebody has made a job by SQL, and what it calls. What code declares is its release's
-- doing, and nobody's.
-- Called by: after_job.
CREATE FUNCTION rota.audit_new_job(new rota.jobs, old rota.jobs) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    PERFORM rota.write_audit(NULL, 'job.created', 'job', NEW.name, NULL, jsonb_strip_nulls(jsonb_build_object(
        'kind', NEW.kind, 'function_name', NEW.function_name, 'run_as', NEW.run_as, 'queue', NEW.queue)));
END $$;

-- Refuses to delete a job with schedules or open runs. A run that is over does not keep its job.
-- Called by: before_job.
CREATE FUNCTION rota.keep_job(old rota.jobs) RETURNS void LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    found bigint;
BEGIN
    PERFORM rota.keep_system('job', OLD.name, OLD.is_system);
    SELECT count(*) INTO found FROM rota.schedules s WHERE s.job = OLD.name;
    IF found > 0 THEN
        RAISE EXCEPTION 'job "%" has schedules: %', OLD.name, found
            USING ERRCODE = 'RO005', CONSTRAINT = 'job_has_schedules',
                DETAIL = jsonb_build_object('job', OLD.name, 'schedules', found),
                HINT = 'Delete the schedules first, or with the job: delete_job(…, cascade => true).';
    END IF;
    SELECT count(*) INTO found FROM rota.open_runs o
    WHERE o.job = OLD.name AND NOT rota.is_over(o.state, o.expires_at)
      AND current_setting('rota' || '.deleting_job', true) IS DISTINCT FROM OLD.name;
    IF found > 0 THEN
        RAISE EXCEPTION 'job "%" has runs that have not ended: %', OLD.name, found
            USING ERRCODE = 'RO005', CONSTRAINT = 'job_has_open_runs',
                DETAIL = jsonb_build_object('job', OLD.name, 'runs', found),
                HINT = 'Wait until they end, or cancel them: delete_job(…, cancel_open => true).';
    END IF;
END $$;

-- Trigger: all that happens before a job is written, in this order: checks, who edited what, what follows the code, and
-- what depends on that.
CREATE FUNCTION rota.before_job() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    is_new  constant boolean := TG_OP = 'INSERT';
    is_said constant boolean := is_new OR rota.is_syncing();
    hidden  constant text[] :=
        '{version,created_at,updated_at,code,edited,definition_hash,source,application}';
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM rota.keep_job(OLD);
        RETURN OLD;
    END IF;
    NEW := rota.check_job(NEW, OLD);
    IF NEW.kind = 'sql' AND (is_new OR (NEW.kind, NEW.function_name, NEW.run_as, NEW.transaction_mode, NEW.executor)
        IS DISTINCT FROM (OLD.kind, OLD.function_name, OLD.run_as, OLD.transaction_mode, OLD.executor)) THEN
        NEW := rota.check_sql_job(NEW, OLD);
    END IF;
    -- One that is no object is refused by its constraint.
    IF jsonb_typeof(NEW.default_payload) = 'object' THEN
        NEW := rota.check_default_payload(NEW, OLD);
    END IF;
    IF NOT is_new THEN
        NEW.edited := rota.note_edits(to_jsonb(OLD), to_jsonb(NEW), NEW.code, NEW.edited);
    END IF;
    IF is_said OR NEW.event_delivery IS DISTINCT FROM OLD.event_delivery THEN
        NEW := rota.check_event_delivery(NEW, OLD);
    END IF;
    IF is_said OR NEW.event_filters IS DISTINCT FROM OLD.event_filters THEN
        NEW := rota.check_event_filters(NEW, OLD);
    END IF;
    IF is_said THEN
        NEW := rota.note_limits(NEW, OLD);
        NEW := rota.follow_log_level(NEW, OLD);
    END IF;
    IF is_said OR NEW.retention IS DISTINCT FROM OLD.retention THEN
        NEW := rota.check_retention(NEW, OLD);
    END IF;
    IF num_nonnulls(NEW.delay_seconds, NEW.expires_in_seconds, NEW.key, NEW.tenant) > 0 THEN
        NEW := rota.check_run_defaults(NEW, OLD);
    END IF;
    IF NOT is_new THEN
        NEW.version := rota.next_version(OLD.version, to_jsonb(OLD), to_jsonb(NEW), hidden);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER jobs_before BEFORE INSERT OR UPDATE OR DELETE ON rota.jobs FOR EACH ROW
    EXECUTE FUNCTION rota.before_job();

-- Trigger: all that follows from a written job, in this order: the audit, then what is derived from it.
CREATE FUNCTION rota.after_job() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        PERFORM rota.audit_job(NEW, OLD);
    ELSIF NEW.code IS NULL AND NOT NEW.is_system THEN
        PERFORM rota.audit_new_job(NEW, OLD);
    END IF;
    IF TG_OP <> 'UPDATE' OR (NEW.events, NEW.event_filters, NEW.deleted_from_code_at)
        IS DISTINCT FROM (OLD.events, OLD.event_filters, OLD.deleted_from_code_at) THEN
        PERFORM rota.follow_bindings(NEW, OLD);
    END IF;
    IF TG_OP <> 'UPDATE' OR (NEW.kind, NEW.function_name, NEW.run_as, NEW.transaction_mode, NEW.timeout_seconds,
        NEW.backoff) IS DISTINCT FROM (OLD.kind, OLD.function_name, OLD.run_as, OLD.transaction_mode,
        OLD.timeout_seconds, OLD.backoff) THEN
        PERFORM rota.call_sql_jobs(NEW, OLD);
    END IF;
    IF TG_OP <> 'DELETE' AND (NEW.limits IS DISTINCT FROM OLD.limits OR NEW.limits IS NOT NULL
        AND NEW.deleted_from_code_at IS DISTINCT FROM OLD.deleted_from_code_at) THEN
        PERFORM rota.follow_limits(NEW, OLD);
    END IF;
    PERFORM rota.follow_retention(NEW, OLD);
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_after AFTER INSERT OR UPDATE OR DELETE ON rota.jobs FOR EACH ROW
    EXECUTE FUNCTION rota.after_job();

-- Refuses to delete what belongs to Rota (RO005): it can be disabled.
-- Called by: before_schedule, keep_job.
CREATE FUNCTION rota.keep_system(noun text, name text, is_system boolean) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
BEGIN
    IF is_system THEN
        RAISE EXCEPTION '% "%" belongs to Rota and cannot be deleted', noun, name
            USING ERRCODE = 'RO005', HINT = 'Disable it instead.';
    END IF;
END $$;

-- Enables or disables a job: its runs wait and its schedules skip their times while it is disabled. The trigger
-- writes the audit. Returns whether it wrote: false if it was so already.
-- Called by: operations/jobs.py, users.
CREATE FUNCTION rota.set_job_enabled(job text, enabled boolean, reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    was    text[] := rota.say_why(set_job_enabled.actor, set_job_enabled.reason);
    is_new boolean;
BEGIN
    UPDATE rota.jobs j SET is_enabled = enabled WHERE j.name = set_job_enabled.job AND j.is_enabled <> enabled;
    is_new := FOUND;
    IF NOT is_new AND NOT EXISTS (SELECT FROM rota.jobs j WHERE j.name = set_job_enabled.job) THEN
        PERFORM rota.unknown_job(set_job_enabled.job);
    END IF;
    PERFORM rota.unsay(was);
    RETURN is_new;
END $$;

-- Deletes a job. With cascade its schedules go too; with cancel_open its waiting runs are cancelled and its running
-- ones asked to stop. Returns how many that were. What it did stays in history, ledger and audit.
-- Called by: operations/jobs.py, users.
-- Locks: rows.
CREATE FUNCTION rota.delete_job(name text, cascade boolean DEFAULT false, cancel_open boolean DEFAULT false,
    reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS integer LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found     rota.jobs;
    was       text[];
    cancelled integer := 0;
    stopped   integer := 0;
BEGIN
    SELECT j.* INTO found FROM rota.jobs j WHERE j.name = delete_job.name FOR UPDATE;
    IF found.name IS NULL THEN
        PERFORM rota.unknown_job(delete_job.name);
    END IF;
    was := rota.say_why(delete_job.actor, delete_job.reason);
    PERFORM rota.delete_schedule(s.name, tenant => s.tenant) FROM rota.schedules s
    WHERE s.job = found.name AND delete_job.cascade;
    IF delete_job.cancel_open AND NOT found.is_system THEN
        SELECT count(*) INTO cancelled FROM rota.end_waiting_runs(
            ARRAY(SELECT o.id FROM rota.open_runs o WHERE o.job = found.name AND o.state <> 'running'), 'cancelled',
            'its job was deleted');
        SELECT count(rota.cancel_run(o.id, 'its job was deleted')) INTO stopped
        FROM rota.open_runs o WHERE o.job = found.name;
        PERFORM set_config('rota' || '.deleting_job', found.name, true);
    END IF;
    DELETE FROM rota.jobs j WHERE j.name = found.name;
    PERFORM set_config('rota' || '.deleting_job', '', true), rota.unsay(was);
    RETURN cancelled + stopped;
END $$;

-- Refuses a job that nobody has declared (RO001).
-- Called by: many.
CREATE FUNCTION rota.unknown_job(job text) RETURNS void LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
BEGIN
    RAISE EXCEPTION 'no job is named "%"', job
        USING ERRCODE = 'RO001', DETAIL = jsonb_build_object('job', job),
            HINT = 'Jobs are registered when an application that declares them starts; rota.jobs lists them.';
END $$;

-- Locks a job and what its code declares with it, schedules and limits; returns whether nobody held one of them.
-- Called by: register_jobs.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.lock_definition(job text, declared_limits text[]) RETURNS boolean LANGUAGE sql VOLATILE
SET jit = off AS $$
    WITH jobs AS MATERIALIZED (
        SELECT j.ctid FROM rota.jobs j WHERE j.name = lock_definition.job FOR UPDATE SKIP LOCKED
    ), applications AS MATERIALIZED (
        SELECT a.ctid FROM rota.job_applications a WHERE a.job = lock_definition.job FOR UPDATE SKIP LOCKED
    ), signatures AS MATERIALIZED (
        SELECT g.ctid FROM rota.signatures g WHERE g.job = lock_definition.job FOR UPDATE SKIP LOCKED
    ), schedules AS MATERIALIZED (
        SELECT s.ctid FROM rota.schedules s JOIN rota.schedule_state t ON t.schedule_id = s.id
        WHERE s.job = lock_definition.job AND s.origin = 'definition' FOR UPDATE SKIP LOCKED
    ), limits AS MATERIALIZED (
        SELECT l.ctid FROM rota.limits l
        WHERE l.tenant = '' AND (l.name = ANY (declared_limits) OR l.code ? lock_definition.job)
        FOR UPDATE SKIP LOCKED
    )
    SELECT (SELECT count(*) FROM jobs) = (SELECT count(*) FROM rota.jobs j WHERE j.name = lock_definition.job)
       AND (SELECT count(*) FROM applications)
           = (SELECT count(*) FROM rota.job_applications a WHERE a.job = lock_definition.job)
       AND (SELECT count(*) FROM signatures)
           = (SELECT count(*) FROM rota.signatures g WHERE g.job = lock_definition.job)
       AND (SELECT count(*) FROM schedules)
           = (SELECT count(*) FROM rota.schedules s WHERE s.job = lock_definition.job AND s.origin = 'definition')
       AND (SELECT count(*) FROM limits) = (SELECT count(*) FROM rota.limits l
           WHERE l.tenant = '' AND (l.name = ANY (declared_limits) OR l.code ? lock_definition.job))
$$;
