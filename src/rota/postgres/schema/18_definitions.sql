-- What code declares. `register_jobs` writes what is new or changed, leaves what a person has edited, and marks what
-- no code declares any more; the newest build of an application speaks for it (`may_speak`). `job_applications` says
-- who declares what, `init_runs` which starts have had their run (`run_inits`).
-- Why: docs/decisions/0011-definition-sync.md.

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

-- A document whose fields are read, whatever somebody wrote there by hand: what is no object has none.
-- Called by: kept_fields, reset_schedule, schedule_overrides, sql/jobs/refresh.sql, still_edited, watch_table, watches.
CREATE FUNCTION rota.as_object(document jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN jsonb_typeof(document) = 'object' THEN document ELSE '{}' END
$$;

-- When an edit was made, as its mark says; NULL: it says nothing that is a time.
-- Called by: schedule_overrides, sql/jobs/plan.sql.
CREATE FUNCTION rota.edited_at(mark jsonb) RETURNS timestamptz LANGUAGE plpgsql STABLE SET jit = off AS $$
BEGIN
    RETURN (mark ->> 'at')::timestamptz;
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END $$;

-- The fields of a row that a declaration names, as the columns hold them (a real column rounds).
-- Called by: put_schedule, put_schedules, read_definitions, read_schedules, rename_job, sql/jobs/plan.sql.
CREATE FUNCTION rota.pick(stored jsonb, declared jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(jsonb_object_agg(k, stored -> k), '{}') FROM jsonb_object_keys(declared) k
$$;

-- The definitions that a process sends, as rows; code holds what they say of the columns of rota.jobs.
-- Called by: changed_jobs, follow_names, read_schedules, register_jobs, renamed_in_code, sql/jobs/plan.sql,
-- write_definitions.
CREATE FUNCTION rota.read_definitions(definitions jsonb) RETURNS TABLE (
    name text, hash text, source text, executor text, payload_schema jsonb, code jsonb, schedules jsonb,
    signature integer, aliases text[]
) LANGUAGE sql STABLE AS $$
    SELECT w.name, w.hash, w.source, w.executor, w.payload_schema, rota.pick(to_jsonb(r), w.defaults), w.schedules,
        w.signature, coalesce(w.aliases, '{}')
    FROM jsonb_to_recordset(definitions) AS w (
        name text, hash text, source text, executor text, payload_schema jsonb, defaults jsonb, schedules jsonb,
        signature integer, aliases text[])
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

-- The number of a build: its own, or that of the build which the same process told before it declared more. One that
-- nobody has seen is new (NULL), unless it comes too late: its shape or its release is known, and newer code has spoken
-- since.
-- Called by: register_jobs.
CREATE FUNCTION rota.build_number(of_application text, of_build text, of_shape text, before_build text, of_release text)
RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce(max(b.number) FILTER (WHERE b.build IN (of_build, before_build)),
        nullif(max(b.number) FILTER (WHERE b.shape = of_shape OR b.release = of_release), max(b.number)))
    FROM rota.builds b WHERE b.application = of_application
$$;

-- Whether this build is the newest code of its application, or no other is known.
-- Called by: must_sync, put_queue, put_schedules, sql/schedules/new_payloads.sql.
CREATE FUNCTION rota.is_newest(of_application text, of_build text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce(max(b.number) FILTER (WHERE b.build = of_build) = max(b.number), count(*) = 0)
    FROM rota.builds b WHERE b.application = of_application
$$;

-- Whether this build may say what is declared: it is the newest, or it takes over. An old build takes over when a
-- worker runs it and no live worker runs a newer one (a roll-back), or when no worker is live at all. A newer build
-- that no worker has run yet is a deployment under way.
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
    LEFT JOIN LATERAL (SELECT b.number, bool_or(b.has_worked) AS has_worked FROM rota.builds b
        WHERE b.application = of_application GROUP BY b.number ORDER BY b.number DESC LIMIT 1) newest ON true
$$;

-- Whether a job follows this application: one that two applications declare follows the first, while that one
-- declares it and has a worker.
-- Called by: changed_jobs, write_definitions.
CREATE FUNCTION rota.may_follow(j rota.jobs, of_application text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT j.application = of_application OR j.code IS NULL
        OR NOT EXISTS (SELECT FROM rota.job_applications a WHERE a.job = j.name AND a.application = j.application)
        OR NOT EXISTS (SELECT FROM rota.live_workers(j.application))
$$;

-- Notes that this build is the newest of its application. Of the builds of one shape the last few are kept, of shapes
-- the last two hundred.
-- Called by: register_jobs.
CREATE FUNCTION rota.speak(of_application text, of_build text, for_worker bigint, of_shape text, of_release text)
RETURNS void LANGUAGE sql VOLATILE SET jit = off AS $$
    WITH newest AS (SELECT coalesce(max(b.number), 0) AS number FROM rota.builds b WHERE b.application = of_application)
    INSERT INTO rota.builds AS b (application, build, number, has_worked, shape, release)
    SELECT of_application, of_build, n.number + 1, for_worker IS NOT NULL, of_shape, of_release FROM newest n
    ON CONFLICT (application, build) DO UPDATE
    SET number = CASE WHEN b.number = excluded.number - 1 THEN b.number ELSE excluded.number END,
        has_worked = b.has_worked OR excluded.has_worked
    WHERE b.number < excluded.number - 1 OR b.has_worked < excluded.has_worked;
    DELETE FROM rota.builds b USING (
        SELECT r.build, row_number() OVER (PARTITION BY r.shape ORDER BY r.number DESC, r.first_seen_at DESC) AS place,
            dense_rank() OVER (ORDER BY r.newest DESC) AS age
        FROM (SELECT o.*, max(o.number) OVER (PARTITION BY o.shape) AS newest FROM rota.builds o
            WHERE o.application = of_application) r) old
    WHERE b.application = of_application AND b.build = old.build AND b.build <> of_build
      AND (old.place > 20 OR old.age > 200);
$$;

-- The names of the definitions that say something new of their job.
-- Called by: register_jobs.
CREATE FUNCTION rota.changed_jobs(of_application text, definitions jsonb, forced text[]) RETURNS SETOF text
LANGUAGE sql STABLE AS $$
    SELECT w.name FROM rota.read_definitions(definitions) w
    LEFT JOIN rota.jobs j ON j.name = w.name
    LEFT JOIN rota.job_applications a ON a.job = w.name AND a.application = of_application
    WHERE (j.name IS NULL OR a.hash IS DISTINCT FROM w.hash OR j.deleted_from_code_at IS NOT NULL
        OR w.name = ANY (forced)
        OR (j.definition_hash IS DISTINCT FROM w.hash AND rota.may_follow(j, of_application)))
      -- A job that was renamed is not made again by code that is older than that.
      AND (j.name IS NOT NULL OR NOT EXISTS (SELECT FROM rota.job_names n WHERE n.alias = w.name))
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
            NOT rota.is_newest(w.application, w.build)
            OR EXISTS (SELECT FROM rota.gone_jobs(w.application, w.jobs, false))
            OR EXISTS (SELECT FROM rota.job_applications a
                WHERE a.application = w.application AND a.job = ANY (w.jobs) AND a.hash = '')))
    FROM rota.workers w WHERE w.id = for_worker AND w.application IS NOT NULL
$$;

-- Tells the database what a process declares; returns the names of those that were written. names: all that the
-- process declares, so that what is gone can be marked; NULL: do not look for that. Without a worker and with names,
-- somebody has asked for it. Nothing is written when nothing has changed; one process at a time writes. A worker's
-- own jobs are its application's whatever its build: what was marked deleted is revived, as its code says; nothing
-- else of older code counts. A job that somebody holds is left for the next time, and its build is not the newest
-- until then, so that its workers register again; what somebody forces, waits. of_shape: NULL where a process declares
-- nothing; before_build: what it told before it declared more. Schedules and queues follow: put_schedules, put_queue.
-- Called by: sql/jobs/register.sql.
-- Locks: "definitions".
CREATE FUNCTION rota.register_jobs(
    of_application text, of_build text, definitions jsonb, for_worker bigint DEFAULT NULL, names text[] DEFAULT NULL,
    forced text[] DEFAULT '{}', of_shape text DEFAULT NULL, before_build text DEFAULT NULL, of_release text DEFAULT NULL
) RETURNS SETOF text LANGUAGE plpgsql VOLATILE SET lock_timeout = '5s' SET jit = off AS $$
DECLARE
    actor   text := current_setting('rota' || '.actor', true);
    is_told boolean := for_worker IS NULL AND names IS NOT NULL;
    changed text[] := ARRAY(SELECT rota.changed_jobs(of_application, definitions, forced));
    gone    text[] := ARRAY(SELECT rota.gone_jobs(of_application, names, is_told) WHERE names IS NOT NULL);
    held    text[];
BEGIN
    IF definitions = '[]' AND names IS NULL AND of_shape IS NULL THEN
        RETURN;                                         -- no application: somebody who looks around
    END IF;
    IF changed = '{}' AND gone = '{}' AND (names IS NULL OR NOT EXISTS (
        SELECT FROM rota.renamed_in_code(of_application, definitions, names))) AND EXISTS (
        SELECT FROM rota.builds b WHERE b.application = of_application AND b.build = of_build
            AND (b.has_worked OR for_worker IS NULL)
        AND b.number = (SELECT max(m.number) FROM rota.builds m WHERE m.application = of_application)) THEN
        RETURN;
    END IF;
    -- A worker has a lease, which nobody renews before it has started.
    PERFORM rota.take_lock('definitions', CASE WHEN for_worker IS NULL THEN 5000 ELSE 1000 END);
    PERFORM set_config('rota' || '.syncing', 'on', true),
            set_config('rota' || '.actor', coalesce(nullif(actor, ''), 'code:' || of_application), true);
    changed := ARRAY(SELECT rota.changed_jobs(of_application, definitions, forced));
    gone := ARRAY(SELECT rota.gone_jobs(of_application, names, is_told) WHERE names IS NOT NULL);
    held := ARRAY(SELECT c FROM unnest(changed || gone) c
        WHERE c <> ALL (forced) AND NOT rota.lock_definition(c, ARRAY(
            SELECT l.value ->> 'name' FROM rota.read_definitions(definitions) w
            CROSS JOIN LATERAL jsonb_array_elements(CASE jsonb_typeof(w.code -> 'limits') WHEN 'array'
                THEN w.code -> 'limits' ELSE '[]' END) l WHERE w.name = c)));
    changed := ARRAY(SELECT c FROM unnest(changed) c WHERE c <> ALL (held));
    gone := ARRAY(SELECT c FROM unnest(gone) c WHERE c <> ALL (held));
    INSERT INTO rota.builds AS b (application, build, number, shape, release)
    SELECT of_application, of_build, n, of_shape, of_release
    FROM rota.build_number(of_application, of_build, of_shape, before_build, of_release) n
    WHERE n IS NOT NULL AND (held = '{}'
        OR n < (SELECT max(m.number) FROM rota.builds m WHERE m.application = of_application))
    ON CONFLICT (application, build) DO UPDATE SET number = excluded.number WHERE b.number < excluded.number;
    IF is_told OR rota.may_speak(of_application, of_build, for_worker) THEN
        PERFORM rota.speak(of_application, of_build, for_worker, of_shape, of_release) WHERE held = '{}';
        IF names IS NOT NULL THEN
            PERFORM rota.follow_names(of_application, definitions, names);
            changed := ARRAY(SELECT c FROM rota.changed_jobs(of_application, definitions, forced) c
                             WHERE c <> ALL (held));
            gone := ARRAY(SELECT j.name FROM rota.jobs j WHERE j.name = ANY (gone));  -- and is not renamed
        END IF;
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
    PERFORM rota.note_signature(j.name, w.signature, w.payload_schema)
    FROM rota.read_definitions(definitions) w JOIN rota.jobs j ON j.name = w.name
    WHERE w.name = ANY (changed) AND j.definition_hash = w.hash AND w.signature IS NOT NULL;
    PERFORM rota.sync_schedules(definitions,
        ARRAY(SELECT j.name FROM rota.jobs j WHERE j.name = ANY (changed) AND j.application = of_application), forced,
        of_application);
END $$;

-- Brings the schedules that jobs declare up to what the code says, of those jobs whose definition is written. One that
-- the application declared by app.schedule before is taken over.
-- Called by: write_definitions.
CREATE FUNCTION rota.sync_schedules(definitions jsonb, of_jobs text[], forced text[], of_application text) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    UPDATE rota.deleted_schedules d SET kept_out = NULL
    WHERE d.tenant = '' AND d.kept_out IS NOT NULL
      AND d.name IN (SELECT w.name FROM rota.read_schedules(definitions, forced) w);
    -- No longer declared: an untouched one goes, one that somebody touched is theirs.
    DELETE FROM rota.schedules s
    WHERE s.origin = 'definition' AND s.job = ANY (of_jobs) AND s.edited = '{}'
      AND s.name NOT IN (SELECT w.name FROM rota.read_schedules(definitions, of_jobs) w);
    UPDATE rota.schedules s SET origin = NULL, code = NULL, edited = '{}'
    WHERE s.origin = 'definition' AND s.job = ANY (of_jobs)
      AND s.name NOT IN (SELECT w.name FROM rota.read_schedules(definitions, of_jobs) w);
    UPDATE rota.schedules s SET
        job = w.job, code = w.code, origin = 'definition', application = NULL,
        edited = CASE WHEN w.job = ANY (forced) THEN '{}' ELSE rota.still_edited(to_jsonb(s), s.edited, w.code) END,
        (description, tags, metadata, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold,
        every_from, start_at, end_at, max_runs, jitter_seconds, burst_allowed, calendar, on_closed, catch_up,
        catch_up_window_seconds, catch_up_limit, grace_seconds, overlap, max_concurrent_runs, pause_after_failures,
        requires,
        is_shadow, payload, queue, priority, max_attempts, timeout_seconds, run_tags,
        run_metadata, is_enabled, delete_when_finished) = (
        SELECT r.description, r.tags, r.metadata, r.cron, r.interval_seconds, r.run_at, r.init, r.has_seconds,
            r.timezone, r.gap, r.fold, r.every_from, r.start_at, r.end_at,
        r.max_runs, r.jitter_seconds, coalesce(r.burst_allowed, false), r.calendar, r.on_closed, r.catch_up,
        r.catch_up_window_seconds, r.catch_up_limit, r.grace_seconds, r.overlap,
        r.max_concurrent_runs, r.pause_after_failures, r.requires, r.is_shadow, r.payload, r.queue, r.priority,
        r.max_attempts, r.timeout_seconds, r.run_tags, r.run_metadata, r.is_enabled, r.delete_when_finished
        FROM jsonb_populate_record(s, w.code - CASE WHEN w.job = ANY (forced) THEN '{}'::text[]
            ELSE rota.kept_fields(s.edited) END) r)
    FROM rota.read_schedules(definitions, of_jobs) w
    WHERE s.tenant = '' AND s.name = w.name AND (s.origin = 'definition' OR s.application = of_application)
      AND (s.code IS DISTINCT FROM w.code OR s.job <> w.job OR s.origin = 'code' OR w.job = ANY (forced));
    INSERT INTO rota.schedules (name, job, origin, code,
        description, tags, metadata, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold, every_from,
        start_at, end_at, max_runs, jitter_seconds, burst_allowed, calendar, on_closed, catch_up,
        catch_up_window_seconds,
        catch_up_limit, grace_seconds, overlap, max_concurrent_runs, pause_after_failures, requires, is_shadow, payload,
        queue, priority, max_attempts, timeout_seconds, run_tags, run_metadata, is_enabled, delete_when_finished)
    SELECT w.name, w.job, 'definition', w.code,
        r.description, r.tags, r.metadata, r.cron, r.interval_seconds, r.run_at, r.init, r.has_seconds, r.timezone,
        r.gap, r.fold, r.every_from, r.start_at, r.end_at, r.max_runs, r.jitter_seconds,
        coalesce(r.burst_allowed, false), r.calendar, r.on_closed, r.catch_up, r.catch_up_window_seconds,
        r.catch_up_limit,
        r.grace_seconds, r.overlap, r.max_concurrent_runs, r.pause_after_failures, r.requires, r.is_shadow, r.payload,
        r.queue, r.priority, r.max_attempts, r.timeout_seconds, r.run_tags,
        r.run_metadata, r.is_enabled, r.delete_when_finished
    FROM rota.read_schedules(definitions, of_jobs) w
    CROSS JOIN LATERAL jsonb_populate_record(NULL::rota.schedules, w.code) r
    WHERE NOT EXISTS (SELECT FROM rota.deleted_schedules d
        WHERE d.tenant = '' AND d.name = w.name AND d.kept_out = 'definition')
    ORDER BY w.name COLLATE "C"
    ON CONFLICT (tenant, name) DO NOTHING;
END $$;

-- The fields of a schedule that stay as they are although the code changed. Exactly one column says when, so an edit
-- of one of them holds them all.
-- Called by: put_schedule, put_schedules, reset_schedule, sql/jobs/plan.sql, sync_schedules, write_definitions.
CREATE FUNCTION rota.kept_fields(edited jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY(SELECT jsonb_object_keys(rota.as_object(edited))) ||
        CASE WHEN edited ?| timing THEN timing ELSE '{}' END
    FROM (SELECT '{cron,interval_seconds,run_at,init,has_seconds,every_from}'::text[] AS timing) t
$$;

-- What is left of the edits when the code changes: those that differ from what it says now.
-- Called by: put_schedule, put_schedules, sync_schedules, write_definitions.
CREATE FUNCTION rota.still_edited(stored jsonb, edited jsonb, code jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(jsonb_object_agg(e.key, e.value), '{}') FROM jsonb_each(rota.as_object(edited)) e
    WHERE code ? e.key AND stored -> e.key IS DISTINCT FROM code -> e.key
$$;

-- What operators have changed of a schedule that code declares: each field, what it is, what the code says, by whom.
-- Called by: sql/schedules/overrides.sql, users.
CREATE FUNCTION rota.schedule_overrides(name text, tenant text DEFAULT '')
RETURNS TABLE (field text, stored jsonb, code jsonb, changed_by text, changed_at timestamptz)
LANGUAGE sql STABLE SET jit = off AS $$
    SELECT e.key, to_jsonb(s) -> e.key, s.code -> e.key, e.value ->> 'by', rota.edited_at(e.value)
    FROM rota.schedules s CROSS JOIN LATERAL jsonb_each(rota.as_object(s.edited)) e
    WHERE s.tenant = schedule_overrides.tenant AND s.name = schedule_overrides.name ORDER BY e.key COLLATE "C"
$$;

-- Sets fields of a schedule that operators have changed back to what the code says, so that they follow it again; NULL:
-- all of them. Exactly one column says when, so that those go together. Returns the fields that were set. RO005: no
-- code declares it, or not this field.
-- Called by: sql/schedules/reset.sql, users.
-- Locks: rows.
CREATE FUNCTION rota.reset_schedule(name text, fields text[] DEFAULT NULL, tenant text DEFAULT '',
    reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS text[] LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found  rota.schedules := rota.find_schedule(reset_schedule.name, reset_schedule.tenant);
    odd    text := (SELECT min(f) FROM unnest(fields) f WHERE NOT coalesce(found.code ? f, false));
    wanted text[];
    was    text[];
BEGIN
    SELECT s.* INTO found FROM rota.schedules s WHERE s.id = found.id FOR UPDATE;
    IF found.code IS NULL THEN
        RAISE EXCEPTION 'schedule "%" is not declared in code', found.name
            USING ERRCODE = 'RO005', HINT = 'There is nothing that it could be reset to.';
    ELSIF odd IS NOT NULL THEN
        RAISE EXCEPTION 'the code of schedule "%" says nothing about %', found.name, odd
            USING ERRCODE = 'RO005', HINT = 'schedule_overrides lists what can be reset.';
    END IF;
    wanted := ARRAY(SELECT k FROM jsonb_object_keys(rota.as_object(found.edited)) k
        WHERE fields IS NULL OR k = ANY (rota.kept_fields((SELECT jsonb_object_agg(f, true) FROM unnest(fields) f)))
        ORDER BY k COLLATE "C");
    was := rota.say_why(reset_schedule.actor, reset_schedule.reason);
    UPDATE rota.schedules s SET (is_enabled,
        description, tags, metadata, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold, every_from,
        start_at, end_at, max_runs, jitter_seconds, burst_allowed, calendar, on_closed, catch_up,
        catch_up_window_seconds,
        catch_up_limit, grace_seconds, overlap, max_concurrent_runs, pause_after_failures, requires, is_shadow,
        delete_when_finished, payload, queue, priority, max_attempts, timeout_seconds, run_tags, run_metadata) = (
        SELECT r.is_enabled,
        r.description, r.tags, r.metadata, r.cron, r.interval_seconds, r.run_at, r.init, r.has_seconds, r.timezone,
        r.gap, r.fold, r.every_from, r.start_at, r.end_at, r.max_runs, r.jitter_seconds,
        coalesce(r.burst_allowed, false), r.calendar, r.on_closed, r.catch_up, r.catch_up_window_seconds,
        r.catch_up_limit,
        r.grace_seconds, r.overlap, r.max_concurrent_runs, r.pause_after_failures, r.requires, r.is_shadow,
        r.delete_when_finished, r.payload, r.queue, r.priority, r.max_attempts, r.timeout_seconds, r.run_tags,
        r.run_metadata
        FROM jsonb_populate_record(s, (SELECT jsonb_object_agg(k, s.code -> k) FROM unnest(wanted) k)) r)
    WHERE s.id = found.id AND wanted <> '{}';
    PERFORM rota.unsay(was);
    RETURN wanted;
END $$;

-- Whether a job may have this schedule: a job with a key has none, see check_run_defaults. One that code declares for a
-- job that a person has given a key is left out, with a warning; else it is refused.
-- Called by: before_schedule.
CREATE FUNCTION rota.may_be_scheduled(schedule text, job text) RETURNS boolean LANGUAGE plpgsql STABLE
SET jit = off AS $$
DECLARE
    found constant text := (SELECT j.key FROM rota.jobs j WHERE j.name = may_be_scheduled.job);
BEGIN
    IF found IS NOT NULL AND rota.is_syncing() THEN
        RAISE WARNING 'schedule "%" is ignored: job "%" has the key "%"', schedule, job, found;
    ELSIF found IS NOT NULL THEN
        RAISE EXCEPTION 'schedule "%": job "%" has the key "%", so it cannot have a schedule', schedule, job, found
            USING ERRCODE = 'RO002',
            HINT = 'Declare a job without a key for it: the overlap policy of a schedule decides what happens while '
            'the previous run has not ended.';
    END IF;
    RETURN found IS NULL;
END $$;

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
    -- The first worker after weeks without one comes here before upkeep has made this week's partition.
    PERFORM rota.ensure_partitions(clock, clock)
    WHERE to_regclass('rota.ledger_' || to_char(date_trunc('week', clock AT TIME ZONE 'UTC'), 'YYYYMMDD')) IS NULL;
    PERFORM rota.note_skipped_inits(for_worker, of_release);
    RETURN QUERY
    WITH due AS MATERIALIZED (
        SELECT s.*, t.last_success_for, j.queue AS job_queue, j.priority AS job_priority,
            j.max_attempts AS job_attempts, j.default_payload,
            m.marker, coalesce(nullif(s.tenant, ''), j.tenant, '') AS run_tenant,
            coalesce(s.run_tags, nullif(j.tags, '{}')) AS tags_of_run,
            coalesce(j.metadata || s.run_metadata, nullif(j.metadata, '{}')) AS metadata_of_run,
            clock + make_interval(secs => coalesce(j.delay_seconds, 0)) AS at,
            make_interval(secs => j.expires_in_seconds) AS expires_in
        FROM rota.schedules s JOIN rota.schedule_state t ON t.schedule_id = s.id JOIN rota.jobs j ON j.name = s.job
        CROSS JOIN LATERAL (SELECT CASE s.init WHEN 'once' THEN 'once' WHEN 'release' THEN 'release ' || of_release
            ELSE 'start ' || (SELECT f.number FROM rota.fleets f WHERE f.application = j.application) END AS marker) m
        WHERE s.init IS NOT NULL AND s.is_enabled AND coalesce(s.paused_until <= clock, s.paused_at IS NULL)
          AND t.finished_at IS NULL AND t.parked_at IS NULL
          AND NOT s.is_shadow AND m.marker IS NOT NULL
          AND j.is_enabled AND j.deleted_from_code_at IS NULL
          AND j.application IN ('', starter.application) AND (j.code IS NULL OR j.name = ANY (starter.jobs))
          AND coalesce(s.start_at <= clock, true) AND coalesce(s.end_at >= clock, true)
          AND coalesce(t.run_count < s.max_runs, true) AND (capped = '{}' OR NOT rota.has_full_queue(s.id))
    ), free AS MATERIALIZED (
        SELECT t.schedule_id AS id FROM rota.schedule_state t WHERE t.schedule_id IN (SELECT d.id FROM due d)
        FOR NO KEY UPDATE SKIP LOCKED
    ), taken AS (
        INSERT INTO rota.init_runs AS i (schedule_id, marker, run_id)
        SELECT d.id, d.marker, nextval('rota.run_ids') FROM due d JOIN free f ON f.id = d.id ORDER BY d.id
        ON CONFLICT (schedule_id, marker) DO UPDATE SET run_id = excluded.run_id, state = 'queued',
            enqueued_at = excluded.enqueued_at
        WHERE i.marker = 'once' AND i.state IN ('failed', 'cancelled') AND NOT EXISTS (SELECT FROM rota.open_runs o
            WHERE o.id = i.run_id)
        RETURNING i.schedule_id, i.marker, i.run_id
    ), counted AS (
        UPDATE rota.schedule_state s SET run_count = s.run_count + 1, last_enqueued_at = clock,
            tick_version = s.tick_version + 1
        FROM taken t WHERE s.schedule_id = t.schedule_id
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
            d.run_tenant, CASE WHEN pg_column_size(coalesce(d.payload, d.default_payload)) > 4000
                THEN rota.put_large_payload(t.run_id, coalesce(d.payload, d.default_payload))
                ELSE coalesce(d.payload, d.default_payload, '{}') END, coalesce(d.priority, d.job_priority),
            coalesce(d.max_attempts, d.job_attempts), d.timeout_seconds, d.tags_of_run, d.metadata_of_run,
            jsonb_build_object('type', 'scheduler', 'schedule', d.name, 'init', t.marker, 'since', d.last_success_for),
            d.name, clock, d.id, k.keys, k.keys[1], rota.hold_of(d.at <= clock, k.keys),
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
    PERFORM rota.wake_for(array_agg(DISTINCT o.queue) FILTER (WHERE o.state = 'queued' AND o.held_by IS NULL),
        array_agg(DISTINCT o.held_by), min(o.run_at) FILTER (WHERE o.state = 'scheduled') - clock)
    FROM rota.init_runs i JOIN rota.open_runs o ON o.id = i.run_id WHERE i.enqueued_at = clock;
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
    PERFORM rota.take_lock('fleet', 1000);
    INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, decision, reason, tenant, schedule, details,
        claimed_at, decided_at, decided_by)
    SELECT s.id, clock, clock, 'skipped', m.reason, s.tenant, s.name, jsonb_build_object('init', m.marker), clock,
        clock, for_worker
    FROM rota.schedules s JOIN rota.schedule_state t ON t.schedule_id = s.id JOIN rota.jobs j ON j.name = s.job
    CROSS JOIN LATERAL (SELECT
        CASE s.init WHEN 'once' THEN 'once' WHEN 'release' THEN 'release ' || of_release
             ELSE 'start ' || (SELECT f.number FROM rota.fleets f WHERE f.application = j.application) END AS marker,
        CASE WHEN NOT s.is_enabled THEN 'disabled'
             WHEN coalesce(s.paused_until > clock, s.paused_at IS NOT NULL) THEN 'paused'
             WHEN rota.job_refusal(j.name) IS NOT NULL THEN rota.job_refusal(j.name)
             WHEN s.is_shadow THEN 'shadow' WHEN rota.has_full_queue(s.id) THEN 'queue_full' END AS reason) m
    WHERE s.init IS NOT NULL AND t.finished_at IS NULL AND t.parked_at IS NULL AND m.marker IS NOT NULL
      AND m.reason IS NOT NULL
      AND j.application IN ('', starter.application)
      AND coalesce(s.start_at <= clock, true) AND coalesce(s.end_at >= clock, true)
      AND coalesce(t.run_count < s.max_runs, true)
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

-- The signatures that a job has had: what `validated_by` of a run names. The one that holds now has no replaced_at.
CREATE TABLE rota.signatures (
    job            text COLLATE "C" NOT NULL,
    hash           integer NOT NULL,
    payload_schema jsonb NOT NULL,
    declared_at    timestamptz NOT NULL DEFAULT rota.now(),  -- when it was last the newest
    replaced_at    timestamptz,
    PRIMARY KEY (job, hash)
);
COMMENT ON TABLE rota.signatures IS 'The payload schemas that each job has had, by their hash.';

-- Who refused the payload of which open run. The array of the run (refused_by) is what claims read; this says in whose
-- words, and by which signature.
CREATE TABLE rota.refusals (
    run_id     bigint NOT NULL,
    intake     integer NOT NULL,
    signature  integer NOT NULL,
    worker     bigint NOT NULL,
    build      text NOT NULL,
    release    text,
    error      text NOT NULL,
    refused_at timestamptz NOT NULL DEFAULT rota.now(),
    PRIMARY KEY (run_id, intake)
);
COMMENT ON TABLE rota.refusals IS 'Which builds have refused the payload of which open run, and why.';

-- The signature that a job has from now on. Of each job the last twenty are kept.
-- Called by: write_definitions.
CREATE FUNCTION rota.note_signature(of_job text, new_hash integer, new_schema jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    UPDATE rota.signatures s SET replaced_at = rota.now()
    WHERE s.job = of_job AND s.hash <> new_hash AND s.replaced_at IS NULL;
    INSERT INTO rota.signatures AS s (job, hash, payload_schema) VALUES (of_job, new_hash, new_schema)
    ON CONFLICT (job, hash) DO UPDATE SET declared_at = excluded.declared_at, replaced_at = NULL
    WHERE s.replaced_at IS NOT NULL;
    DELETE FROM rota.signatures s WHERE s.job = of_job AND s.declared_at < (
        SELECT o.declared_at FROM rota.signatures o WHERE o.job = of_job ORDER BY o.declared_at DESC OFFSET 19 LIMIT 1);
END $$;

-- Whether some worker that claims, or sleeps, may take a run whose payload these have refused: it knows the job, serves
-- the queue, and its code is none of theirs.
-- Called by: free_refused_runs, hold_refused_runs, refuse_runs, why_refused.
CREATE FUNCTION rota.has_taker(of_job text, of_queue text, refused_by integer[]) RETURNS boolean
LANGUAGE sql STABLE SET jit = off AS $$
    SELECT EXISTS (
        SELECT FROM rota.workers w
        WHERE (w.state = 'live' AND w.lease_expires_at > clock_timestamp() AND w.drain_requested_at IS NULL
               OR rota.is_asleep(w))
          AND of_job = ANY (w.jobs) AND (w.queues = '{}' OR of_queue = ANY (w.queues))
          AND coalesce(w.intakes[array_position(w.jobs, of_job)], 0) <> ALL (refused_by))
$$;

-- Whether the payload of a refused run is one of another release: it was accepted under a signature that is none of
-- those that refused it. An enqueue that checked it says which; else it is one that the job has had since the run was
-- created, and whose schema takes the payload. What no signature takes is simply wrong, and no worker will come for it.
-- Called by: hold_refused_runs, refuse_runs.
CREATE FUNCTION rota.is_of_other_release(o rota.open_runs) RETURNS boolean LANGUAGE sql STABLE SET jit = off AS $$
    SELECT CASE WHEN o.validated_by IS NOT NULL
        THEN NOT EXISTS (SELECT FROM rota.refusals r WHERE r.run_id = o.id AND r.signature = o.validated_by)
        ELSE EXISTS (SELECT FROM rota.signatures s
                     WHERE s.job = o.job AND coalesce(s.replaced_at > o.created_at, true)
                       AND NOT EXISTS (SELECT FROM rota.refusals r WHERE r.run_id = o.id AND r.signature = s.hash)
                       AND rota.payload_problem(s.payload_schema,
                           coalesce(o.payload, rota.large_payload(o.id))) IS NULL) END
$$;

-- What a run waits for whose payload was refused, in the words of its last error.
-- Called by: hold_refused_runs, refuse_runs, sql/attention/refused_payloads.sql, why_refused.
CREATE FUNCTION rota.refusal_words(of_run bigint) RETURNS text LANGUAGE sql STABLE SET jit = off AS $$
    SELECT 'payload refused by ' || string_agg(format('build %s%s: %s', left(r.build, 8),
        CASE WHEN r.release <> '' THEN format(' (release %s)', r.release) ELSE '' END, r.error), '; '
        ORDER BY r.refused_at, r.intake)
    FROM rota.refusals r WHERE r.run_id = of_run
$$;

-- The code of this worker does not take the payloads of these runs. A run goes back unspent to its place, for workers
-- whose code may take it: this one, and its like, pass it over. If there is none, a payload of another release is held
-- until one comes (hold_refused_runs), and any other fails at once. Answers as requeue_runs does.
-- Called by: settle_kept_ends, sql/runs/refuse.sql.
-- Locks: rows.
CREATE FUNCTION rota.refuse_runs(
    for_worker bigint, ids bigint[], attempts integer[], durations_ms real[], intakes integer[], signatures integer[],
    error_types text[], errors text[], tracebacks text[]
) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET lock_timeout = '100ms' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    one   record;
    run   rota.open_runs;
    words text;
    is_taken boolean;
    reason text;
BEGIN
    FOR one IN
        SELECT f.*, w.build, w.release
        FROM unnest(ids, attempts, durations_ms, intakes, signatures, error_types, errors, tracebacks)
            AS f (id, attempt, duration_ms, intake, signature, error_type, error, traceback)
        LEFT JOIN rota.workers w ON w.id = for_worker ORDER BY f.id
    LOOP
        SELECT o.* INTO run FROM rota.open_runs o
        WHERE o.id = ANY (ARRAY[one.id]) AND o.attempt = one.attempt AND o.worker = for_worker FOR UPDATE;
        CONTINUE WHEN NOT FOUND;
        INSERT INTO rota.refusals (run_id, intake, signature, worker, build, release, error)
        VALUES (one.id, one.intake, one.signature, for_worker, coalesce(one.build, 'unknown'), one.release,
                left(one.error, 2000))
        ON CONFLICT (run_id, intake) DO NOTHING;
        run.refused_by := array_append(array_remove(run.refused_by, one.intake), one.intake);
        is_taken := rota.has_taker(run.job, run.queue, run.refused_by);
        SELECT 'cancelled by ' || c.requested_by || coalesce(': ' || c.reason, '') INTO reason
        FROM rota.cancel_requests c WHERE c.run_id = one.id AND c.attempt = one.attempt;
        IF reason IS NOT NULL OR NOT is_taken AND NOT rota.is_of_other_release(run) THEN
            RETURN QUERY SELECT rota.finish_runs(for_worker, ARRAY[one.id], ARRAY[one.attempt], ARRAY[one.duration_ms],
                NULL, ARRAY[CASE WHEN reason IS NULL THEN 'failed' ELSE 'cancelled' END],
                ARRAY[CASE WHEN reason IS NULL THEN 'failed' ELSE 'cancelled' END],
                ARRAY[coalesce(reason, 'payload refused')], NULL, ARRAY[one.error_type], ARRAY[one.error],
                ARRAY[one.traceback]);
            CONTINUE;
        END IF;
        words := rota.refusal_words(one.id);
        INSERT INTO rota.past_attempts (run_id, attempt, state, worker, started_at, finished_at, duration_ms,
            is_redelivery, is_spent, job, tenant, message, error_type, error)
        VALUES (one.id, one.attempt, 'cancelled', for_worker, run.started_at, greatest(run.started_at, rota.now()),
            one.duration_ms, run.suspicion > 0, false, run.job, run.tenant, 'payload refused: left to other workers',
            one.error_type, one.error);
        UPDATE rota.open_runs o
        SET state = 'queued', worker = NULL, started_at = NULL, claim_batch = NULL, progress = NULL,
            refused_by = run.refused_by, last_error = words,
            held_by = rota.hold_of(true, NULL, o.suspicion, CASE WHEN NOT is_taken THEN 'payload' END),
            held_at = CASE WHEN is_taken THEN o.held_at ELSE coalesce(o.held_at, rota.now()) END,
            slots = CASE WHEN is_taken THEN o.slots END
        WHERE o.id = one.id RETURNING o.held_by INTO run.held_by;
        PERFORM rota.release_slots(run.slots) WHERE run.slots IS NOT NULL AND NOT is_taken;
        PERFORM rota.wake_for(ARRAY[run.queue], ARRAY[run.held_by]) WHERE is_taken;
        RETURN NEXT one.id;
    END LOOP;
END $$;

-- Holds what waits for a worker that has gone since: refused runs that no live worker may take. Before that it forgets
-- who refused runs that have ended. Returns how many were held or failed.
-- Called by: postgres/upkeep.py.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.hold_refused_runs(max_runs integer) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET lock_timeout = '5s' SET jit = off AS $$
DECLARE
    run  rota.open_runs;
    held integer := 0;
BEGIN
    DELETE FROM rota.refusals r WHERE r.ctid = ANY (ARRAY(
        SELECT g.ctid FROM rota.refusals g WHERE NOT EXISTS (SELECT FROM rota.open_runs o WHERE o.id = g.run_id)
        LIMIT max_runs FOR UPDATE SKIP LOCKED));
    FOR run IN
        SELECT o.* FROM rota.open_runs o
        WHERE o.id IN (SELECT r.run_id FROM rota.refusals r) AND o.state = 'queued' AND o.refused_by IS NOT NULL
          AND (o.held_by IS NULL OR o.held_by = 'suspect') AND NOT rota.has_taker(o.job, o.queue, o.refused_by)
        LIMIT max_runs FOR UPDATE SKIP LOCKED
    LOOP
        held := held + 1;
        IF NOT rota.is_of_other_release(run) THEN
            PERFORM rota.end_waiting_runs(ARRAY[run.id], 'failed', 'payload refused', 'PayloadError', run.last_error);
            CONTINUE;
        END IF;
        UPDATE rota.open_runs o SET held_by = rota.hold_of(true, NULL, o.suspicion, 'payload'),
            held_at = coalesce(o.held_at, rota.now()), slots = NULL, last_error = rota.refusal_words(o.id)
        WHERE o.id = run.id;
        PERFORM rota.release_slots(run.slots) WHERE run.slots IS NOT NULL;
    END LOOP;
    RETURN held;
END $$;

-- What was held for its payload comes back when a worker is live that has not refused it yet. How long it was held
-- counts from the first time: builds that refuse it too do not make that longer.
-- Called by: postgres/upkeep.py.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.free_refused_runs(max_runs integer) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET lock_timeout = '5s' SET jit = off AS $$
DECLARE
    touched text[];
    holds   text[];
    freed   integer;
BEGIN
    WITH kinds AS MATERIALIZED (
        SELECT o.job, o.queue, o.refused_by FROM rota.open_runs o WHERE o.held_by = 'payload' GROUP BY 1, 2, 3
    ), wanted AS MATERIALIZED (
        SELECT k.* FROM kinds k WHERE rota.has_taker(k.job, k.queue, k.refused_by)
    ), freed AS (
        UPDATE rota.open_runs o
        SET held_by = rota.hold_of(true, o.limit_keys, o.suspicion), limit_key = o.limit_keys[1],
            enqueued_at = clock_timestamp()
        WHERE o.ctid = ANY (ARRAY(SELECT q.ctid FROM wanted k JOIN rota.open_runs q ON q.held_by = 'payload'
                                      AND q.job = k.job AND q.queue = k.queue AND q.refused_by = k.refused_by
                                  LIMIT max_runs FOR UPDATE OF q SKIP LOCKED))
        RETURNING o.queue, o.held_by
    )
    SELECT count(*), array_agg(DISTINCT queue) FILTER (WHERE held_by IS NULL), array_agg(DISTINCT held_by)
    INTO freed, touched, holds FROM freed;
    PERFORM rota.wake_for(touched, holds);
    RETURN freed;
END $$;

-- Fails what was held for its payload for longer than this.
-- Called by: postgres/upkeep.py.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.fail_refused_runs(after_seconds double precision, max_runs integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET lock_timeout = '5s' AS $$
DECLARE
    run    record;
    failed integer := 0;
BEGIN
    FOR run IN
        SELECT o.id, o.last_error FROM rota.open_runs o
        WHERE o.held_by = 'payload' AND o.held_at <= rota.now() - make_interval(secs => after_seconds)
        LIMIT max_runs FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM rota.end_waiting_runs(ARRAY[run.id], 'failed', 'payload refused', 'PayloadError',
            format('no live worker took the payload for %s s: %s', after_seconds, run.last_error));
        failed := failed + 1;
    END LOOP;
    RETURN failed;
END $$;

-- Names that jobs have had: whoever still enqueues under one means the job that has it now.
CREATE TABLE rota.job_names (
    alias      text COLLATE "C" PRIMARY KEY,
    job        text COLLATE "C" NOT NULL,
    renamed_at timestamptz NOT NULL DEFAULT rota.now()
);
CREATE INDEX job_names_job ON rota.job_names (job);
COMMENT ON TABLE rota.job_names IS 'Earlier names of renamed jobs, and the names that they have now.';

-- The name that a job has now, by an earlier one. RO001: nobody knows either.
-- Called by: enqueue_batch, enqueue_run.
CREATE FUNCTION rota.name_now(of_job text) RETURNS text LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    found text := (SELECT n.job FROM rota.job_names n JOIN rota.jobs j ON j.name = n.job WHERE n.alias = of_job);
BEGIN
    IF found IS NULL THEN
        PERFORM rota.unknown_job(coalesce(of_job, '(NULL)'));
    END IF;
    RETURN found;
END $$;

-- The name that a job has now, by any that it has or had; what no job is called stays as it is.
-- Called by: many.
CREATE FUNCTION rota.present_name(of_job text) RETURNS text LANGUAGE sql STABLE SET jit = off AS $$
    SELECT coalesce((SELECT j.name FROM rota.jobs j WHERE j.name = of_job),
        (SELECT n.job FROM rota.job_names n WHERE n.alias = of_job), of_job)
$$;

-- The other names of a job, earlier and present: lists show its history under each of them.
-- Called by: names_of, sql/runs/fitting.sql.
CREATE FUNCTION rota.other_names(of_job text) RETURNS SETOF text LANGUAGE sql STABLE SET jit = off AS $$
    SELECT o.alias FROM rota.job_names o
    WHERE o.job = coalesce((SELECT n.job FROM rota.job_names n WHERE n.alias = of_job), of_job) AND o.alias <> of_job
    UNION ALL
    SELECT n.job FROM rota.job_names n WHERE n.alias = of_job
$$;

-- All names of a job, as other_names, with the given one first: what is counted and written by name is read by each.
-- Called by: many.
CREATE FUNCTION rota.names_of(of_job text) RETURNS text[] LANGUAGE sql STABLE STRICT SET jit = off AS $$
    SELECT ARRAY[of_job] || ARRAY(SELECT rota.other_names(of_job))
$$;

-- Gives a job another name, in one transaction: its settings and what operators changed of them, schedules, limits,
-- bindings, keys and open runs. If there is a job of the new name, the two become one: what operators changed of
-- either stays, of both what they changed of the new one. Whoever enqueues under the old name means the new one from
-- now on, and the history is found under both. Runs that somebody holds at this moment keep the old name until they
-- wait again. Returns how many open runs it moved.
-- RO001: there is no such job; RO005: live workers know it by its old name only.
-- Called by: follow_names, operations/jobs.py, users.
-- Locks: "definitions", rows that nobody else has locked, rows.
CREATE FUNCTION rota.rename_job(name text, new_name text, reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql VOLATILE SET lock_timeout = '5s' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    old   rota.jobs;
    new   rota.jobs;
    was   text[];
    is_in_sync boolean := rota.is_syncing();
    moved bigint[];
BEGIN
    PERFORM rota.take_lock('definitions');
    SELECT j.* INTO old FROM rota.jobs j WHERE j.name = rename_job.name FOR UPDATE;
    SELECT j.* INTO new FROM rota.jobs j WHERE j.name = rename_job.new_name FOR UPDATE;
    IF old.name IS NULL THEN
        PERFORM rota.unknown_job(rename_job.name);
    ELSIF old.is_system OR new.is_system THEN
        RAISE EXCEPTION 'job "%" belongs to Rota and cannot be renamed', old.name USING ERRCODE = 'RO005';
    ELSIF rename_job.new_name IS NULL OR rename_job.new_name !~ '^[^[:cntrl:]]{1,200}$' THEN
        PERFORM rota.bad_job(old.name, 'its new name must have 1 to 200 characters');
    ELSIF rename_job.new_name = old.name THEN
        PERFORM rota.bad_job(old.name, 'its new name is the name that it has');
    ELSIF new.kind <> old.kind THEN
        PERFORM rota.bad_job(old.name, format('it is a %s job, and "%s" is a %s job', old.kind, new.name, new.kind));
    ELSIF new.key IS NOT NULL AND EXISTS (SELECT FROM rota.schedules s WHERE s.job = old.name) THEN
        PERFORM rota.bad_job(old.name, format('it has schedules, and "%s" has a key', new.name),
            'Delete the schedules first: a job with a key cannot have any.');
    ELSIF NOT is_in_sync AND old.kind = 'python' AND EXISTS (
        SELECT FROM rota.workers w WHERE w.state = 'live' AND w.lease_expires_at > clock_timestamp()
            AND old.name = ANY (w.jobs) AND rename_job.new_name <> ALL (w.jobs)) THEN
        RAISE EXCEPTION 'live workers know job "%", but not under the name "%"', old.name, rename_job.new_name
            USING ERRCODE = 'RO005', HINT = format('Deploy code that declares it as "%s" with aliases=["%s"], which '
                'renames it, or stop those workers first.', rename_job.new_name, old.name);
    END IF;
    was := rota.say_why(rename_job.actor, rename_job.reason);
    -- As what code says: no edits, no payloads to be checked, nothing that a person dropped.
    PERFORM set_config('rota' || '.syncing', 'on', true), set_config('rota' || '.renaming', old.name, true);
    IF new.name IS NULL THEN
        INSERT INTO rota.jobs SELECT (jsonb_populate_record(NULL::rota.jobs,
            to_jsonb(old) || jsonb_build_object('name', rename_job.new_name))).*;
    ELSE
        UPDATE rota.jobs j SET edited = old.edited || j.edited,
            (description, queue, priority, max_attempts, timeout_seconds, backoff, tags, metadata, default_payload,
                is_enabled, events, event_filters, event_delivery, log_level, retention, delay_seconds,
                expires_in_seconds, key, tenant) = (
            SELECT r.description, r.queue, r.priority, r.max_attempts, r.timeout_seconds, r.backoff, r.tags, r.metadata,
                r.default_payload, r.is_enabled, r.events, r.event_filters, r.event_delivery, r.log_level, r.retention,
                r.delay_seconds, r.expires_in_seconds, r.key, r.tenant
            FROM jsonb_populate_record(j, rota.pick(to_jsonb(old),
                old.edited - ARRAY(SELECT jsonb_object_keys(j.edited)))) r)
        WHERE j.name = new.name AND old.edited <> '{}';
    END IF;
    INSERT INTO rota.job_applications (job, application, hash)
    SELECT rename_job.new_name, a.application, a.hash FROM rota.job_applications a WHERE a.job = old.name
    -- What it said of its schedules was said of others: it is to say it again.
    ON CONFLICT (job, application) DO UPDATE SET hash = '';
    INSERT INTO rota.signatures (job, hash, payload_schema, declared_at, replaced_at)
    SELECT rename_job.new_name, s.hash, s.payload_schema, s.declared_at, CASE WHEN new.name IS NULL THEN s.replaced_at
        ELSE coalesce(s.replaced_at, rota.now()) END
    FROM rota.signatures s WHERE s.job = old.name
    ON CONFLICT (job, hash) DO NOTHING;
    DELETE FROM rota.signatures s WHERE s.job = old.name;
    PERFORM rota.rename_schedules(old.name, rename_job.new_name);
    -- Its own limits go with it: those that only its code declares.
    UPDATE rota.jobs j SET limits = NULL WHERE j.name = old.name;
    UPDATE rota.limits l
    SET jobs = ARRAY(SELECT DISTINCT CASE WHEN k = old.name THEN rename_job.new_name ELSE k END COLLATE "C" FROM
        unnest(l.jobs) k ORDER BY 1)
    WHERE old.name = ANY (l.jobs);
    WITH mine AS MATERIALIZED (
        SELECT o.id FROM rota.open_runs o WHERE o.job = old.name FOR UPDATE SKIP LOCKED
    ), moved AS (
        UPDATE rota.open_runs o SET job = rename_job.new_name FROM mine m WHERE o.id = m.id RETURNING o.id
    )
    SELECT coalesce(array_agg(m.id), '{}') INTO moved FROM moved m;
    UPDATE rota.keys k SET job = rename_job.new_name
    WHERE k.job = old.name
      AND (k.run_id = ANY (moved) OR NOT EXISTS (SELECT FROM rota.open_runs o WHERE o.id = k.run_id))
      AND NOT EXISTS (SELECT FROM rota.keys t
                      WHERE t.tenant = k.tenant AND t.job = rename_job.new_name AND t.key = k.key);
    UPDATE rota.key_releases r SET job = rename_job.new_name WHERE r.job = old.name;
    -- One that both jobs have is the new one's.
    DELETE FROM rota.keys k WHERE k.job = old.name AND k.run_id = ANY (moved);
    PERFORM rota.limit_run(m) FROM unnest(moved) m WHERE new.name IS NOT NULL;
    DELETE FROM rota.job_names n WHERE n.alias = rename_job.new_name;
    UPDATE rota.job_names n SET job = rename_job.new_name WHERE n.job = old.name;
    INSERT INTO rota.job_names AS n (alias, job) VALUES (old.name, rename_job.new_name)
    ON CONFLICT (alias) DO UPDATE SET job = excluded.job, renamed_at = excluded.renamed_at;
    PERFORM set_config('rota' || '.deleting_job', old.name, true);
    DELETE FROM rota.jobs j WHERE j.name = old.name;
    PERFORM rota.write_audit(NULL, 'job.renamed', 'job', n.name, jsonb_build_object('name', old.name),
        jsonb_build_object('name', rename_job.new_name, 'runs', cardinality(moved)),
        nullif(current_setting('rota' || '.reason', true), ''))
    FROM unnest(ARRAY[old.name, rename_job.new_name]) n (name);
    PERFORM set_config('rota' || '.deleting_job', '', true), set_config('rota' || '.renaming', '', true),
        set_config('rota' || '.syncing', CASE WHEN is_in_sync THEN 'on' ELSE '' END, true), rota.unsay(was);
    PERFORM rota.wake(ARRAY(SELECT DISTINCT o.queue FROM rota.open_runs o WHERE o.id = ANY (moved)));
    PERFORM rota.wake_admission(), rota.wake_isolation(), rota.call_workers('jobs');
    RETURN cardinality(moved);
END $$;

-- Moves the schedules of a renamed job. Those of its code that are named like it get the new name too, so that the code
-- of the new name finds them with their history and edits; one that it has made already, and nobody has touched, goes.
-- Requirements follow.
-- Called by: rename_job.
CREATE FUNCTION rota.rename_schedules(old_job text, new_job text) RETURNS void LANGUAGE plpgsql VOLATILE
SET jit = off AS $$
DECLARE
    one  record;
    made text;
BEGIN
    FOR one IN
        SELECT s.id, s.name, s.edited FROM rota.schedules s
        WHERE s.job = old_job AND s.tenant = '' AND s.origin = 'definition'
          AND (s.name = old_job OR left(s.name, length(old_job) + 1) = old_job || '-'
               AND substr(s.name, length(old_job) + 2) ~ '^[0-9]+$')
        ORDER BY s.id
    LOOP
        made := new_job || substr(one.name, length(old_job) + 1);
        DELETE FROM rota.schedules s WHERE s.tenant = '' AND s.name = made AND s.job = new_job AND s.edited = '{}'
            AND s.origin = 'definition' AND (s.id > one.id OR one.edited <> '{}');
        IF EXISTS (SELECT FROM rota.schedules s WHERE s.tenant = '' AND s.name = made) THEN
            DELETE FROM rota.schedules s WHERE s.id = one.id;
        ELSE
            UPDATE rota.schedules s SET name = made, job = new_job WHERE s.id = one.id;
        END IF;
    END LOOP;
    UPDATE rota.schedules s SET job = new_job WHERE s.job = old_job;
    UPDATE rota.schedules s SET requires = (
        SELECT jsonb_agg(CASE WHEN e = to_jsonb(old_job) THEN to_jsonb(new_job)
            WHEN jsonb_typeof(e) = 'object' AND e ->> 'name' = old_job THEN e || jsonb_build_object('name', new_job)
            ELSE e END ORDER BY n)
        FROM jsonb_array_elements(s.requires) WITH ORDINALITY AS v (e, n))
    WHERE s.requires @> jsonb_build_array(old_job)
       OR s.requires @> jsonb_build_array(jsonb_build_object('name', old_job));
END $$;

-- What the code of an application has renamed of its own jobs: those that it declares with the old name among their
-- aliases, and back, where it declares the old name and no longer the new one (a roll-back). A job gets one name: after
-- a roll-back and the new release again both ways say the same.
-- Called by: follow_names, register_jobs, sql/jobs/plan.sql.
CREATE FUNCTION rota.renamed_in_code(of_application text, definitions jsonb, names text[])
RETURNS TABLE (old_name text, new_name text) LANGUAGE sql STABLE SET jit = off AS $$
    SELECT DISTINCT ON (r.old_name) r.old_name, r.new_name FROM (
        SELECT 1, a.name, w.name FROM rota.read_definitions(definitions) w
        CROSS JOIN LATERAL unnest(w.aliases) AS a (name)
        JOIN rota.jobs j ON j.name = a.name AND j.kind = 'python' AND NOT j.is_system AND j.application = of_application
        WHERE a.name <> ALL (names) AND NOT EXISTS (SELECT FROM rota.job_applications o
            WHERE o.job = a.name AND o.application <> of_application)
          AND NOT EXISTS (SELECT FROM rota.jobs o WHERE o.name = w.name AND o.kind <> 'python')
        UNION ALL
        SELECT 2, n.job, n.alias FROM rota.job_names n JOIN rota.jobs j ON j.name = n.job AND j.kind = 'python'
            AND j.application = of_application
        WHERE n.alias = ANY (names) AND n.job <> ALL (names)
          AND NOT EXISTS (SELECT FROM rota.jobs o WHERE o.name = n.alias)) AS r (rank, old_name, new_name)
    ORDER BY r.old_name, r.rank, r.new_name
$$;

-- Renames what code has renamed, when a worker of the newest build says so. A name that the code declares beside the
-- new one is a job of its own again.
-- Called by: register_jobs.
CREATE FUNCTION rota.follow_names(of_application text, definitions jsonb, names text[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT * FROM rota.renamed_in_code(of_application, definitions, names) LOOP
        PERFORM rota.rename_job(one.old_name, one.new_name);
    END LOOP;
    DELETE FROM rota.job_names n WHERE n.alias = ANY (names) AND n.job = ANY (names)
        AND NOT EXISTS (SELECT FROM rota.read_definitions(definitions) w WHERE n.alias = ANY (w.aliases));
END $$;
