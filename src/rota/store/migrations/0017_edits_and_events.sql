-- Edits that do not overwrite one another, events that start jobs, jobs that can be deleted, and counts of runs.

-- Versions. What people edit carries a number that each edit raises. A schedule's own `version` also rises with every tick,
-- which compares it; `edit_version` is the one for people.

ALTER TABLE rota.schedules ADD COLUMN edit_version bigint NOT NULL DEFAULT 1;
ALTER TABLE rota.jobs
    ADD COLUMN version bigint NOT NULL DEFAULT 1,
    ADD COLUMN events  text[] NOT NULL DEFAULT '{}' CHECK (array_position(events, NULL) IS NULL);
ALTER TABLE rota.calendars ADD COLUMN version bigint NOT NULL DEFAULT 1;
ALTER TABLE rota.schedule_templates ADD COLUMN version bigint NOT NULL DEFAULT 1;
ALTER TABLE rota.queues ADD COLUMN version bigint NOT NULL DEFAULT 1;
CREATE INDEX jobs_events ON rota.jobs USING gin (events);

-- Given the columns that are no edit.
CREATE FUNCTION rota.raise_version() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    hidden constant text[] := TG_ARGV[0]::text[];
BEGIN
    NEW.version := OLD.version + (to_jsonb(OLD) - hidden IS DISTINCT FROM to_jsonb(NEW) - hidden)::integer;
    RETURN NEW;
END $$;
-- Their names come last: they see what the other triggers made of the row.
CREATE TRIGGER jobs_version BEFORE UPDATE ON rota.jobs FOR EACH ROW
EXECUTE FUNCTION rota.raise_version('{version,created_at,updated_at,code,edited,definition_hash,source,application}');
CREATE TRIGGER calendars_version BEFORE UPDATE ON rota.calendars FOR EACH ROW EXECUTE FUNCTION rota.raise_version('{version,updated_at}');
CREATE TRIGGER schedule_templates_version BEFORE UPDATE ON rota.schedule_templates FOR EACH ROW EXECUTE FUNCTION rota.raise_version('{version}');
CREATE TRIGGER queues_version BEFORE UPDATE ON rota.queues FOR EACH ROW EXECUTE FUNCTION rota.raise_version('{version}');

-- What a tick and the end of a run write is no edit, and neither is a pause that they begin or end.
CREATE FUNCTION rota.raise_edit_version() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    hidden text[] := '{version,edit_version,anchor_at,cursor_at,next_run_at,segments,ticking_until,moved_to,finished_at,parked_at,error,run_count,failures_in_a_row,last_enqueued_at,last_run_at,last_run_success,last_success_at,last_success_for,is_ticking,due_at,updated_at,updated_by,created_at,origin,code,edited}';
BEGIN
    -- A trigger at the end of a run begins it, the tick ends it under the name of Rota.
    IF (NEW.paused_by = 'rota' AND pg_trigger_depth() > 1) OR current_setting('rota' || '.actor', true) = 'rota' THEN
        hidden := hidden || '{paused_at,paused_by,paused_until,pause_reason}'::text[];
    END IF;
    NEW.edit_version := OLD.edit_version + (to_jsonb(OLD) - hidden IS DISTINCT FROM to_jsonb(NEW) - hidden)::integer;
    RETURN NEW;
END $$;
CREATE TRIGGER schedules_version BEFORE UPDATE OF
    name, tenant, job, description, tags, metadata, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold, every_from, start_at,
    end_at, max_runs, jitter_seconds, calendar, on_closed, catch_up, catch_up_seconds, catch_up_limit, grace_seconds, overlap,
    max_concurrent_runs, pause_after_failures, requires, is_shadow, payload, queue, priority, max_attempts, timeout_seconds, run_tags,
    run_metadata, is_enabled, paused_at, paused_until, pause_reason, delete_when_finished
ON rota.schedules FOR EACH ROW EXECUTE FUNCTION rota.raise_edit_version();

