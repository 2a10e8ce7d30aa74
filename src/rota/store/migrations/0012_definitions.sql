-- Definitions live in code, what operators say lives here. Every field remembers its last editor; a field that
-- nobody touched follows the code. docs/decisions/0011-definition-sync.md has the rules and why.

ALTER TABLE rota.jobs
    ADD COLUMN application          text COLLATE "C" NOT NULL DEFAULT '',      -- whose code it follows
    ADD COLUMN definition_hash      text,
    ADD COLUMN code                 jsonb CHECK (jsonb_typeof(code) = 'object'),
    ADD COLUMN edited               jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(edited) = 'object'),
    ADD COLUMN deleted_from_code_at timestamptz;
ALTER TABLE rota.schedules
    ADD COLUMN origin               text CHECK (origin IN ('definition', 'code')),
    ADD COLUMN code                 jsonb CHECK (jsonb_typeof(code) = 'object'),
    ADD COLUMN edited               jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(edited) = 'object');
ALTER TABLE rota.workers
    ADD COLUMN application          text COLLATE "C",
    ADD COLUMN build                text;

-- All that an application declares, as one digest. The highest number is the newest code.
CREATE TABLE rota.builds (
    application   text COLLATE "C" NOT NULL,
    build         text COLLATE "C" NOT NULL,
    number        bigint NOT NULL,
    has_worked    boolean NOT NULL DEFAULT false,       -- some worker has run it
    first_seen_at timestamptz NOT NULL DEFAULT rota.now(),
    PRIMARY KEY (application, build)
);
-- A job is deleted from code when the last application that declared it no longer does.
CREATE TABLE rota.job_applications (
    job           text COLLATE "C" NOT NULL,
    application   text COLLATE "C" NOT NULL,
    hash          text NOT NULL,
    first_seen_at timestamptz NOT NULL DEFAULT rota.now(),
    PRIMARY KEY (job, application)
);
CREATE INDEX job_applications_application ON rota.job_applications (application);
-- Declared schedules that an operator deleted: they stay deleted.
CREATE TABLE rota.dropped_schedules (
    tenant     text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    dropped_at timestamptz NOT NULL DEFAULT rota.now(),
    dropped_by text NOT NULL,
    PRIMARY KEY (tenant, name)
);
CREATE TABLE rota.fleets (
    application text COLLATE "C" PRIMARY KEY,            -- '': all workers together
    number      bigint NOT NULL,
    started_at  timestamptz NOT NULL DEFAULT rota.now()
);
CREATE TABLE rota.init_runs (
    schedule_id bigint NOT NULL,
    marker      text COLLATE "C" NOT NULL,               -- once, release 2026-01-31, start 7
    run_id      bigint NOT NULL,
    state       text COLLATE "C" NOT NULL DEFAULT 'queued',
    enqueued_at timestamptz NOT NULL DEFAULT rota.now(),
    PRIMARY KEY (schedule_id, marker)
);
CREATE INDEX init_runs_run ON rota.init_runs (run_id);

CREATE FUNCTION rota.is_syncing() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce(current_setting('rota' || '.syncing', true) = 'on', false)
$$;
CREATE FUNCTION rota.who() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(current_setting('rota' || '.actor', true), ''), session_user)
$$;

