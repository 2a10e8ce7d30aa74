-- What code declares. `register_jobs` writes what is new or changed, leaves what a person has edited, and marks what
-- no code declares any more; the newest build of an application speaks for it (`may_speak`). `job_applications` says
-- who declares what, `dropped_schedules` what people deleted, `init_runs` which starts have had their run
-- (`run_inits`). Why: docs/decisions/0011-definition-sync.md.

-- A job is deleted from code when the last application that declared it no longer does.
CREATE TABLE rota.job_applications (
    job           text COLLATE "C" NOT NULL,
    application   text COLLATE "C" NOT NULL,
    hash          text NOT NULL,
    first_seen_at timestamptz NOT NULL DEFAULT rota.now(),
    PRIMARY KEY (job, application)
);
CREATE INDEX job_applications_application ON rota.job_applications (application);

-- Which starts, releases or once an init schedule has had its run for.
CREATE TABLE rota.init_runs (
    schedule_id bigint NOT NULL,
    marker      text COLLATE "C" NOT NULL,  -- once, release 2026-01-31, start 7
    run_id      bigint NOT NULL,
    state       text COLLATE "C" NOT NULL DEFAULT 'queued',
    enqueued_at timestamptz NOT NULL DEFAULT rota.now(),
    PRIMARY KEY (schedule_id, marker)
);
CREATE INDEX init_runs_run ON rota.init_runs (run_id);

-- Declared schedules that an operator deleted: they stay deleted.
CREATE TABLE rota.dropped_schedules (
    tenant     text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    dropped_at timestamptz NOT NULL DEFAULT rota.now(),
    dropped_by text NOT NULL,
    PRIMARY KEY (tenant, name)
);