-- Before an edit in the same transaction: it is still as it was when somebody looked, and stays so until the edit.
CREATE FUNCTION rota.expect_version(kind text, name text, version bigint, tenant text DEFAULT '') RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    stored bigint;
BEGIN
    CASE kind
        WHEN 'schedule' THEN
            PERFORM rota.find_schedule(expect_version.name, expect_version.tenant);
            SELECT s.edit_version INTO stored FROM rota.schedules s
            WHERE s.tenant = expect_version.tenant AND s.name = expect_version.name FOR UPDATE;
        WHEN 'job' THEN
            SELECT j.version INTO stored FROM rota.jobs j WHERE j.name = expect_version.name FOR UPDATE;
            IF stored IS NULL THEN
                PERFORM rota.unknown_job(expect_version.name);
            END IF;
        WHEN 'calendar' THEN
            SELECT c.version INTO stored FROM rota.calendars c WHERE c.name = expect_version.name FOR UPDATE;
        WHEN 'template' THEN
            SELECT t.version INTO stored FROM rota.schedule_templates t WHERE t.name = expect_version.name FOR UPDATE;
        WHEN 'queue' THEN
            SELECT q.version INTO stored FROM rota.queues q WHERE q.name = expect_version.name FOR UPDATE;
            stored := coalesce(stored, 1);              -- nobody has said anything about it
        ELSE
            RAISE EXCEPTION 'kind is "%"; it is one of schedule, job, calendar, template, queue', kind USING ERRCODE = 'RO002';
    END CASE;
    IF stored IS NULL THEN
        RAISE EXCEPTION 'no % is named "%"', kind, expect_version.name USING ERRCODE = 'RO002';
    ELSIF stored <> expect_version.version THEN
        RAISE EXCEPTION '% "%" has changed: it is at version %, not %', kind, expect_version.name, stored, expect_version.version
            USING ERRCODE = 'RO008', DETAIL = stored::text, HINT = 'Look at it again, then decide.';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION rota.reschedule(name text, at timestamptz, tenant text DEFAULT '', actor text DEFAULT NULL) RETURNS void
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
        version = s.version + 1, edit_version = s.edit_version + 1, ticking_until = NULL, finished_at = NULL
    WHERE s.id = found.id;
    PERFORM rota.write_audit(NULL, 'schedule.rescheduled', 'schedule', found.name, jsonb_build_object('next_run_at', found.next_run_at),
        jsonb_build_object('next_run_at', reschedule.at), NULL, found.tenant);
END $$;
CREATE OR REPLACE FUNCTION rota.audit_schedule() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    hidden constant text[] := '{version,edit_version,anchor_at,cursor_at,next_run_at,segments,ticking_until,moved_to,run_count,failures_in_a_row,last_enqueued_at,last_run_at,last_run_success,last_success_at,last_success_for,is_ticking,due_at,updated_at,updated_by,created_at,id}';
    before jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) - hidden END;
    after  jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) - hidden END;
BEGIN
    IF before IS DISTINCT FROM after THEN
        PERFORM rota.write_audit(NULL, CASE TG_OP WHEN 'INSERT' THEN 'schedule.created' WHEN 'DELETE' THEN 'schedule.deleted'
            ELSE CASE WHEN OLD.paused_at IS NULL AND NEW.paused_at IS NOT NULL THEN 'schedule.paused'
                      WHEN OLD.paused_at IS NOT NULL AND NEW.paused_at IS NULL THEN 'schedule.resumed'
                      WHEN NOT OLD.is_enabled AND NEW.is_enabled THEN 'schedule.enabled'
                      WHEN OLD.is_enabled AND NOT NEW.is_enabled THEN 'schedule.disabled'
                      ELSE 'schedule.updated' END END,
            'schedule', coalesce(NEW.name, OLD.name),
            CASE WHEN TG_OP = 'UPDATE' THEN (SELECT jsonb_object_agg(o.key, o.value) FROM jsonb_each(before) o WHERE o.value IS DISTINCT FROM after -> o.key) ELSE before END,
            CASE WHEN TG_OP = 'UPDATE' THEN (SELECT jsonb_object_agg(n.key, n.value) FROM jsonb_each(after) n WHERE n.value IS DISTINCT FROM before -> n.key) ELSE after END,
            CASE WHEN TG_OP = 'UPDATE' AND NEW.pause_reason IS DISTINCT FROM OLD.pause_reason THEN NEW.pause_reason END,
            coalesce(NEW.tenant, OLD.tenant));
    END IF;
    PERFORM pg_notify('rota', 'schedules');
    RETURN NULL;
END $$;
-- Events: a named fact starts the jobs that are bound to it.

CREATE FUNCTION rota.check_event(event text) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF event !~ '^\S{1,200}$' IS NOT FALSE THEN
        RAISE EXCEPTION 'an event''s name has 1 to 200 characters and no spaces, not %', coalesce(quote_literal(event), 'NULL')
            USING ERRCODE = 'RO002', HINT = 'Write for example order.paid.';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION rota.check_job() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
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
    PERFORM rota.check_event(e) FROM unnest(NEW.events) e;
    NEW.updated_at := CASE WHEN TG_OP = 'UPDATE' THEN rota.now() ELSE NEW.updated_at END;
    RETURN NEW;