-- The fields of a row that a declaration names, as the columns hold them (a real column rounds).
CREATE FUNCTION rota.pick(stored jsonb, declared jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(jsonb_object_agg(k, stored -> k), '{}') FROM jsonb_object_keys(declared) k
$$;

-- Fields that stay as they are. Exactly one column says when, so an edit of one of them holds them all.
CREATE FUNCTION rota.kept_fields(edited jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY(SELECT jsonb_object_keys(edited)) ||
        CASE WHEN edited ?| timing THEN timing ELSE '{}' END
    FROM (SELECT '{cron,interval_seconds,run_at,init,has_seconds,every_from}'::text[] AS timing) t
$$;

-- Who touched what. A field set back to what the code says follows the code again.
CREATE FUNCTION rota.note_edits() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    was   jsonb := to_jsonb(OLD);
    given jsonb := to_jsonb(NEW);
    field text;
BEGIN
    IF rota.is_syncing() OR NEW.code IS NULL THEN
        RETURN NEW;
    END IF;
    FOR field IN SELECT jsonb_object_keys(NEW.code) LOOP
        IF given -> field IS DISTINCT FROM was -> field THEN
            NEW.edited := CASE WHEN given -> field = NEW.code -> field THEN NEW.edited - field
                ELSE NEW.edited || jsonb_build_object(field, jsonb_build_object('by', rota.who(), 'at', rota.now())) END;
        END IF;
    END LOOP;
    RETURN NEW;
END $$;
CREATE TRIGGER schedules_edits BEFORE UPDATE OF
    description, tags, metadata, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold, every_from, start_at, end_at,
    max_runs, jitter_seconds, calendar, on_closed, catch_up, catch_up_seconds, catch_up_limit, grace_seconds, overlap,
    max_concurrent_runs, pause_after_failures, requires, is_shadow, payload, queue, priority, max_attempts, timeout_seconds, run_tags,
    run_metadata, is_enabled, delete_when_finished
ON rota.schedules FOR EACH ROW WHEN (OLD.code IS NOT NULL) EXECUTE FUNCTION rota.note_edits();
CREATE TRIGGER jobs_edits BEFORE UPDATE ON rota.jobs FOR EACH ROW EXECUTE FUNCTION rota.note_edits();

CREATE FUNCTION rota.bad_job(name text, what text, hint text DEFAULT NULL) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RAISE EXCEPTION 'job "%": %', name, what USING ERRCODE = 'RO002', HINT = coalesce(hint, '');
END $$;

-- Says in words what the constraints would refuse, and what they cannot see.
CREATE FUNCTION rota.check_job() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    part record;
BEGIN
    IF TG_OP = 'INSERT' THEN
        NULL;  -- the constraints do
    ELSIF NEW.name <> OLD.name THEN
        PERFORM rota.bad_job(OLD.name, 'a job cannot be renamed', 'Declare it under its new name; the old one is marked deleted.');
    ELSIF NEW.priority NOT BETWEEN 0 AND 9 THEN
        PERFORM rota.bad_job(NEW.name, format('priority %s is not between 0 (first) and 9 (last)', NEW.priority));
    ELSIF NEW.max_attempts NOT BETWEEN 1 AND 100 THEN
        PERFORM rota.bad_job(NEW.name, format('max_attempts %s is not between 1 and 100', NEW.max_attempts));
    ELSIF NEW.timeout_seconds <= 0 THEN
        PERFORM rota.bad_job(NEW.name, format('timeout_seconds %s is not above 0', NEW.timeout_seconds));
    ELSIF jsonb_typeof(NEW.backoff) <> 'object' THEN
        PERFORM rota.bad_job(NEW.name, 'backoff is not a JSON object');
    END IF;
    IF coalesce(NEW.backoff ->> 'kind', 'fixed') NOT IN ('exponential', 'linear', 'fixed') THEN
        PERFORM rota.bad_job(NEW.name, format('backoff kind "%s" is none of exponential, linear, fixed', NEW.backoff ->> 'kind'));
    END IF;
    FOR part IN SELECT * FROM jsonb_each(CASE WHEN jsonb_typeof(NEW.backoff) = 'object' THEN NEW.backoff - 'kind' END) LOOP
        IF part.key NOT IN ('base_seconds', 'factor', 'cap_seconds', 'jitter_seconds') OR jsonb_typeof(part.value) <> 'number'
           OR part.value::numeric < (CASE part.key WHEN 'factor' THEN 1 ELSE 0 END) THEN
            PERFORM rota.bad_job(NEW.name, format('backoff says "%s": %s', part.key, part.value),
                'It has kind, base_seconds, factor (from 1), cap_seconds, jitter_seconds (from 0).');
        END IF;
    END LOOP;
    NEW.updated_at := CASE WHEN TG_OP = 'UPDATE' THEN rota.now() ELSE NEW.updated_at END;
    RETURN NEW;
END $$;
CREATE TRIGGER jobs_check BEFORE INSERT OR UPDATE ON rota.jobs FOR EACH ROW EXECUTE FUNCTION rota.check_job();

CREATE FUNCTION rota.audit_job() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    hidden constant text[] := '{updated_at,created_at,code,edited,definition_hash,source,payload_schema,executor,application}';
    was    jsonb := to_jsonb(OLD) - hidden;
    given  jsonb := CASE WHEN TG_OP = 'UPDATE' THEN to_jsonb(NEW) - hidden ELSE '{}' END;
    before jsonb := (SELECT jsonb_object_agg(o.key, o.value) FROM jsonb_each(was) o WHERE o.value IS DISTINCT FROM given -> o.key);
    after  jsonb := (SELECT jsonb_object_agg(n.key, n.value) FROM jsonb_each(given) n WHERE n.value IS DISTINCT FROM was -> n.key);
BEGIN
    IF TG_OP = 'DELETE' OR before IS NOT NULL THEN
        PERFORM rota.write_audit(NULL, CASE
            WHEN TG_OP = 'DELETE' THEN 'job.deleted'
            WHEN OLD.deleted_from_code_at IS NULL AND NEW.deleted_from_code_at IS NOT NULL THEN 'job.deleted_from_code'
            WHEN OLD.deleted_from_code_at IS NOT NULL AND NEW.deleted_from_code_at IS NULL THEN 'job.revived'
            WHEN rota.is_syncing() THEN 'job.synced'
            WHEN before = '{"is_enabled": true}' THEN 'job.disabled'
            WHEN before = '{"is_enabled": false}' THEN 'job.enabled'
            ELSE 'job.updated' END,
            'job', OLD.name, before, after, nullif(current_setting('rota' || '.reason', true), ''));
    END IF;
    IF TG_OP = 'DELETE' THEN
        DELETE FROM rota.job_applications a WHERE a.job = OLD.name;
        RETURN NULL;
    ELSIF NEW.is_enabled AND NOT OLD.is_enabled THEN
        PERFORM rota.wake(ARRAY[NEW.queue]);
    END IF;
    IF NEW.edited <> OLD.edited OR (NEW.edited <> '{}' AND before IS NOT NULL) THEN
        PERFORM pg_notify('rota', 'jobs');              -- workers look at what was changed
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_audit AFTER UPDATE OR DELETE ON rota.jobs FOR EACH ROW EXECUTE FUNCTION rota.audit_job();

CREATE FUNCTION rota.keep_job() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF EXISTS (SELECT FROM rota.schedules s WHERE s.job = OLD.name) THEN
        RAISE EXCEPTION 'job "%" has schedules', OLD.name USING ERRCODE = 'RO005', HINT = 'Delete its schedules first.';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER jobs_keep BEFORE DELETE ON rota.jobs FOR EACH ROW EXECUTE FUNCTION rota.keep_job();

CREATE FUNCTION rota.drop_schedule() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO rota.dropped_schedules (tenant, name, dropped_by) SELECT OLD.tenant, OLD.name, rota.who()
    WHERE NOT rota.is_syncing() ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER schedules_drop AFTER DELETE ON rota.schedules FOR EACH ROW WHEN (OLD.origin = 'definition' AND OLD.finished_at IS NULL)
EXECUTE FUNCTION rota.drop_schedule();

-- The trigger writes the audit; it reads actor and reason from settings that are local to the transaction.
CREATE OR REPLACE FUNCTION rota.set_job_enabled(job text, enabled boolean, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM rota.act_as(set_job_enabled.actor);
    PERFORM set_config('rota' || '.reason', coalesce(set_job_enabled.reason, ''), true);
    UPDATE rota.jobs j SET is_enabled = enabled WHERE j.name = set_job_enabled.job AND j.is_enabled <> enabled;
    IF NOT FOUND AND NOT EXISTS (SELECT FROM rota.jobs j WHERE j.name = set_job_enabled.job) THEN
        PERFORM rota.unknown_job(set_job_enabled.job);
    END IF;
    PERFORM set_config('rota' || '.reason', '', true);
END $$;

-- Applications and their builds.

CREATE FUNCTION rota.live_workers(of_application text) RETURNS SETOF rota.workers LANGUAGE sql STABLE AS $$
    SELECT w.* FROM rota.workers w
    WHERE w.application = of_application AND w.state IN ('live', 'stopping') AND w.lease_expires_at > clock_timestamp()
$$;

-- Whether this build may say what jobs are: it is the newest, or it takes over. An old build takes over when a worker runs
-- it and no live worker runs a newer one (a roll-back), or when no worker is live at all. A newer build that no worker has
-- run yet is a deployment under way.
CREATE FUNCTION rota.may_speak(of_application text, of_build text, for_worker bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT mine.number IS NULL OR mine.number = newest.number OR CASE
        WHEN for_worker IS NULL THEN NOT EXISTS (SELECT FROM rota.live_workers(of_application))
        ELSE newest.has_worked AND NOT EXISTS (
            SELECT FROM rota.live_workers(of_application) w JOIN rota.builds b ON b.application = w.application AND b.build = w.build
            WHERE b.number > mine.number) END
    FROM (SELECT 1) one
    LEFT JOIN rota.builds mine ON mine.application = of_application AND mine.build = of_build
    LEFT JOIN LATERAL (SELECT * FROM rota.builds b WHERE b.application = of_application ORDER BY b.number DESC LIMIT 1) newest ON true
$$;

CREATE FUNCTION rota.speak(of_application text, of_build text, for_worker bigint) RETURNS void LANGUAGE sql VOLATILE AS $$
    WITH newest AS (SELECT coalesce(max(b.number), 0) AS number FROM rota.builds b WHERE b.application = of_application)
    INSERT INTO rota.builds AS b (application, build, number, has_worked)
    SELECT of_application, of_build, n.number + 1, for_worker IS NOT NULL FROM newest n
    ON CONFLICT (application, build) DO UPDATE
    SET number = CASE WHEN b.number = excluded.number - 1 THEN b.number ELSE excluded.number END, has_worked = b.has_worked OR excluded.has_worked
    WHERE b.number < excluded.number - 1 OR b.has_worked < excluded.has_worked;
    DELETE FROM rota.builds b WHERE b.application = of_application
        AND b.number < (SELECT max(m.number) - 200 FROM rota.builds m WHERE m.application = of_application);
$$;

-- What this application declared before, does no longer, and no live worker of it knows.
CREATE FUNCTION rota.gone_jobs(of_application text, names text[]) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    SELECT a.job FROM rota.job_applications a
    WHERE a.application = of_application AND a.job <> ALL (names)
      AND NOT EXISTS (SELECT FROM rota.live_workers(of_application) w WHERE a.job = ANY (w.jobs))
$$;

-- Asked by workers every few seconds: is there something that registering again would write?
CREATE FUNCTION rota.must_sync(for_worker bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT rota.may_speak(w.application, w.build, w.id) AND (
        w.build IS DISTINCT FROM (SELECT b.build FROM rota.builds b WHERE b.application = w.application ORDER BY b.number DESC LIMIT 1)
        OR EXISTS (SELECT FROM rota.gone_jobs(w.application, w.jobs)))
    FROM rota.workers w WHERE w.id = for_worker AND w.application IS NOT NULL
$$;

-- Registering.

CREATE FUNCTION rota.read_definitions(definitions jsonb) RETURNS TABLE (
    name text, hash text, source text, executor text, payload_schema jsonb, code jsonb, schedules jsonb
) LANGUAGE sql STABLE AS $$
    SELECT w.name, w.hash, w.source, w.executor, w.payload_schema, rota.pick(to_jsonb(r), w.defaults), w.schedules
    FROM jsonb_to_recordset(definitions) AS w (
        name text, hash text, source text, executor text, payload_schema jsonb, defaults jsonb, schedules jsonb)
    CROSS JOIN LATERAL jsonb_populate_record(NULL::rota.jobs, w.defaults) r
$$;
CREATE FUNCTION rota.read_schedules(definitions jsonb, of_jobs text[]) RETURNS TABLE (name text, job text, code jsonb)
LANGUAGE sql STABLE AS $$
    SELECT v ->> 'name', w.name, rota.pick(to_jsonb(r), v - 'name')
    FROM rota.read_definitions(definitions) w CROSS JOIN LATERAL jsonb_array_elements(w.schedules) v
    CROSS JOIN LATERAL jsonb_populate_record(NULL::rota.schedules, v) r
    WHERE w.name = ANY (of_jobs)
$$;

-- A job that two applications declare follows the first, while that one declares it and has a worker.
CREATE FUNCTION rota.may_follow(j rota.jobs, of_application text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT j.application = of_application OR j.code IS NULL
        OR NOT EXISTS (SELECT FROM rota.job_applications a WHERE a.job = j.name AND a.application = j.application)
        OR NOT EXISTS (SELECT FROM rota.live_workers(j.application))
$$;

CREATE FUNCTION rota.changed_jobs(of_application text, definitions jsonb, forced text[]) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    SELECT w.name FROM rota.read_definitions(definitions) w
    LEFT JOIN rota.jobs j ON j.name = w.name
    LEFT JOIN rota.job_applications a ON a.job = w.name AND a.application = of_application
    WHERE j.name IS NULL OR a.hash IS DISTINCT FROM w.hash OR j.deleted_from_code_at IS NOT NULL OR w.name = ANY (forced)
       OR (j.definition_hash IS DISTINCT FROM w.hash AND rota.may_follow(j, of_application))
    ORDER BY w.name COLLATE "C"
$$;

-- Default schedules of jobs whose definition is written.
CREATE FUNCTION rota.sync_schedules(definitions jsonb, of_jobs text[], forced text[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    DELETE FROM rota.dropped_schedules d
    WHERE d.tenant = '' AND d.name IN (SELECT w.name FROM rota.read_schedules(definitions, forced) w);
    -- No longer declared: an untouched one goes, one that somebody touched is theirs.
    DELETE FROM rota.schedules s
    WHERE s.origin = 'definition' AND s.job = ANY (of_jobs) AND s.edited = '{}'
      AND s.name NOT IN (SELECT w.name FROM rota.read_schedules(definitions, of_jobs) w);
    UPDATE rota.schedules s SET origin = NULL, code = NULL, edited = '{}'
    WHERE s.origin = 'definition' AND s.job = ANY (of_jobs)
      AND s.name NOT IN (SELECT w.name FROM rota.read_schedules(definitions, of_jobs) w);
    UPDATE rota.schedules s SET
        job = w.job, code = w.code,
        edited = CASE WHEN w.job = ANY (forced) THEN '{}' ELSE rota.still_edited(to_jsonb(s), s.edited, w.code) END,
        (description, tags, metadata, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold, every_from, start_at, end_at,
        max_runs, jitter_seconds, calendar, on_closed, catch_up, catch_up_seconds, catch_up_limit, grace_seconds, overlap,
        max_concurrent_runs, pause_after_failures, requires, is_shadow, payload, queue, priority, max_attempts, timeout_seconds, run_tags,
        run_metadata, is_enabled, delete_when_finished) = (
        SELECT r.description, r.tags, r.metadata, r.cron, r.interval_seconds, r.run_at, r.init, r.has_seconds, r.timezone, r.gap, r.fold, r.every_from, r.start_at, r.end_at,
        r.max_runs, r.jitter_seconds, r.calendar, r.on_closed, r.catch_up, r.catch_up_seconds, r.catch_up_limit, r.grace_seconds, r.overlap,
        r.max_concurrent_runs, r.pause_after_failures, r.requires, r.is_shadow, r.payload, r.queue, r.priority, r.max_attempts, r.timeout_seconds, r.run_tags,
        r.run_metadata, r.is_enabled, r.delete_when_finished
        FROM jsonb_populate_record(s, w.code - CASE WHEN w.job = ANY (forced) THEN '{}'::text[] ELSE rota.kept_fields(s.edited) END) r)
    FROM rota.read_schedules(definitions, of_jobs) w
    WHERE s.tenant = '' AND s.name = w.name AND s.origin = 'definition'
      AND (s.code IS DISTINCT FROM w.code OR s.job <> w.job OR w.job = ANY (forced));
    INSERT INTO rota.schedules (name, job, origin, code,
        description, tags, metadata, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold, every_from, start_at, end_at,
        max_runs, jitter_seconds, calendar, on_closed, catch_up, catch_up_seconds, catch_up_limit, grace_seconds, overlap,
        max_concurrent_runs, pause_after_failures, requires, is_shadow, payload, queue, priority, max_attempts, timeout_seconds, run_tags,
        run_metadata, is_enabled, delete_when_finished)
    SELECT w.name, w.job, 'definition', w.code,
        r.description, r.tags, r.metadata, r.cron, r.interval_seconds, r.run_at, r.init, r.has_seconds, r.timezone, r.gap, r.fold, r.every_from, r.start_at, r.end_at,
        r.max_runs, r.jitter_seconds, r.calendar, r.on_closed, r.catch_up, r.catch_up_seconds, r.catch_up_limit, r.grace_seconds, r.overlap,
        r.max_concurrent_runs, r.pause_after_failures, r.requires, r.is_shadow, r.payload, r.queue, r.priority, r.max_attempts, r.timeout_seconds, r.run_tags,
        r.run_metadata, r.is_enabled, r.delete_when_finished
    FROM rota.read_schedules(definitions, of_jobs) w CROSS JOIN LATERAL jsonb_populate_record(NULL::rota.schedules, w.code) r
    WHERE NOT EXISTS (SELECT FROM rota.dropped_schedules d WHERE d.tenant = '' AND d.name = w.name)
    ORDER BY w.name COLLATE "C"
    ON CONFLICT (tenant, name) DO NOTHING;
END $$;

-- What is left of the edits when the code changes: those that differ from what it says now.
CREATE FUNCTION rota.still_edited(stored jsonb, edited jsonb, code jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(jsonb_object_agg(e.key, e.value), '{}') FROM jsonb_each(edited) e
    WHERE code ? e.key AND stored -> e.key IS DISTINCT FROM code -> e.key
$$;

CREATE FUNCTION rota.write_definitions(of_application text, definitions jsonb, changed text[], forced text[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    other text := (SELECT min(j.name) FROM rota.jobs j WHERE j.name = ANY (changed) AND to_jsonb(j) ->> 'kind' <> 'python');
BEGIN
    IF other IS NOT NULL THEN
        PERFORM rota.bad_job(other, 'the code declares it, but the database has it as a job that is not Python', 'Give one of them another name.');
    END IF;
    INSERT INTO rota.job_applications AS a (job, application, hash)
    SELECT w.name, of_application, w.hash FROM rota.read_definitions(definitions) w
    WHERE w.name = ANY (changed) ORDER BY w.name COLLATE "C"
    ON CONFLICT (job, application) DO UPDATE SET hash = excluded.hash WHERE a.hash <> excluded.hash;
    INSERT INTO rota.jobs (name, application, definition_hash, code, source, executor, payload_schema,
        description, queue, priority, max_attempts, timeout_seconds, backoff, tags, metadata, default_payload, is_enabled)
    SELECT w.name, of_application, w.hash, w.code, w.source, w.executor, w.payload_schema,
        r.description, r.queue, r.priority, r.max_attempts, r.timeout_seconds, r.backoff, r.tags, r.metadata, r.default_payload, r.is_enabled
    FROM rota.read_definitions(definitions) w CROSS JOIN LATERAL jsonb_populate_record(NULL::rota.jobs, w.code) r
    WHERE w.name = ANY (changed) ORDER BY w.name COLLATE "C"
    ON CONFLICT (name) DO NOTHING;
    UPDATE rota.jobs j SET
        application = of_application, definition_hash = w.hash, code = w.code, source = w.source, executor = w.executor,
        payload_schema = w.payload_schema, deleted_from_code_at = NULL,
        edited = CASE WHEN w.name = ANY (forced) THEN '{}' ELSE rota.still_edited(to_jsonb(j), j.edited, w.code) END,
        (description, queue, priority, max_attempts, timeout_seconds, backoff, tags, metadata, default_payload, is_enabled) = (
        SELECT r.description, r.queue, r.priority, r.max_attempts, r.timeout_seconds, r.backoff, r.tags, r.metadata, r.default_payload, r.is_enabled
        FROM jsonb_populate_record(j, w.code - CASE WHEN w.name = ANY (forced) THEN '{}'::text[] ELSE rota.kept_fields(j.edited) END) r)
    FROM rota.read_definitions(definitions) w
    WHERE j.name = w.name AND w.name = ANY (changed) AND (
        w.name = ANY (forced) OR ((j.definition_hash IS DISTINCT FROM w.hash OR j.deleted_from_code_at IS NOT NULL)
                                  AND rota.may_follow(j, of_application)));
    PERFORM rota.sync_schedules(definitions,
        ARRAY(SELECT j.name FROM rota.jobs j WHERE j.name = ANY (changed) AND j.application = of_application), forced);
END $$;

-- Tells the database what a process declares; answers the names of those that were written. names: all that the process
-- declares, so that what is gone can be marked; NULL: do not look for that. Without a worker and with names, somebody has
-- asked for it. Nothing is written when nothing has changed; one process at a time writes.
CREATE FUNCTION rota.register_jobs(
    of_application text, of_build text, definitions jsonb, for_worker bigint DEFAULT NULL, names text[] DEFAULT NULL, forced text[] DEFAULT '{}'
) RETURNS SETOF text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    actor   text := current_setting('rota' || '.actor', true);
    changed text[] := ARRAY(SELECT rota.changed_jobs(of_application, definitions, forced));
    gone    text[] := ARRAY(SELECT rota.gone_jobs(of_application, names) WHERE names IS NOT NULL);
    speaks  boolean;
BEGIN
    IF definitions = '[]' AND names IS NULL THEN
        RETURN;                                         -- no application: somebody who looks around
    END IF;
    IF changed = '{}' AND gone = '{}' AND EXISTS (
        SELECT FROM rota.builds b WHERE b.application = of_application AND b.build = of_build AND (b.has_worked OR for_worker IS NULL)
        AND b.number = (SELECT max(m.number) FROM rota.builds m WHERE m.application = of_application)) THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('rota.definitions', 0));
    PERFORM set_config('rota' || '.syncing', 'on', true),
            set_config('rota' || '.actor', coalesce(nullif(actor, ''), 'code:' || of_application), true);
    changed := ARRAY(SELECT rota.changed_jobs(of_application, definitions, forced));
    gone := ARRAY(SELECT rota.gone_jobs(of_application, names) WHERE names IS NOT NULL);
    speaks := (for_worker IS NULL AND names IS NOT NULL) OR rota.may_speak(of_application, of_build, for_worker);
    IF speaks THEN
        PERFORM rota.speak(of_application, of_build, for_worker);
        DELETE FROM rota.job_applications a WHERE a.application = of_application AND a.job = ANY (gone);
        UPDATE rota.jobs j SET deleted_from_code_at = rota.now()
        WHERE j.name = ANY (gone) AND NOT EXISTS (SELECT FROM rota.job_applications a WHERE a.job = j.name);
    ELSE
        gone := '{}';
        changed := ARRAY(SELECT c FROM unnest(changed) c WHERE NOT EXISTS (SELECT FROM rota.jobs j WHERE j.name = c));
    END IF;
    PERFORM rota.write_definitions(of_application, definitions, changed, forced);
    PERFORM set_config('rota' || '.syncing', '', true), set_config('rota' || '.actor', coalesce(actor, ''), true);
    RETURN QUERY SELECT unnest(changed || gone);
END $$;

-- The start of workers, and what runs at it.

-- Workers start one after the other here: who finds nobody live opens the next fleet. One that comes back after it lost
-- its lease starts nothing.
CREATE FUNCTION rota.start_worker(for_worker bigint, of_application text, of_build text, is_new boolean) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('rota.fleet', 0));
    INSERT INTO rota.fleets AS f (application, number)
    SELECT a, 1 FROM unnest(ARRAY['', of_application]) a
    WHERE NOT EXISTS (SELECT FROM rota.workers w WHERE w.application IS NOT NULL AND a IN ('', w.application)
                      AND w.state IN ('live', 'stopping') AND w.lease_expires_at > clock_timestamp() AND w.id <> for_worker)
    ORDER BY a
    ON CONFLICT (application) DO UPDATE SET number = f.number + 1, started_at = rota.now() WHERE is_new;
    UPDATE rota.workers SET application = of_application, build = of_build WHERE id = for_worker;
END $$;

-- Runs what an init schedule owes to this start; whoever writes the marker first enqueues. once: again until it succeeded.
CREATE FUNCTION rota.run_inits(for_worker bigint, of_release text) RETURNS TABLE (schedule text, run_id bigint) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    starter rota.workers;
BEGIN
    SELECT * INTO starter FROM rota.workers w WHERE w.id = for_worker;
    IF NOT EXISTS (SELECT FROM rota.schedules s WHERE s.init IS NOT NULL) THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH due AS MATERIALIZED (
        SELECT s.*, j.queue AS job_queue, j.priority AS job_priority, j.max_attempts AS job_attempts, j.default_payload, m.marker
        FROM rota.schedules s JOIN rota.jobs j ON j.name = s.job
        CROSS JOIN LATERAL (SELECT CASE s.init WHEN 'once' THEN 'once' WHEN 'release' THEN 'release ' || of_release
            ELSE 'start ' || (SELECT f.number FROM rota.fleets f WHERE f.application = j.application) END AS marker) m
        WHERE s.init IS NOT NULL AND s.is_ticking AND s.paused_at IS NULL AND NOT s.is_shadow AND m.marker IS NOT NULL
          AND j.is_enabled AND j.deleted_from_code_at IS NULL
          AND j.application IN ('', starter.application) AND (j.code IS NULL OR j.name = ANY (starter.jobs))
          AND coalesce(s.start_at <= clock, true) AND coalesce(s.end_at >= clock, true) AND coalesce(s.run_count < s.max_runs, true)
    ), taken AS (
        INSERT INTO rota.init_runs AS i (schedule_id, marker, run_id)
        SELECT d.id, d.marker, nextval('rota.run_ids') FROM due d ORDER BY d.id
        ON CONFLICT (schedule_id, marker) DO UPDATE SET run_id = excluded.run_id, state = 'queued', enqueued_at = excluded.enqueued_at
        WHERE i.marker = 'once' AND i.state IN ('failed', 'cancelled') AND NOT EXISTS (SELECT FROM rota.open_runs o WHERE o.id = i.run_id)
        RETURNING i.schedule_id, i.marker, i.run_id
    ), counted AS (
        UPDATE rota.schedules s SET run_count = s.run_count + 1, last_enqueued_at = clock, version = s.version + 1
        FROM taken t WHERE s.id = t.schedule_id
    ), noted AS (
        INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, decision, tenant, schedule, details, claimed_at, decided_at, decided_by,
            enqueued_at, run_id, state)
        SELECT d.id, clock, clock, 'ran', d.tenant, d.name, jsonb_build_object('init', t.marker), clock, clock, for_worker, clock, t.run_id, 'queued'
        FROM taken t JOIN due d ON d.id = t.schedule_id ORDER BY d.id
    ), enqueued AS (
        INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, queue, job, tenant, payload, priority, max_attempts,
            timeout_seconds, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id)
        SELECT t.run_id, t.run_id, clock, clock_timestamp(), clock, 'queued', coalesce(d.queue, d.job_queue), d.job, d.tenant,
            coalesce(d.payload, d.default_payload, '{}'), coalesce(d.priority, d.job_priority), coalesce(d.max_attempts, d.job_attempts),
            d.timeout_seconds, d.run_tags, d.run_metadata,
            jsonb_build_object('type', 'scheduler', 'schedule', d.name, 'init', t.marker, 'since', d.last_success_for), d.name, clock, d.id
        FROM taken t JOIN due d ON d.id = t.schedule_id ORDER BY d.id
        RETURNING schedule, id, queue
    )
    SELECT e.schedule, e.id FROM enqueued e;
    PERFORM rota.wake(ARRAY(SELECT DISTINCT o.queue FROM rota.init_runs i JOIN rota.open_runs o ON o.id = i.run_id WHERE i.enqueued_at = clock));
END $$;

CREATE FUNCTION rota.init_run_ended() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE rota.init_runs i SET state = NEW.state WHERE i.run_id = NEW.id;
    IF FOUND AND NEW.state = 'succeeded' THEN
        UPDATE rota.schedules s SET finished_at = NEW.finished_at WHERE s.id = NEW.schedule_id AND s.init = 'once';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER ended_runs_schedule_init AFTER INSERT ON rota.ended_runs FOR EACH ROW
WHEN (NEW.schedule_id IS NOT NULL AND NEW.triggered_by ? 'init') EXECUTE FUNCTION rota.init_run_ended();