-- The fields of a row that a declaration names, as the columns hold them (a real column rounds).
-- Called by: put_schedule, put_schedules, read_definitions, read_schedules, sql/jobs/plan.sql.
CREATE FUNCTION rota.pick(stored jsonb, declared jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(jsonb_object_agg(k, stored -> k), '{}') FROM jsonb_object_keys(declared) k
$$;

-- The definitions that a process sends, as rows; code holds what they say of the columns of rota.jobs.
-- Called by: changed_jobs, read_schedules, register_jobs, sql/jobs/plan.sql, write_definitions.
CREATE FUNCTION rota.read_definitions(definitions jsonb) RETURNS TABLE (
    name text, hash text, source text, executor text, payload_schema jsonb, code jsonb, schedules jsonb
) LANGUAGE sql STABLE AS $$
    SELECT w.name, w.hash, w.source, w.executor, w.payload_schema, rota.pick(to_jsonb(r), w.defaults), w.schedules
    FROM jsonb_to_recordset(definitions) AS w (
        name text, hash text, source text, executor text, payload_schema jsonb, defaults jsonb, schedules jsonb)
    CROSS JOIN LATERAL jsonb_populate_record(NULL::rota.jobs, w.defaults) r
$$;

-- The schedules inside these definitions, as rows.
-- Called by: sql/jobs/plan.sql, sync_schedules.
CREATE FUNCTION rota.read_schedules(definitions jsonb, of_jobs text[]) RETURNS TABLE (name text, job text, code jsonb)
LANGUAGE sql STABLE AS $$
    SELECT v ->> 'name', w.name, rota.pick(to_jsonb(r), v - 'name')
    FROM rota.read_definitions(definitions) w CROSS JOIN LATERAL jsonb_array_elements(w.schedules) v
    CROSS JOIN LATERAL jsonb_populate_record(NULL::rota.schedules, v) r
    WHERE w.name = ANY (of_jobs)
$$;

-- Whether this build may say what jobs are: it is the newest, or it takes over. An old build takes over when a worker
-- runs it and no live worker runs a newer one (a roll-back), or when no worker is live at all. A newer build that no
-- worker has run yet is a deployment under way.
-- Called by: must_sync, register_jobs.
CREATE FUNCTION rota.may_speak(of_application text, of_build text, for_worker bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT mine.number IS NULL OR mine.number = newest.number OR CASE
        WHEN for_worker IS NULL THEN NOT EXISTS (SELECT FROM rota.live_workers(of_application))
        ELSE newest.has_worked AND NOT EXISTS (
            SELECT FROM rota.live_workers(of_application) w JOIN rota.builds b ON b.application = w.application
                AND b.build = w.build
            WHERE b.number > mine.number) END
    FROM (SELECT 1) one
    LEFT JOIN rota.builds mine ON mine.application = of_application AND mine.build = of_build
    LEFT JOIN LATERAL (SELECT * FROM rota.builds b WHERE b.application = of_application ORDER BY b.number DESC
        LIMIT 1) newest ON true
$$;

-- Whether a job follows this application: one that two applications declare follows the first, while that one
-- declares it and has a worker.
-- Called by: changed_jobs, write_definitions.
CREATE FUNCTION rota.may_follow(j rota.jobs, of_application text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT j.application = of_application OR j.code IS NULL
        OR NOT EXISTS (SELECT FROM rota.job_applications a WHERE a.job = j.name AND a.application = j.application)
        OR NOT EXISTS (SELECT FROM rota.live_workers(j.application))
$$;

-- Notes that this build is the newest of its application.
-- Called by: register_jobs.
CREATE FUNCTION rota.speak(of_application text, of_build text, for_worker bigint) RETURNS void
LANGUAGE sql VOLATILE SET jit = off AS $$
    WITH newest AS (SELECT coalesce(max(b.number), 0) AS number FROM rota.builds b WHERE b.application = of_application)
    INSERT INTO rota.builds AS b (application, build, number, has_worked)
    SELECT of_application, of_build, n.number + 1, for_worker IS NOT NULL FROM newest n
    ON CONFLICT (application, build) DO UPDATE
    SET number = CASE WHEN b.number = excluded.number - 1 THEN b.number ELSE excluded.number END,
        has_worked = b.has_worked OR excluded.has_worked
    WHERE b.number < excluded.number - 1 OR b.has_worked < excluded.has_worked;
    DELETE FROM rota.builds b WHERE b.application = of_application
        AND b.number < (SELECT max(m.number) - 200 FROM rota.builds m WHERE m.application = of_application);
$$;

-- The names of the definitions that say something new of their job.
-- Called by: register_jobs.
CREATE FUNCTION rota.changed_jobs(of_application text, definitions jsonb, forced text[]) RETURNS SETOF text
LANGUAGE sql STABLE AS $$
    SELECT w.name FROM rota.read_definitions(definitions) w
    LEFT JOIN rota.jobs j ON j.name = w.name
    LEFT JOIN rota.job_applications a ON a.job = w.name AND a.application = of_application
    WHERE j.name IS NULL OR a.hash IS DISTINCT FROM w.hash OR j.deleted_from_code_at IS NOT NULL
      OR w.name = ANY (forced)
       OR (j.definition_hash IS DISTINCT FROM w.hash AND rota.may_follow(j, of_application))
    ORDER BY w.name COLLATE "C"
$$;

-- What this application declared before and does no longer. A person who says so (is_told) is contradicted by live
-- workers only; else by every worker that kept_jobs counts.
-- Called by: must_sync, register_jobs, sql/jobs/plan.sql.
CREATE FUNCTION rota.gone_jobs(of_application text, names text[], is_told boolean) RETURNS SETOF text
LANGUAGE sql STABLE SET jit = off AS $$
    SELECT a.job FROM rota.job_applications a
    WHERE a.application = of_application AND a.job <> ALL (names) AND CASE
        WHEN is_told THEN NOT EXISTS (SELECT FROM rota.live_workers(of_application) w WHERE a.job = ANY (w.jobs))
        ELSE a.job NOT IN (SELECT rota.kept_jobs(of_application)) END
$$;

-- Whether registering again would write something; workers ask every few seconds.
-- Called by: sql/jobs/refresh.sql.
CREATE FUNCTION rota.must_sync(for_worker bigint) RETURNS boolean LANGUAGE sql STABLE SET jit = off AS $$
    SELECT EXISTS (SELECT FROM unnest(w.jobs) n JOIN rota.jobs j ON j.name = n AND j.code IS NOT NULL
                   WHERE NOT EXISTS (SELECT FROM rota.job_applications a
                       WHERE a.job = n AND a.application = w.application))
        OR (rota.may_speak(w.application, w.build, w.id) AND (
            w.build IS DISTINCT FROM (SELECT b.build FROM rota.builds b WHERE b.application = w.application
                ORDER BY b.number DESC LIMIT 1)
            OR EXISTS (SELECT FROM rota.gone_jobs(w.application, w.jobs, false))))
    FROM rota.workers w WHERE w.id = for_worker AND w.application IS NOT NULL
$$;

-- Tells the database what a process declares; returns the names of those that were written. names: all that the
-- process declares, so that what is gone can be marked; NULL: do not look for that. Without a worker and with names,
-- somebody has asked for it. Nothing is written when nothing has changed; one process at a time writes. A worker's
-- own jobs are its application's whatever its build: what was marked deleted is revived, as its code says; nothing
-- else of older code counts. A job that somebody holds is left for the next time, and its build is not the newest
-- until then, so that its workers register again; what somebody forces, waits.
-- Called by: sql/jobs/register.sql.
-- Locks: "definitions".
CREATE FUNCTION rota.register_jobs(
    of_application text, of_build text, definitions jsonb, for_worker bigint DEFAULT NULL, names text[] DEFAULT NULL,
    forced text[] DEFAULT '{}'
) RETURNS SETOF text LANGUAGE plpgsql VOLATILE SET lock_timeout = '5s' SET jit = off AS $$
DECLARE
    actor   text := current_setting('rota' || '.actor', true);
    is_told boolean := for_worker IS NULL AND names IS NOT NULL;
    changed text[] := ARRAY(SELECT rota.changed_jobs(of_application, definitions, forced));
    gone    text[] := ARRAY(SELECT rota.gone_jobs(of_application, names, is_told) WHERE names IS NOT NULL);
    held    text[];
BEGIN
    IF definitions = '[]' AND names IS NULL THEN
        RETURN;                                         -- no application: somebody who looks around
    END IF;
    IF changed = '{}' AND gone = '{}' AND EXISTS (
        SELECT FROM rota.builds b WHERE b.application = of_application AND b.build = of_build
            AND (b.has_worked OR for_worker IS NULL)
        AND b.number = (SELECT max(m.number) FROM rota.builds m WHERE m.application = of_application)) THEN
        RETURN;
    END IF;
    PERFORM rota.take_lock('definitions');
    PERFORM set_config('rota' || '.syncing', 'on', true),
            set_config('rota' || '.actor', coalesce(nullif(actor, ''), 'code:' || of_application), true);
    changed := ARRAY(SELECT rota.changed_jobs(of_application, definitions, forced));
    gone := ARRAY(SELECT rota.gone_jobs(of_application, names, is_told) WHERE names IS NOT NULL);
    held := ARRAY(SELECT c FROM unnest(changed || gone) c WHERE c <> ALL (forced) AND NOT rota.lock_definition(c));
    changed := ARRAY(SELECT c FROM unnest(changed) c WHERE c <> ALL (held));
    gone := ARRAY(SELECT c FROM unnest(gone) c WHERE c <> ALL (held));
    IF is_told OR rota.may_speak(of_application, of_build, for_worker) THEN
        PERFORM rota.speak(of_application, of_build, for_worker) WHERE held = '{}';
        DELETE FROM rota.job_applications a WHERE a.application = of_application AND a.job = ANY (gone);
        UPDATE rota.jobs j SET deleted_from_code_at = rota.now()
        WHERE j.name = ANY (gone) AND NOT EXISTS (SELECT FROM rota.job_applications a WHERE a.job = j.name);
    ELSE
        gone := '{}';
        INSERT INTO rota.job_applications (job, application, hash)
        SELECT w.name, of_application, w.hash FROM rota.read_definitions(definitions) w
        JOIN rota.jobs j ON j.name = w.name
        WHERE for_worker IS NOT NULL AND w.name = ANY (changed) ORDER BY w.name COLLATE "C"
        ON CONFLICT (job, application) DO NOTHING;
        changed := ARRAY(SELECT c FROM unnest(changed) c LEFT JOIN rota.jobs j ON j.name = c
                         WHERE j.name IS NULL OR (for_worker IS NOT NULL AND j.deleted_from_code_at IS NOT NULL));
    END IF;
    PERFORM rota.write_definitions(of_application, definitions, changed, forced);
    PERFORM set_config('rota' || '.syncing', '', true), set_config('rota' || '.actor', coalesce(actor, ''), true);
    IF held <> '{}' THEN
        RAISE WARNING 'the definitions of % are locked by an open transaction and will be written when it ends',
            array_to_string(held, ', ');
    END IF;
    RETURN QUERY SELECT unnest(changed || gone);
END $$;

-- Writes what code says into jobs that are new or changed, without what somebody has edited since.
-- Called by: register_jobs.
CREATE FUNCTION rota.write_definitions(of_application text, definitions jsonb, changed text[], forced text[])
RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    other text := (SELECT min(j.name) FROM rota.jobs j
        WHERE j.name = ANY (changed) AND to_jsonb(j) ->> 'kind' <> 'python');
BEGIN
    IF other IS NOT NULL THEN
        PERFORM rota.bad_job(other, 'the code declares it, but in the database it is not a Python job',
            'Rename one of them.');
    END IF;
    INSERT INTO rota.job_applications AS a (job, application, hash)
    SELECT w.name, of_application, w.hash FROM rota.read_definitions(definitions) w
    WHERE w.name = ANY (changed) ORDER BY w.name COLLATE "C"
    ON CONFLICT (job, application) DO UPDATE SET hash = excluded.hash WHERE a.hash <> excluded.hash;
    INSERT INTO rota.jobs (name, application, definition_hash, code, source, executor, payload_schema,
        description, queue, priority, max_attempts, timeout_seconds, backoff, tags, metadata, default_payload,
        is_enabled, events, delay_seconds, expires_in_seconds, key, tenant)
    SELECT w.name, of_application, w.hash, w.code, w.source, w.executor, w.payload_schema,
        r.description, r.queue, r.priority, r.max_attempts, r.timeout_seconds, r.backoff, r.tags, r.metadata,
        r.default_payload, r.is_enabled, coalesce(r.events, '{}'), r.delay_seconds, r.expires_in_seconds, r.key,
        r.tenant
    FROM rota.read_definitions(definitions) w CROSS JOIN LATERAL jsonb_populate_record(NULL::rota.jobs, w.code) r
    WHERE w.name = ANY (changed) ORDER BY w.name COLLATE "C"
    ON CONFLICT (name) DO NOTHING;
    UPDATE rota.jobs j SET
        application = of_application, definition_hash = w.hash, code = w.code, source = w.source, executor = w.executor,
        payload_schema = w.payload_schema, deleted_from_code_at = NULL,
        edited = CASE WHEN w.name = ANY (forced) THEN '{}' ELSE rota.still_edited(to_jsonb(j), j.edited, w.code) END,
        (description, queue, priority, max_attempts, timeout_seconds, backoff, tags, metadata, default_payload,
            is_enabled, events, delay_seconds, expires_in_seconds, key, tenant) = (
        SELECT r.description, r.queue, r.priority, r.max_attempts, r.timeout_seconds, r.backoff, r.tags, r.metadata,
            r.default_payload, r.is_enabled, r.events, r.delay_seconds, r.expires_in_seconds, r.key, r.tenant
        FROM jsonb_populate_record(j, w.code - CASE WHEN w.name = ANY (forced) THEN '{}'::text[]
            ELSE rota.kept_fields(j.edited) END) r)
    FROM rota.read_definitions(definitions) w
    WHERE j.name = w.name AND w.name = ANY (changed) AND (
        w.name = ANY (forced) OR ((j.definition_hash IS DISTINCT FROM w.hash OR j.deleted_from_code_at IS NOT NULL)
                                  AND rota.may_follow(j, of_application)));
    PERFORM rota.sync_schedules(definitions,
        ARRAY(SELECT j.name FROM rota.jobs j WHERE j.name = ANY (changed) AND j.application = of_application), forced);
END $$;

-- Brings the schedules that jobs declare up to what the code says, of those jobs whose definition is written.
-- Called by: write_definitions.
CREATE FUNCTION rota.sync_schedules(definitions jsonb, of_jobs text[], forced text[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
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
        (description, tags, metadata, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold,
        every_from, start_at, end_at, max_runs, jitter_seconds, burst_allowed, calendar, on_closed, catch_up,
        catch_up_seconds, catch_up_limit, grace_seconds, overlap, max_concurrent_runs, pause_after_failures, requires,
        is_shadow, payload, queue, priority, max_attempts, timeout_seconds, run_tags,
        run_metadata, is_enabled, delete_when_finished) = (
        SELECT r.description, r.tags, r.metadata, r.cron, r.interval_seconds, r.run_at, r.init, r.has_seconds,
            r.timezone, r.gap, r.fold, r.every_from, r.start_at, r.end_at,
        r.max_runs, r.jitter_seconds, coalesce(r.burst_allowed, false), r.calendar, r.on_closed, r.catch_up,
        r.catch_up_seconds, r.catch_up_limit, r.grace_seconds, r.overlap,
        r.max_concurrent_runs, r.pause_after_failures, r.requires, r.is_shadow, r.payload, r.queue, r.priority,
        r.max_attempts, r.timeout_seconds, r.run_tags, r.run_metadata, r.is_enabled, r.delete_when_finished
        FROM jsonb_populate_record(s, w.code - CASE WHEN w.job = ANY (forced) THEN '{}'::text[]
            ELSE rota.kept_fields(s.edited) END) r)
    FROM rota.read_schedules(definitions, of_jobs) w
    WHERE s.tenant = '' AND s.name = w.name AND s.origin = 'definition'
      AND (s.code IS DISTINCT FROM w.code OR s.job <> w.job OR w.job = ANY (forced));
    INSERT INTO rota.schedules (name, job, origin, code,
        description, tags, metadata, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold, every_from,
        start_at, end_at, max_runs, jitter_seconds, burst_allowed, calendar, on_closed, catch_up, catch_up_seconds,
        catch_up_limit, grace_seconds, overlap, max_concurrent_runs, pause_after_failures, requires, is_shadow, payload,
        queue, priority, max_attempts, timeout_seconds, run_tags, run_metadata, is_enabled, delete_when_finished)
    SELECT w.name, w.job, 'definition', w.code,
        r.description, r.tags, r.metadata, r.cron, r.interval_seconds, r.run_at, r.init, r.has_seconds, r.timezone,
        r.gap, r.fold, r.every_from, r.start_at, r.end_at, r.max_runs, r.jitter_seconds,
        coalesce(r.burst_allowed, false), r.calendar, r.on_closed, r.catch_up, r.catch_up_seconds, r.catch_up_limit,
        r.grace_seconds, r.overlap, r.max_concurrent_runs, r.pause_after_failures, r.requires, r.is_shadow, r.payload,
        r.queue, r.priority, r.max_attempts, r.timeout_seconds, r.run_tags,
        r.run_metadata, r.is_enabled, r.delete_when_finished
    FROM rota.read_schedules(definitions, of_jobs) w
    CROSS JOIN LATERAL jsonb_populate_record(NULL::rota.schedules, w.code) r
    WHERE NOT EXISTS (SELECT FROM rota.dropped_schedules d WHERE d.tenant = '' AND d.name = w.name)
    ORDER BY w.name COLLATE "C"
    ON CONFLICT (tenant, name) DO NOTHING;
END $$;

-- The fields of a schedule that stay as they are although the code changed. Exactly one column says when, so an edit
-- of one of them holds them all.
-- Called by: put_schedule, put_schedules, sql/jobs/plan.sql, sync_schedules, write_definitions.
CREATE FUNCTION rota.kept_fields(edited jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY(SELECT jsonb_object_keys(edited)) ||
        CASE WHEN edited ?| timing THEN timing ELSE '{}' END
    FROM (SELECT '{cron,interval_seconds,run_at,init,has_seconds,every_from}'::text[] AS timing) t
$$;

-- What is left of the edits when the code changes: those that differ from what it says now.
-- Called by: put_schedule, put_schedules, sync_schedules, write_definitions.
CREATE FUNCTION rota.still_edited(stored jsonb, edited jsonb, code jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(jsonb_object_agg(e.key, e.value), '{}') FROM jsonb_each(edited) e
    WHERE code ? e.key AND stored -> e.key IS DISTINCT FROM code -> e.key
$$;

-- Trigger: remembers that a person deleted a schedule of the code, so that the next sync does not bring it back.
CREATE FUNCTION rota.drop_schedule() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    INSERT INTO rota.dropped_schedules (tenant, name, dropped_by) SELECT OLD.tenant, OLD.name, rota.who()
    WHERE NOT rota.is_syncing() ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER schedules_drop AFTER DELETE ON rota.schedules FOR EACH ROW
    WHEN (OLD.origin = 'definition' AND OLD.finished_at IS NULL)
EXECUTE FUNCTION rota.drop_schedule();

-- Trigger: a job with a key has no schedules: see check_run_defaults. One that code declares for a job that a person
-- has given a key is left out, with a warning.
CREATE FUNCTION rota.refuse_keyed_job() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found text := (SELECT j.key FROM rota.jobs j WHERE j.name = NEW.job);
BEGIN
    IF found IS NOT NULL AND rota.is_syncing() THEN
        RAISE WARNING 'schedule "%" is ignored: job "%" has the key "%"', NEW.name, NEW.job, found;
        RETURN NULL;
    ELSIF found IS NOT NULL THEN
        RAISE EXCEPTION 'schedule "%": job "%" has the key "%", so it cannot have a schedule', NEW.name, NEW.job,
            found USING ERRCODE = 'RO002',
            HINT = 'Declare a job without a key for it: the overlap policy of a schedule decides what happens while '
            'the previous run has not ended.';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER schedules_keyed_job BEFORE INSERT OR UPDATE OF job ON rota.schedules FOR EACH ROW
    EXECUTE FUNCTION rota.refuse_keyed_job();

-- Runs what an init schedule owes to this start; whoever writes the marker first enqueues. once: again until it
-- succeeded. One that somebody holds is answered without a run: it is still owed. Runs under limits wait for their
-- admission.
-- Called by: sql/schedules/run_inits.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.run_inits(for_worker bigint, of_release text) RETURNS TABLE (schedule text, run_id bigint)
LANGUAGE plpgsql VOLATILE SET lock_timeout = '5s' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    starter rota.workers;
    capped  text[] := (SELECT s.capped_queues FROM rota.settings s);
BEGIN
    SELECT * INTO starter FROM rota.workers w WHERE w.id = for_worker;
    IF NOT EXISTS (SELECT FROM rota.schedules s WHERE s.init IS NOT NULL) THEN
        RETURN;
    END IF;
    PERFORM rota.note_skipped_inits(for_worker, of_release);
    RETURN QUERY
    WITH due AS MATERIALIZED (
        SELECT s.*, j.queue AS job_queue, j.priority AS job_priority, j.max_attempts AS job_attempts, j.default_payload,
            m.marker, coalesce(nullif(s.tenant, ''), j.tenant, '') AS run_tenant,
            coalesce(s.run_tags, nullif(j.tags, '{}')) AS tags_of_run,
            coalesce(j.metadata || s.run_metadata, nullif(j.metadata, '{}')) AS metadata_of_run,
            clock + make_interval(secs => coalesce(j.delay_seconds, 0)) AS at,
            make_interval(secs => j.expires_in_seconds) AS expires_in
        FROM rota.schedules s JOIN rota.jobs j ON j.name = s.job
        CROSS JOIN LATERAL (SELECT CASE s.init WHEN 'once' THEN 'once' WHEN 'release' THEN 'release ' || of_release
            ELSE 'start ' || (SELECT f.number FROM rota.fleets f WHERE f.application = j.application) END AS marker) m
        WHERE s.init IS NOT NULL AND s.is_ticking AND coalesce(s.paused_until <= clock, s.paused_at IS NULL)
          AND NOT s.is_shadow AND m.marker IS NOT NULL
          AND j.is_enabled AND j.deleted_from_code_at IS NULL
          AND j.application IN ('', starter.application) AND (j.code IS NULL OR j.name = ANY (starter.jobs))
          AND coalesce(s.start_at <= clock, true) AND coalesce(s.end_at >= clock, true)
          AND coalesce(s.run_count < s.max_runs, true) AND (capped = '{}' OR NOT rota.has_full_queue(s.id))
    ), free AS MATERIALIZED (
        SELECT s.id FROM rota.schedules s WHERE s.id IN (SELECT d.id FROM due d) FOR NO KEY UPDATE SKIP LOCKED
    ), taken AS (
        INSERT INTO rota.init_runs AS i (schedule_id, marker, run_id)
        SELECT d.id, d.marker, nextval('rota.run_ids') FROM due d JOIN free f ON f.id = d.id ORDER BY d.id
        ON CONFLICT (schedule_id, marker) DO UPDATE SET run_id = excluded.run_id, state = 'queued',
            enqueued_at = excluded.enqueued_at
        WHERE i.marker = 'once' AND i.state IN ('failed', 'cancelled') AND NOT EXISTS (SELECT FROM rota.open_runs o
            WHERE o.id = i.run_id)
        RETURNING i.schedule_id, i.marker, i.run_id
    ), counted AS (
        UPDATE rota.schedules s SET run_count = s.run_count + 1, last_enqueued_at = clock,
            tick_version = s.tick_version + 1
        FROM taken t WHERE s.id = t.schedule_id
    ), noted AS (
        INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, decision, tenant, schedule, details, claimed_at,
            decided_at, decided_by, enqueued_at, run_id, state)
        SELECT d.id, clock, clock, 'ran', d.tenant, d.name, jsonb_build_object('init', t.marker), clock, clock,
            for_worker, clock, t.run_id, 'queued'
        FROM taken t JOIN due d ON d.id = t.schedule_id ORDER BY d.id
    ), enqueued AS (
        INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, queue, job, tenant, payload,
            priority, max_attempts, timeout_seconds, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id,
            limit_keys, limit_key, held_by, is_capped, expires_at)
        SELECT t.run_id, t.run_id, clock, clock_timestamp(), d.at, CASE WHEN d.at > clock THEN 'scheduled'
            ELSE 'queued' END, coalesce(d.queue, d.job_queue), d.job,
            d.run_tenant, coalesce(d.payload, d.default_payload, '{}'), coalesce(d.priority, d.job_priority),
            coalesce(d.max_attempts, d.job_attempts), d.timeout_seconds, d.tags_of_run, d.metadata_of_run,
            jsonb_build_object('type', 'scheduler', 'schedule', d.name, 'init', t.marker, 'since', d.last_success_for),
            d.name, clock, d.id, k.keys, k.keys[1], CASE WHEN k.keys IS NOT NULL AND d.at <= clock THEN 'limit' END,
            coalesce(d.queue, d.job_queue) = ANY (capped), d.at + d.expires_in
        FROM taken t JOIN due d ON d.id = t.schedule_id
        CROSS JOIN LATERAL (SELECT CASE WHEN (SELECT s.has_limits FROM rota.settings s)
            THEN rota.limit_keys_of(d.job, coalesce(d.queue, d.job_queue), d.run_tenant, d.name,
            coalesce(d.payload, d.default_payload, '{}')) END AS keys) k
        ORDER BY d.id
        RETURNING schedule, id, queue
    )
    SELECT e.schedule, e.id FROM enqueued e
    UNION ALL
    SELECT d.name, NULL FROM due d WHERE d.id NOT IN (SELECT f.id FROM free f)
       AND NOT EXISTS (SELECT FROM rota.init_runs i WHERE i.schedule_id = d.id AND i.marker = d.marker
           AND i.state NOT IN ('failed', 'cancelled'));
    PERFORM rota.wake_admission();
    PERFORM rota.wake(ARRAY(SELECT DISTINCT o.queue FROM rota.init_runs i JOIN rota.open_runs o ON o.id = i.run_id
        WHERE i.enqueued_at = clock));
END $$;

-- A start that an init schedule lets pass is a decision too: one row for each marker and reason, with the reason
-- that holds.
-- Called by: run_inits.
-- Locks: "fleet".
CREATE FUNCTION rota.note_skipped_inits(for_worker bigint, of_release text) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    clock   timestamptz := rota.now();
    starter rota.workers := (SELECT w FROM rota.workers w WHERE w.id = for_worker);
BEGIN
    -- Many may start at once; one of them writes.
    PERFORM rota.take_lock('fleet');
    INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, decision, reason, tenant, schedule, details,
        claimed_at, decided_at, decided_by)
    SELECT s.id, clock, clock, 'skipped', m.reason, s.tenant, s.name, jsonb_build_object('init', m.marker), clock,
        clock, for_worker
    FROM rota.schedules s JOIN rota.jobs j ON j.name = s.job
    CROSS JOIN LATERAL (SELECT
        CASE s.init WHEN 'once' THEN 'once' WHEN 'release' THEN 'release ' || of_release
             ELSE 'start ' || (SELECT f.number FROM rota.fleets f WHERE f.application = j.application) END AS marker,
        CASE WHEN NOT s.is_enabled THEN 'disabled'
             WHEN coalesce(s.paused_until > clock, s.paused_at IS NOT NULL) THEN 'paused'
             WHEN rota.job_refusal(j.name) IS NOT NULL THEN rota.job_refusal(j.name)
             WHEN s.is_shadow THEN 'shadow' WHEN rota.has_full_queue(s.id) THEN 'queue_full' END AS reason) m
    WHERE s.init IS NOT NULL AND s.finished_at IS NULL AND s.parked_at IS NULL AND m.marker IS NOT NULL
      AND m.reason IS NOT NULL
      AND j.application IN ('', starter.application)
      AND coalesce(s.start_at <= clock, true) AND coalesce(s.end_at >= clock, true)
      AND coalesce(s.run_count < s.max_runs, true)
      AND NOT EXISTS (SELECT FROM rota.init_runs i WHERE i.schedule_id = s.id AND i.marker = m.marker
          AND i.marker <> 'once')
      AND NOT EXISTS (SELECT FROM rota.ledger l WHERE l.schedule_id = s.id AND l.details ->> 'init' = m.marker
          AND l.reason = m.reason)
    ON CONFLICT (schedule_id, nominal_at) DO NOTHING;
END $$;

-- Whether a mark of an init schedule can go: a start that is over will not come again. Releases may, and what runs
-- once is remembered as long as its schedule.
-- Called by: prune_rows, sql/retention/count_rows.sql.
CREATE FUNCTION rota.is_old_init(i rota.init_runs, before_at timestamptz) RETURNS boolean LANGUAGE sql STABLE
SET jit = off AS $$
    SELECT i.enqueued_at < before_at AND NOT EXISTS (SELECT FROM rota.open_runs o WHERE o.id = i.run_id)
       AND (i.marker LIKE 'start %' OR NOT EXISTS (SELECT FROM rota.schedules s WHERE s.id = i.schedule_id))
$$;