END $$;
CREATE OR REPLACE FUNCTION rota.audit_job() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    hidden constant text[] := '{version,updated_at,created_at,code,edited,definition_hash,source,payload_schema,executor,application}';
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
-- One run of each enabled job that is bound to the event, in the caller's transaction. A key makes it happen once for each
-- of them, as enqueue does.
CREATE FUNCTION rota.emit(event text, payload jsonb DEFAULT '{}', tenant text DEFAULT '', key text DEFAULT NULL, metadata jsonb DEFAULT NULL)
RETURNS TABLE (job text, run_id bigint, is_duplicate boolean) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    PERFORM rota.check_event(emit.event);
    IF emit.payload IS NULL OR jsonb_typeof(emit.payload) <> 'object' THEN
        RAISE EXCEPTION 'the payload of event "%" must be a JSON object, not %', emit.event, coalesce(jsonb_typeof(emit.payload), 'NULL')
            USING ERRCODE = 'RO002', HINT = 'Write for example {"order_id": 7}.';
    END IF;
    RETURN QUERY
    SELECT b.name, r.run_id, r.is_duplicate
    FROM (SELECT j.name FROM rota.jobs j
          WHERE j.events @> ARRAY[emit.event] AND j.is_enabled AND j.deleted_from_code_at IS NULL
          ORDER BY j.name OFFSET 0) b
    CROSS JOIN LATERAL rota.enqueue_run(job => b.name, payload => emit.payload, key => emit.key, tenant => emit.tenant,
        metadata => emit.metadata, triggered_by => jsonb_strip_nulls(jsonb_build_object('type', 'event', 'event', emit.event,
            'actor', nullif(current_setting('rota' || '.actor', true), '')))) r;
END $$;

CREATE OR REPLACE FUNCTION rota.write_definitions(of_application text, definitions jsonb, changed text[], forced text[]) RETURNS void
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
        description, queue, priority, max_attempts, timeout_seconds, backoff, tags, metadata, default_payload, is_enabled, events)
    SELECT w.name, of_application, w.hash, w.code, w.source, w.executor, w.payload_schema,
        r.description, r.queue, r.priority, r.max_attempts, r.timeout_seconds, r.backoff, r.tags, r.metadata, r.default_payload, r.is_enabled,
        coalesce(r.events, '{}')
    FROM rota.read_definitions(definitions) w CROSS JOIN LATERAL jsonb_populate_record(NULL::rota.jobs, w.code) r
    WHERE w.name = ANY (changed) ORDER BY w.name COLLATE "C"
    ON CONFLICT (name) DO NOTHING;
    UPDATE rota.jobs j SET
        application = of_application, definition_hash = w.hash, code = w.code, source = w.source, executor = w.executor,
        payload_schema = w.payload_schema, deleted_from_code_at = NULL,
        edited = CASE WHEN w.name = ANY (forced) THEN '{}' ELSE rota.still_edited(to_jsonb(j), j.edited, w.code) END,
        (description, queue, priority, max_attempts, timeout_seconds, backoff, tags, metadata, default_payload, is_enabled, events) = (
        SELECT r.description, r.queue, r.priority, r.max_attempts, r.timeout_seconds, r.backoff, r.tags, r.metadata, r.default_payload, r.is_enabled, r.events
        FROM jsonb_populate_record(j, w.code - CASE WHEN w.name = ANY (forced) THEN '{}'::text[] ELSE rota.kept_fields(j.edited) END) r)
    FROM rota.read_definitions(definitions) w
    WHERE j.name = w.name AND w.name = ANY (changed) AND (
        w.name = ANY (forced) OR ((j.definition_hash IS DISTINCT FROM w.hash OR j.deleted_from_code_at IS NOT NULL)
                                  AND rota.may_follow(j, of_application)));
    PERFORM rota.sync_schedules(definitions,
        ARRAY(SELECT j.name FROM rota.jobs j WHERE j.name = ANY (changed) AND j.application = of_application), forced);
END $$;
-- Deleting jobs and schedules.

CREATE OR REPLACE FUNCTION rota.keep_job() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    found bigint;
BEGIN
    IF OLD.is_system THEN
        RAISE EXCEPTION 'job "%" belongs to Rota and cannot be deleted', OLD.name USING ERRCODE = 'RO005', HINT = 'Disable it instead.';
    END IF;
    SELECT count(*) INTO found FROM rota.schedules s WHERE s.job = OLD.name;
    IF found > 0 THEN
        RAISE EXCEPTION 'job "%" has schedules: %', OLD.name, found
            USING ERRCODE = 'RO005', HINT = 'Delete its schedules first, or with it: delete_job(…, cascade => true).';
    END IF;
    SELECT count(*) INTO found FROM rota.open_runs o
    WHERE o.job = OLD.name AND current_setting('rota' || '.deleting_job', true) IS DISTINCT FROM OLD.name;
    IF found > 0 THEN
        RAISE EXCEPTION 'job "%" has runs that have not ended: %', OLD.name, found
            USING ERRCODE = 'RO005', HINT = 'Let them end, or cancel them with it: delete_job(…, cancel_open => true).';
    END IF;
    RETURN OLD;
END $$;

-- With cascade its schedules go too; with cancel_open its waiting runs are cancelled and its running ones asked to stop.
-- Answers how many that were. What it did stays in history, ledger and audit.
CREATE FUNCTION rota.delete_job(name text, cascade boolean DEFAULT false, cancel_open boolean DEFAULT false, reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    found     rota.jobs;
    cancelled integer := 0;
    stopped   integer := 0;
BEGIN
    SELECT j.* INTO found FROM rota.jobs j WHERE j.name = delete_job.name FOR UPDATE;
    IF found.name IS NULL THEN
        PERFORM rota.unknown_job(delete_job.name);
    END IF;
    PERFORM rota.act_as(delete_job.actor), set_config('rota' || '.reason', coalesce(delete_job.reason, ''), true);
    PERFORM rota.delete_schedule(s.name, tenant => s.tenant) FROM rota.schedules s WHERE s.job = found.name AND delete_job.cascade;
    IF delete_job.cancel_open AND NOT found.is_system THEN
        SELECT count(*) INTO cancelled FROM rota.end_waiting_runs(
            ARRAY(SELECT o.id FROM rota.open_runs o WHERE o.job = found.name AND o.state <> 'running'), 'cancelled', 'its job was deleted');
        SELECT count(rota.cancel_run(o.id, 'its job was deleted')) INTO stopped
        FROM rota.open_runs o WHERE o.job = found.name;
        PERFORM set_config('rota' || '.deleting_job', found.name, true);
    END IF;
    DELETE FROM rota.jobs j WHERE j.name = found.name;
    PERFORM set_config('rota' || '.deleting_job', '', true), set_config('rota' || '.reason', '', true);
    RETURN cancelled + stopped;
END $$;

-- The ledger of a schedule outlives it, and is found by its name.
CREATE TABLE rota.deleted_schedules (
    schedule_id bigint PRIMARY KEY,
    tenant      text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    deleted_at  timestamptz NOT NULL DEFAULT rota.now()
);
CREATE INDEX deleted_schedules_name ON rota.deleted_schedules (tenant, name);
CREATE INDEX deleted_schedules_at ON rota.deleted_schedules (deleted_at);

CREATE FUNCTION rota.note_deleted_schedule() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO rota.deleted_schedules (schedule_id, tenant, name) VALUES (OLD.id, OLD.tenant, OLD.name);
    -- Longer than any ledger is kept.
    DELETE FROM rota.deleted_schedules d WHERE d.deleted_at < rota.now() - interval '400 days';
    RETURN NULL;
END $$;
CREATE TRIGGER schedules_deleted AFTER DELETE ON rota.schedules FOR EACH ROW EXECUTE FUNCTION rota.note_deleted_schedule();

-- A calendar that can be read again brings back the schedules that it parked. Whatever they missed meanwhile, their
-- catch-up decides.
CREATE FUNCTION rota.revive_schedules() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE rota.schedules s SET parked_at = NULL, error = NULL, version = s.version + 1
    WHERE s.calendar = NEW.name AND s.parked_at IS NOT NULL;
    PERFORM pg_notify('rota', 'schedules') WHERE FOUND;
    RETURN NULL;
END $$;
CREATE TRIGGER calendars_revive AFTER INSERT OR UPDATE OF definition ON rota.calendars FOR EACH ROW EXECUTE FUNCTION rota.revive_schedules();

-- A start that an init schedule lets pass is a decision too, one for each marker and reason.
CREATE FUNCTION rota.note_skipped_inits(for_worker bigint, of_release text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    clock   timestamptz := rota.now();
    starter rota.workers := (SELECT w FROM rota.workers w WHERE w.id = for_worker);
BEGIN
    -- Many may start at once; one of them writes.
    PERFORM pg_advisory_xact_lock(hashtextextended('rota.fleet', 0));
    INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, decision, reason, tenant, schedule, details, claimed_at, decided_at, decided_by)
    SELECT s.id, clock, clock, 'skipped', m.reason, s.tenant, s.name, jsonb_build_object('init', m.marker), clock, clock, for_worker
    FROM rota.schedules s JOIN rota.jobs j ON j.name = s.job
    CROSS JOIN LATERAL (SELECT
        CASE s.init WHEN 'once' THEN 'once' WHEN 'release' THEN 'release ' || of_release
             ELSE 'start ' || (SELECT f.number FROM rota.fleets f WHERE f.application = j.application) END AS marker,
        CASE WHEN NOT s.is_enabled THEN 'disabled'
             WHEN coalesce(s.paused_until > clock, s.paused_at IS NOT NULL) THEN 'paused'
             WHEN NOT j.is_enabled OR j.deleted_from_code_at IS NOT NULL THEN 'job_disabled'
             WHEN s.is_shadow THEN 'shadow' END AS reason) m
    WHERE s.init IS NOT NULL AND s.finished_at IS NULL AND s.parked_at IS NULL AND m.marker IS NOT NULL AND m.reason IS NOT NULL
      AND j.application IN ('', starter.application)
      AND coalesce(s.start_at <= clock, true) AND coalesce(s.end_at >= clock, true) AND coalesce(s.run_count < s.max_runs, true)
      AND NOT EXISTS (SELECT FROM rota.init_runs i WHERE i.schedule_id = s.id AND i.marker = m.marker AND i.marker <> 'once')
      AND NOT EXISTS (SELECT FROM rota.ledger l WHERE l.schedule_id = s.id AND l.details ->> 'init' = m.marker AND l.reason = m.reason)
    ON CONFLICT (schedule_id, nominal_at) DO NOTHING;
END $$;

CREATE OR REPLACE FUNCTION rota.run_inits(for_worker bigint, of_release text) RETURNS TABLE (schedule text, run_id bigint) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    starter rota.workers;
BEGIN
    SELECT * INTO starter FROM rota.workers w WHERE w.id = for_worker;
    IF NOT EXISTS (SELECT FROM rota.schedules s WHERE s.init IS NOT NULL) THEN
        RETURN;
    END IF;
    PERFORM rota.note_skipped_inits(for_worker, of_release);
    RETURN QUERY
    WITH due AS MATERIALIZED (
        SELECT s.*, j.queue AS job_queue, j.priority AS job_priority, j.max_attempts AS job_attempts, j.default_payload, m.marker
        FROM rota.schedules s JOIN rota.jobs j ON j.name = s.job
        CROSS JOIN LATERAL (SELECT CASE s.init WHEN 'once' THEN 'once' WHEN 'release' THEN 'release ' || of_release
            ELSE 'start ' || (SELECT f.number FROM rota.fleets f WHERE f.application = j.application) END AS marker) m
        WHERE s.init IS NOT NULL AND s.is_ticking AND coalesce(s.paused_until <= clock, s.paused_at IS NULL) AND NOT s.is_shadow AND m.marker IS NOT NULL
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
-- Counts of runs. A run may have many attempts, so the roll-ups of attempts cannot tell. Upkeep counts what has ended,
-- behind the newest by a while, as a run shows up only when its end is committed; the view adds the rest.

CREATE TABLE rota.job_counts (
    job        text COLLATE "C" PRIMARY KEY,
    counted_to timestamptz NOT NULL,                -- those finished up to here are in the counts
    succeeded  bigint NOT NULL DEFAULT 0,
    failed     bigint NOT NULL DEFAULT 0,
    cancelled  bigint NOT NULL DEFAULT 0
);

CREATE FUNCTION rota.count_ended_runs() RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    upto    timestamptz := rota.now() - interval '2 minutes';
    counted integer;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('rota.job_counts', 0)) THEN
        RETURN 0;
    END IF;
    INSERT INTO rota.job_counts AS c (job, counted_to, succeeded, failed, cancelled)
    SELECT j.name, upto, e.succeeded, e.failed, e.cancelled
    FROM rota.jobs j LEFT JOIN rota.job_counts c ON c.job = j.name
    CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE r.state = 'succeeded') AS succeeded, count(*) FILTER (WHERE r.state = 'failed') AS failed,
               count(*) FILTER (WHERE r.state = 'cancelled') AS cancelled
        FROM rota.ended_runs r
        WHERE r.job = j.name AND r.finished_at > coalesce(c.counted_to, '-infinity') AND r.finished_at <= upto
    ) e
    WHERE coalesce(c.counted_to, '-infinity') < upto AND e.succeeded + e.failed + e.cancelled > 0
    ON CONFLICT (job) DO UPDATE SET counted_to = excluded.counted_to, succeeded = c.succeeded + excluded.succeeded,
        failed = c.failed + excluded.failed, cancelled = c.cancelled + excluded.cancelled;
    GET DIAGNOSTICS counted = ROW_COUNT;
    RETURN counted;
END $$;

-- A lighter tick. Schedules are taken in the order of their due times, so who thinks about some says so in one row, for a stretch
-- of that order, instead of in each schedule's. A stretch ends with the tick that took it, or after a few seconds; a crash of the
-- server may forget it. (schedules.ticking_until is no longer written.)
DROP INDEX rota.schedules_due;
CREATE INDEX schedules_due ON rota.schedules (due_at, id) WHERE is_ticking AND init IS NULL;
CREATE UNLOGGED TABLE rota.schedule_holds (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    first_due  timestamptz NOT NULL,
    first_id   bigint NOT NULL,
    last_due   timestamptz NOT NULL,
    last_id    bigint NOT NULL,
    until      timestamptz NOT NULL
);

-- The due schedules from one place in the order to another, both left out.
CREATE FUNCTION rota.due_between(due_after timestamptz, id_after bigint, due_before timestamptz, id_before bigint, most integer) RETURNS bigint[]
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
BEGIN
    RETURN ARRAY(SELECT s.id FROM rota.schedules s
        WHERE s.is_ticking AND s.init IS NULL AND (s.due_at, s.id) > (due_after, id_after) AND (s.due_at, s.id) < (due_before, id_before)
        ORDER BY s.due_at, s.id LIMIT most);
END $$;

-- What is due and in no stretch that somebody holds, oldest first: one probe for each gap between the stretches.
CREATE FUNCTION rota.find_due(clock timestamptz, most integer) RETURNS bigint[] LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    held    record;
    at_due  timestamptz := '-infinity';
    at_id   bigint := 0;
    found   bigint[] := '{}';
BEGIN
    FOR held IN SELECT h.first_due, h.first_id, h.last_due, h.last_id FROM rota.schedule_holds h WHERE h.until > clock_timestamp()
                ORDER BY h.first_due, h.first_id
    LOOP
        IF (held.first_due, held.first_id) > (at_due, at_id) THEN
            found := found || rota.due_between(at_due, at_id, held.first_due, held.first_id, most - cardinality(found));
        END IF;
        IF (held.last_due, held.last_id) > (at_due, at_id) THEN
            at_due := held.last_due;
            at_id := held.last_id;
        END IF;
    END LOOP;
    RETURN found || rota.due_between(at_due, at_id, clock, 9223372036854775807, most - cardinality(found));
END $$;

-- Holds a stretch of what is due. One at a time, until the commit: the next one sees what this one took.
CREATE FUNCTION rota.hold_due(max_schedules integer, hold_seconds double precision, OUT hold bigint, OUT ids bigint[])
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    -- Nobody has to wait for the disk: a stretch that is lost costs nothing, and neither does a tick (see write_ticks).
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM pg_advisory_xact_lock(hashtextextended('rota.hold_due', 0));
    ids := rota.find_due(rota.now(), max_schedules);
    IF ids = '{}' THEN
        RETURN;
    END IF;
    DELETE FROM rota.schedule_holds h WHERE h.until < clock_timestamp();
    INSERT INTO rota.schedule_holds (first_due, first_id, last_due, last_id, until)
    SELECT f.due_at, f.id, l.due_at, l.id, clock_timestamp() + make_interval(secs => hold_seconds)
    FROM rota.schedules f, rota.schedules l WHERE f.id = ids[1] AND l.id = ids[cardinality(ids)]
    RETURNING id INTO hold;
END $$;

CREATE FUNCTION rota.read_due(ids bigint[])
RETURNS TABLE (schedule json, clock timestamptz, unfinished integer, is_job_enabled boolean, calendar_definition jsonb)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    at timestamptz := rota.now();
BEGIN
    RETURN QUERY
    SELECT row_to_json(d), at,
           (SELECT count(*)::integer FROM rota.open_runs o WHERE o.schedule_id = d.id),
           coalesce((SELECT j.is_enabled AND j.deleted_from_code_at IS NULL FROM rota.jobs j WHERE j.name = d.job), false),
           (SELECT c.definition FROM rota.calendars c WHERE c.name = d.calendar)
    FROM (
        SELECT s.id, s.tenant, s.name, s.job, s.version, s.anchor_at, s.cursor_at, s.cron, s.interval_seconds, s.run_at, s.has_seconds,
               s.timezone, s.gap, s.fold, s.every_from, s.start_at, s.end_at, s.max_runs, s.jitter_seconds, s.calendar, s.on_closed,
               s.catch_up, s.catch_up_seconds, s.catch_up_limit, s.grace_seconds, s.overlap, s.max_concurrent_runs, s.requires,
               s.is_shadow, s.paused_at, s.paused_until, s.next_run_at, s.moved_to, s.segments, s.run_count, s.last_success_for
        -- One by one and by id: by due times it would walk over all that is due for each of them.
        FROM unnest(ids) WITH ORDINALITY AS f (id, n) CROSS JOIN LATERAL (SELECT * FROM rota.schedules WHERE id = f.id OFFSET 0) s
        WHERE s.is_ticking AND s.init IS NULL AND s.due_at <= at ORDER BY f.n
    ) d;
END $$;

-- Both at once, as the previous release asks.
CREATE OR REPLACE FUNCTION rota.take_due_schedules(max_schedules integer, hold_seconds double precision)
RETURNS TABLE (schedule json, clock timestamptz, unfinished integer, is_job_enabled boolean, calendar_definition jsonb)
LANGUAGE sql VOLATILE AS $$
    SELECT r.* FROM rota.hold_due(max_schedules, hold_seconds) h CROSS JOIN LATERAL rota.read_due(h.ids) r
$$;

CREATE FUNCTION rota.release_hold(hold bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    DELETE FROM rota.schedule_holds h WHERE h.id = hold;
END $$;

-- Zero while something is due that nobody holds; else until the next due time, or until a stretch with something due is free
-- again. NULL: nothing will ever be due.
CREATE OR REPLACE FUNCTION rota.next_schedule_seconds() RETURNS double precision LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    clock   timestamptz := rota.now();
    soonest interval;
    held    interval;
BEGIN
    IF rota.find_due(clock, 1) <> '{}' THEN
        RETURN 0;
    END IF;
    SELECT s.due_at - clock INTO soonest FROM rota.schedules s
    WHERE s.is_ticking AND s.init IS NULL AND s.due_at > clock AND s.due_at < 'infinity' ORDER BY s.due_at LIMIT 1;
    SELECT min(h.until) - clock_timestamp() INTO held FROM rota.schedule_holds h WHERE h.until > clock_timestamp()
    AND EXISTS (SELECT FROM rota.schedules s WHERE s.is_ticking AND s.init IS NULL AND s.due_at <= clock);
    soonest := least(soonest, held);
    RETURN CASE WHEN soonest IS NOT NULL THEN greatest(extract(epoch FROM soonest), 0) END;
END $$;

CREATE OR REPLACE FUNCTION rota.write_ticks(for_worker bigint, ticks jsonb) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    written bigint[];
    resumed bigint[];
    arrived bigint[];
    touched text[];
    soonest timestamptz;
BEGIN
    -- A tick that a crash of the server forgets is one that never was: its runs are gone with it, and the next tick decides
    -- again. Whoever claimed one of them has flushed the tick too, as commits are flushed in their order.
    PERFORM set_config('synchronous_commit', 'off', true);
    WITH decided AS MATERIALIZED (
        -- In one order, as the ends of runs lock schedules too; the update below goes row by row through it.
        SELECT t.* FROM jsonb_to_recordset(ticks) AS t (
            id bigint, version bigint, cursor_at timestamptz, new_cursor_at timestamptz, next_run_at timestamptz,
            segments jsonb, is_resumed boolean, is_finished boolean, is_moved boolean, occurrences jsonb)
        ORDER BY t.id
    ), moved AS (
        -- No column that people edit, as the triggers of edits go by the columns that are named.
        UPDATE rota.schedules s
        SET cursor_at = t.new_cursor_at, next_run_at = t.next_run_at, segments = coalesce(t.segments, '[]'),
            finished_at = CASE WHEN t.is_finished THEN clock END,
            version = s.version + 1,
            run_count = s.run_count + (SELECT count(*) FROM jsonb_array_elements(t.occurrences) o WHERE o ->> 'decision' IN ('ran', 'caught_up')),
            last_enqueued_at = CASE WHEN t.occurrences @> '[{"decision": "ran"}]' OR t.occurrences @> '[{"decision": "caught_up"}]'
                               THEN clock ELSE s.last_enqueued_at END
        FROM decided t
        WHERE s.id = ANY (ARRAY[t.id]) AND s.version = t.version AND s.cursor_at IS NOT DISTINCT FROM t.cursor_at
          AND s.is_enabled AND (s.paused_at IS NULL OR t.is_resumed)
        RETURNING s.id, s.tenant, s.name, s.job, s.payload, s.queue, s.priority, s.max_attempts, s.timeout_seconds, s.run_tags,
            s.run_metadata, s.last_success_for, t.occurrences, t.is_resumed, t.is_moved AS was_moved
    ), in_order AS MATERIALIZED (
        -- Numbers are claimed in their order: given by priority, then by nominal time.
        SELECT m.id, m.tenant, m.name, m.job, m.payload, m.queue, coalesce(m.priority, j.priority) AS priority, m.max_attempts,
            m.timeout_seconds, m.run_tags, m.run_metadata, m.last_success_for, o.*
        FROM moved m LEFT JOIN rota.jobs j ON j.name = m.job CROSS JOIN LATERAL jsonb_to_recordset(m.occurrences) AS o (
            nominal_at timestamptz, through_at timestamptz, count integer, decision text, reason text, is_moved boolean,
            start_at timestamptz, is_held boolean, details jsonb)
        ORDER BY coalesce(m.priority, j.priority), o.nominal_at
    ), wanted AS MATERIALIZED (
        SELECT i.*, CASE WHEN i.decision IN ('ran', 'caught_up') THEN nextval('rota.run_ids') END AS new_run_id FROM in_order i
    ), noted AS (
        INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, count, decision, reason, tenant, schedule, is_moved, details,
            claimed_at, decided_at, decided_by, enqueued_at, run_id, state)
        SELECT w.id, w.nominal_at, coalesce(w.through_at, w.nominal_at), coalesce(w.count, 1), w.decision, w.reason, w.tenant, w.name, coalesce(w.is_moved, false), w.details,
            clock, clock_timestamp() + (SELECT clock_offset FROM rota.settings), for_worker,
            CASE WHEN w.new_run_id IS NOT NULL THEN clock END, w.new_run_id, CASE WHEN w.new_run_id IS NOT NULL THEN 'queued' END
        FROM wanted w ORDER BY w.id, w.nominal_at
        ON CONFLICT (schedule_id, nominal_at) DO NOTHING
        RETURNING run_id
    ), enqueued AS (
        INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, held_by, queue, job, tenant, payload, priority,
            max_attempts, timeout_seconds, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id)
        SELECT n.run_id, n.run_id, clock, clock_timestamp(), w.start_at,
            CASE WHEN w.start_at > clock AND w.is_held IS NOT TRUE THEN 'scheduled' ELSE 'queued' END,
            CASE WHEN w.is_held THEN 'overlap' END,
            coalesce(w.queue, j.queue), w.job, w.tenant, coalesce(w.payload, j.default_payload, '{}'), w.priority,
            coalesce(w.max_attempts, j.max_attempts), w.timeout_seconds, w.run_tags, w.run_metadata,
            jsonb_build_object('type', CASE w.decision WHEN 'caught_up' THEN 'catch_up' ELSE 'scheduler' END, 'schedule', w.name,
                               'since', w.last_success_for),
            w.name, w.nominal_at, w.id
        FROM noted n JOIN wanted w ON w.new_run_id = n.run_id JOIN rota.jobs j ON j.name = w.job
        ORDER BY n.run_id
        RETURNING queue, state, run_at, held_by
    )
    SELECT (SELECT array_agg(id) FROM moved), (SELECT array_agg(id) FROM moved WHERE is_resumed),
           (SELECT array_agg(id) FROM moved WHERE was_moved),
           (SELECT array_agg(DISTINCT queue) FROM enqueued WHERE state = 'queued' AND held_by IS NULL),
           (SELECT min(run_at) FROM enqueued WHERE state = 'scheduled')
    INTO written, resumed, arrived, touched, soonest;
    IF resumed IS NOT NULL THEN
        PERFORM rota.act_as('rota');
        UPDATE rota.schedules s
        SET paused_at = NULL, paused_by = NULL, pause_reason = NULL, paused_until = NULL, failures_in_a_row = 0, version = s.version + 1
        WHERE s.id = ANY (resumed);
    END IF;
    IF arrived IS NOT NULL THEN
        UPDATE rota.schedules s SET moved_to = NULL WHERE s.id = ANY (arrived);
    END IF;
    IF EXISTS (SELECT FROM rota.open_runs o WHERE o.held_by = 'overlap') THEN
        -- A run that ended between the reading and now would not free what was just held because of it, and an edit may have
        -- made room.
        PERFORM rota.free_held_runs(written);
    END IF;
    IF touched IS NOT NULL THEN
        PERFORM rota.wake(touched);
    END IF;
    IF soonest IS NOT NULL THEN
        PERFORM rota.wake_later(soonest - clock);
    END IF;
    IF ticks @> '[{"is_finished": true}]' THEN
        DELETE FROM rota.schedules s WHERE s.id = ANY (written) AND s.finished_at IS NOT NULL AND s.delete_when_finished;
    END IF;
    RETURN QUERY SELECT unnest(written);
END $$;
