-- What people do with schedules: `put_schedule`, `enable_schedule`, `disable_schedule`, `pause_schedule`,
-- `resume_schedule`, `reschedule`, `trigger_schedule`, `backfill_schedule`, `delete_schedule`. `schedule_days`
-- counts by day, the view `schedule_status` says how each stands.

-- The schedule of this name, or RO007.
-- Called by: many.
CREATE FUNCTION rota.find_schedule(name text, tenant text) RETURNS rota.schedules LANGUAGE plpgsql STABLE
SET jit = off AS $$
DECLARE
    found rota.schedules;
BEGIN
    SELECT s.* INTO found FROM rota.schedules s WHERE s.tenant = find_schedule.tenant AND s.name = find_schedule.name;
    IF found.id IS NULL THEN
        RAISE EXCEPTION 'no schedule is named "%"', find_schedule.name
            USING ERRCODE = 'RO007', DETAIL = jsonb_build_object('schedule', find_schedule.name,
                'tenant', find_schedule.tenant), HINT = 'rota.schedules lists them.';
    END IF;
    RETURN found;
END $$;

-- Before an edit in the same transaction: the row is still as it was when somebody looked (else RO008), and stays
-- locked until the edit. Jobs, queues, schedules, calendars, templates and tenants have versions.
-- Called by: postgres/versions.py, users.
-- Locks: rows.
CREATE FUNCTION rota.expect_version(kind text, name text, version bigint, tenant text DEFAULT '') RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    stored bigint;
BEGIN
    CASE kind
        WHEN 'schedule' THEN
            PERFORM rota.find_schedule(expect_version.name, expect_version.tenant);
            SELECT s.version INTO stored FROM rota.schedules s
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
        WHEN 'tenant' THEN
            SELECT t.version INTO stored FROM rota.tenants t WHERE t.name = expect_version.name FOR UPDATE;
            stored := coalesce(stored, 1);
        ELSE
            RAISE EXCEPTION 'unknown kind "%"; choose from schedule, job, calendar, template, queue, tenant', kind
                USING ERRCODE = 'RO002';
    END CASE;
    IF stored IS NULL THEN
        RAISE EXCEPTION 'no % is named "%"', kind, expect_version.name USING ERRCODE = 'RO002';
    ELSIF stored <> expect_version.version THEN
        RAISE EXCEPTION '% "%" has changed: it is at version %, not %', kind, expect_version.name, stored,
            expect_version.version
            USING ERRCODE = 'RO008', DETAIL = jsonb_build_object('name', expect_version.name, 'version', stored),
                HINT = 'Read it again, then repeat the change.';
    END IF;
END $$;

-- What code says about a schedule (`app.schedule`), again and again: makes it, brings the fields that no operator has
-- touched up to what is said, and writes nothing when the same was said before. A field that is not said stays. Answers
-- whether it wrote.
-- Called by: sql/schedules/put.sql.
-- Locks: rows.
CREATE FUNCTION rota.put_schedule(name text, declared jsonb, tenant text DEFAULT '', actor text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    wanted rota.schedules := jsonb_populate_record(NULL::rota.schedules, declared);
    said   jsonb := rota.pick(to_jsonb(wanted), declared - 'job');
    was    text[] := rota.say_why(put_schedule.actor, NULL);
    stored rota.schedules;
BEGIN
    wanted.job := rota.present_name(wanted.job);
    LOOP
        SELECT s.* INTO stored FROM rota.schedules s
        WHERE s.tenant = put_schedule.tenant AND s.name = put_schedule.name FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO rota.schedules (tenant, name, job, origin, code, is_enabled,
            description, tags, metadata, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold,
            every_from, start_at, end_at, max_runs, jitter_seconds, burst_allowed, calendar, on_closed, catch_up,
            catch_up_window_seconds, catch_up_limit, grace_seconds, overlap, max_concurrent_runs, pause_after_failures,
            requires, is_shadow, delete_when_finished, payload, queue, priority,
            max_attempts, timeout_seconds, run_tags, run_metadata)
        VALUES (put_schedule.tenant, put_schedule.name, wanted.job, 'code', said, coalesce(wanted.is_enabled, true),
            wanted.description, wanted.tags, wanted.metadata, wanted.cron, wanted.interval_seconds, wanted.run_at,
            wanted.init, wanted.has_seconds, wanted.timezone, wanted.gap, wanted.fold, wanted.every_from,
            wanted.start_at, wanted.end_at, wanted.max_runs, wanted.jitter_seconds,
            coalesce(wanted.burst_allowed, false), wanted.calendar, wanted.on_closed, wanted.catch_up,
            wanted.catch_up_window_seconds, wanted.catch_up_limit, wanted.grace_seconds, wanted.overlap,
            wanted.max_concurrent_runs, wanted.pause_after_failures, wanted.requires, wanted.is_shadow,
            wanted.delete_when_finished, wanted.payload, wanted.queue, wanted.priority,
            wanted.max_attempts, wanted.timeout_seconds, wanted.run_tags, wanted.run_metadata)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            PERFORM rota.unsay(was);
            RETURN true;
        END IF;
    END LOOP;
    IF stored.origin = 'definition' THEN
        RAISE EXCEPTION 'schedule "%" is one of the schedules that job "%" declares', stored.name, stored.job
            USING ERRCODE = 'RO005', HINT = 'Rename one of them.';
    ELSIF stored.code IS NOT DISTINCT FROM said AND stored.job = wanted.job THEN
        PERFORM rota.unsay(was);
        RETURN false;
    END IF;
    -- Said by code: no edit of an operator.
    PERFORM set_config('rota' || '.syncing', 'on', true);
    UPDATE rota.schedules s SET job = wanted.job, origin = 'code', code = said,
        edited = rota.still_edited(to_jsonb(s), s.edited, said), (is_enabled,
            description, tags, metadata, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold,
            every_from, start_at, end_at, max_runs, jitter_seconds, burst_allowed, calendar, on_closed, catch_up,
            catch_up_window_seconds, catch_up_limit, grace_seconds, overlap, max_concurrent_runs, pause_after_failures,
            requires, is_shadow, delete_when_finished, payload, queue, priority,
            max_attempts, timeout_seconds, run_tags, run_metadata) = (
        SELECT r.is_enabled,
            r.description, r.tags, r.metadata, r.cron, r.interval_seconds, r.run_at, r.init, r.has_seconds, r.timezone,
            r.gap, r.fold, r.every_from, r.start_at, r.end_at, r.max_runs, r.jitter_seconds,
            coalesce(r.burst_allowed, false), r.calendar, r.on_closed, r.catch_up, r.catch_up_window_seconds,
            r.catch_up_limit, r.grace_seconds, r.overlap, r.max_concurrent_runs, r.pause_after_failures, r.requires,
            r.is_shadow, r.delete_when_finished, r.payload, r.queue, r.priority, r.max_attempts, r.timeout_seconds,
            r.run_tags, r.run_metadata
        FROM jsonb_populate_record(s, said - rota.kept_fields(s.edited)) r)
    WHERE s.id = stored.id;
    PERFORM set_config('rota' || '.syncing', '', true), rota.unsay(was);
    RETURN true;
END $$;

-- Many schedules that code declares, one for each tenant for example, in one statement. A document is said once,
-- however many schedules have it: `places` says which of the documents each has, from 1. What is as declared is found
-- by one join; what is new or changed is written as put_schedule writes one. Returns how many were written.
-- Older code than the newest of its application adds what is missing, and changes nothing that code declares when it is
-- loaded. `at_start`: this is such a declaration, and the schedule notes its application; what is said at run time is
-- an act. `forced`: jobs whose schedules lose what operators changed.
-- Called by: sql/schedules/put_many.sql.
-- Locks: rows that nobody else has locked, rows.
CREATE FUNCTION rota.put_schedules(tenants text[], names text[], places integer[], documents text[],
    actor text DEFAULT NULL, application text DEFAULT NULL, build text DEFAULT NULL, at_start boolean DEFAULT false,
    forced text[] DEFAULT '{}')
RETURNS integer LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    declared jsonb[] := ARRAY(SELECT d.doc::jsonb || jsonb_build_object('job', rota.present_name(d.doc::jsonb ->> 'job'))
                              FROM unnest(documents) WITH ORDINALITY AS d (doc, n) ORDER BY d.n);
    said     jsonb[] := ARRAY(SELECT rota.pick(to_jsonb(jsonb_populate_record(NULL::rota.schedules, d.doc)),
        d.doc - 'job')
                              FROM unnest(declared) WITH ORDINALITY AS d (doc, n) ORDER BY d.n);
    taken    record;
    made     integer;
    changed  integer;
    is_old   boolean := put_schedules.application IS NOT NULL
        AND NOT rota.is_newest(put_schedules.application, put_schedules.build);
    was      text[] := rota.say_why(put_schedules.actor, NULL);
BEGIN
    -- By tenant and name, so that two starting processes cannot deadlock.
    INSERT INTO rota.schedules (tenant, name, job, origin, code, is_enabled,
        description, tags, metadata, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold, every_from,
        start_at, end_at, max_runs, jitter_seconds, burst_allowed, calendar, on_closed, catch_up,
        catch_up_window_seconds,
        catch_up_limit, grace_seconds, overlap, max_concurrent_runs, pause_after_failures, requires, is_shadow,
        delete_when_finished, payload, queue, priority, max_attempts, timeout_seconds, run_tags, run_metadata)
    SELECT w.tenant, w.name, r.job, 'code', said[w.place], coalesce(r.is_enabled, true),
        r.description, r.tags, r.metadata, r.cron, r.interval_seconds, r.run_at, r.init, r.has_seconds, r.timezone,
        r.gap, r.fold, r.every_from, r.start_at, r.end_at, r.max_runs, r.jitter_seconds,
        coalesce(r.burst_allowed, false), r.calendar, r.on_closed, r.catch_up, r.catch_up_window_seconds,
        r.catch_up_limit,
        r.grace_seconds, r.overlap, r.max_concurrent_runs, r.pause_after_failures, r.requires, r.is_shadow,
        r.delete_when_finished, r.payload, r.queue, r.priority, r.max_attempts, r.timeout_seconds, r.run_tags,
        r.run_metadata
    FROM unnest(put_schedules.tenants, names, places) AS w (tenant, name, place)
    CROSS JOIN LATERAL jsonb_populate_record(NULL::rota.schedules, declared[w.place]) r
    WHERE NOT EXISTS (SELECT FROM rota.schedules s WHERE s.tenant = w.tenant AND s.name = w.name)
      AND NOT (at_start AND is_old AND EXISTS (SELECT FROM rota.deleted_schedules d
          WHERE d.tenant = w.tenant AND d.name = w.name AND d.kept_out IS NOT NULL))
    ORDER BY w.tenant COLLATE "C", w.name COLLATE "C"
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS made = ROW_COUNT;
    UPDATE rota.deleted_schedules d SET kept_out = NULL
    FROM unnest(put_schedules.tenants, names) AS w (tenant, name)
    WHERE made > 0 AND d.tenant = w.tenant AND d.name = w.name AND d.kept_out = 'code' AND NOT is_old;
    SELECT s.name, s.job INTO taken FROM unnest(put_schedules.tenants, names) AS w (tenant, name)
    JOIN rota.schedules s ON s.tenant = w.tenant AND s.name = w.name
    WHERE s.origin = 'definition' AND NOT is_old LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'schedule "%" is one of the schedules that job "%" declares', taken.name, taken.job
            USING ERRCODE = 'RO005', HINT = 'Rename one of them.';
    END IF;
    PERFORM FROM (SELECT s.id FROM unnest(put_schedules.tenants, names, places) AS w (tenant, name, place)
                  JOIN rota.schedules s ON s.tenant = w.tenant AND s.name = w.name
                  WHERE s.code IS DISTINCT FROM said[w.place] OR s.job <> declared[w.place] ->> 'job'
                     OR s.job = ANY (forced)
                  ORDER BY s.tenant COLLATE "C", s.name COLLATE "C" FOR UPDATE OF s) held;
    -- Asked again once the rows are locked: newer code that speaks from now on waits for them, and writes after this.
    is_old := put_schedules.application IS NOT NULL
        AND NOT rota.is_newest(put_schedules.application, put_schedules.build);
    -- Said by code: no edit of an operator.
    PERFORM set_config('rota' || '.syncing', 'on', true);
    UPDATE rota.schedules s SET job = declared[w.place] ->> 'job', origin = 'code', code = said[w.place],
        edited = CASE WHEN s.job = ANY (forced) THEN '{}'
            ELSE rota.still_edited(to_jsonb(s), s.edited, said[w.place]) END, (is_enabled,
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
        FROM jsonb_populate_record(s, said[w.place] - CASE WHEN s.job = ANY (forced) THEN '{}'::text[]
            ELSE rota.kept_fields(s.edited) END) r)
    FROM unnest(put_schedules.tenants, names, places) AS w (tenant, name, place)
    WHERE s.tenant = w.tenant AND s.name = w.name
      AND (s.code IS DISTINCT FROM said[w.place] OR s.job <> declared[w.place] ->> 'job' OR s.job = ANY (forced))
      AND NOT (is_old AND (at_start OR s.origin = 'definition'
          OR s.application IS NOT DISTINCT FROM put_schedules.application));
    GET DIAGNOSTICS changed = ROW_COUNT;
    PERFORM set_config('rota' || '.syncing', '', true), rota.unsay(was);
    -- By itself: no trigger of edits looks at this column. A row that somebody holds is noted at the next start.
    UPDATE rota.schedules s SET application = put_schedules.application WHERE s.id = ANY (ARRAY(
        SELECT o.id FROM unnest(put_schedules.tenants, names) AS w (tenant, name)
        JOIN rota.schedules o ON o.tenant = w.tenant AND o.name = w.name
        WHERE at_start AND NOT is_old AND o.application IS DISTINCT FROM put_schedules.application
        FOR NO KEY UPDATE OF o SKIP LOCKED));
    RETURN made + changed;
END $$;

-- The next time is this instant; regular ones before it are superseded, the timing goes on after it. NULL: the timing
-- decides the next time again.
-- Called by: operations/schedules/schedules.py, users.
CREATE FUNCTION rota.reschedule(name text, at timestamptz, tenant text DEFAULT '', reason text DEFAULT NULL,
    actor text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found rota.schedules := rota.find_schedule(reschedule.name, reschedule.tenant);
    was   text[];
BEGIN
    IF NOT rota.is_instant(reschedule.at) THEN
        PERFORM rota.refuse_infinite(found, reschedule.at);
    END IF;
    was := rota.say_why(reschedule.actor, reschedule.reason);
    UPDATE rota.schedules s SET next_run_at = reschedule.at WHERE s.id = found.id;
    PERFORM rota.unsay(was);
END $$;

-- What enable_schedule and disable_schedule do. The trigger of edits writes the audit. Returns whether it wrote: false
-- if it was so already.
-- Called by: disable_schedule, enable_schedule, operations/schedules/schedules.py, users.
CREATE FUNCTION rota.set_schedule_enabled(name text, enabled boolean, tenant text DEFAULT '', reason text DEFAULT NULL,
    actor text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found rota.schedules := rota.find_schedule(set_schedule_enabled.name, set_schedule_enabled.tenant);
    was   text[] := rota.say_why(set_schedule_enabled.actor, set_schedule_enabled.reason);
    wrote bigint;
BEGIN
    UPDATE rota.schedules s SET is_enabled = enabled WHERE s.id = found.id AND s.is_enabled <> enabled;
    GET DIAGNOSTICS wrote = ROW_COUNT;
    PERFORM rota.unsay(was);
    RETURN wrote > 0;
END $$;

-- It goes on with its next time. False: it was enabled already.
-- Called by: users.
CREATE FUNCTION rota.enable_schedule(name text, tenant text DEFAULT '', reason text DEFAULT NULL,
    actor text DEFAULT NULL)
RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT rota.set_schedule_enabled(enable_schedule.name, true, enable_schedule.tenant, enable_schedule.reason,
        enable_schedule.actor)
$$;

-- Its times are skipped until it is enabled; then the ledger has them. False: it was disabled already.
-- Called by: users.
CREATE FUNCTION rota.disable_schedule(name text, tenant text DEFAULT '', reason text DEFAULT NULL,
    actor text DEFAULT NULL)
RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT rota.set_schedule_enabled(disable_schedule.name, false, disable_schedule.tenant, disable_schedule.reason,
        disable_schedule.actor)
$$;

-- Its times are skipped until it is resumed, or until that time; then the ledger has them. If it is paused already, a
-- new end or reason replaces the old one. Returns whether it wrote: false if nothing differs.
-- Called by: operations/schedules/schedules.py, users.
CREATE FUNCTION rota.pause_schedule(name text, reason text DEFAULT NULL, until timestamptz DEFAULT NULL,
    tenant text DEFAULT '', actor text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found rota.schedules := rota.find_schedule(pause_schedule.name, pause_schedule.tenant);
    was   text[];
    wrote bigint;
BEGIN
    IF pause_schedule.until <= rota.now() THEN
        PERFORM rota.bad_schedule(found.name, 'the end of a pause must be in the future');
    END IF;
    was := rota.say_why(pause_schedule.actor, pause_schedule.reason);
    UPDATE rota.schedules s
    SET paused_at = CASE WHEN s.paused_until <= rota.now() THEN rota.now() ELSE coalesce(s.paused_at, rota.now()) END,
        paused_until = pause_schedule.until,
        pause_reason = coalesce(pause_schedule.reason, CASE WHEN s.paused_until <= rota.now() THEN NULL
            ELSE s.pause_reason END),
        paused_by = rota.who()
    WHERE s.id = found.id AND (s.paused_at IS NULL OR s.paused_until IS DISTINCT FROM pause_schedule.until
        OR s.pause_reason IS DISTINCT FROM coalesce(pause_schedule.reason, s.pause_reason));
    GET DIAGNOSTICS wrote = ROW_COUNT;
    PERFORM rota.unsay(was);
    RETURN wrote > 0;
END $$;

-- A paused schedule goes on from now; with catch_up, the times since the pause are treated as missed and the policy
-- decides. Returns whether it wrote: false if it was not paused.
-- Called by: operations/schedules/schedules.py, users.
CREATE FUNCTION rota.resume_schedule(name text, catch_up boolean DEFAULT false, tenant text DEFAULT '',
    reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found rota.schedules := rota.find_schedule(resume_schedule.name, resume_schedule.tenant);
    past  integer;
    was   text[];
BEGIN
    IF found.paused_at IS NULL THEN
        RETURN false;
    END IF;
    was := rota.say_why(resume_schedule.actor, resume_schedule.reason);
    SELECT jsonb_array_length(s.segments) INTO past FROM rota.schedule_state s WHERE s.schedule_id = found.id;
    UPDATE rota.schedules s SET paused_at = NULL, paused_by = NULL, pause_reason = NULL, paused_until = NULL
    WHERE s.id = found.id;
    IF resume_schedule.catch_up THEN
        -- The trigger has noted the stretch of the pause as skipped: it is owed after all, as what was due before.
        UPDATE rota.schedule_state s SET segments = s.segments - -1
        WHERE s.schedule_id = found.id AND jsonb_array_length(s.segments) > past;
        UPDATE rota.schedule_state s SET segments = s.segments - -1
        WHERE s.schedule_id = found.id AND s.segments -> -1 @> '{"decision": "missed", "reason": "paused"}';
    END IF;
    PERFORM rota.unsay(was);
    RETURN true;
END $$;

-- Runs a schedule now, whatever its state; the cursor stays where it is. The run belongs to its schedule: lists,
-- status, requirements, overlap and limits count it. It takes no nominal time. RO002: the job would not take the
-- payload.
-- Called by: sql/schedules/trigger.sql, users.
CREATE FUNCTION rota.trigger_schedule(
    name text, payload jsonb DEFAULT NULL, tenant text DEFAULT '', reason text DEFAULT NULL, actor text DEFAULT NULL,
    metadata jsonb DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found rota.schedules := rota.find_schedule(trigger_schedule.name, trigger_schedule.tenant);
    who   text := rota.who(trigger_schedule.actor);
    its   rota.jobs := (SELECT j FROM rota.jobs j WHERE j.name = found.job);
    -- JSON's null is no payload either.
    given jsonb := coalesce(nullif(trigger_schedule.payload, 'null'), found.payload, its.default_payload, '{}');
    -- What is stored was checked when it was written.
    wrong text := CASE WHEN given IS DISTINCT FROM found.payload
        THEN rota.new_payload_problem(its, nullif(trigger_schedule.payload, 'null')) END;
    made  bigint;
BEGIN
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'schedule "%": the payload does not fit job "%": %', found.name, found.job, wrong
            USING ERRCODE = 'RO018', CONSTRAINT = 'payload_mismatch', COLUMN = 'payload',
                DETAIL = jsonb_build_object('schedule', found.name, 'job', found.job),
                HINT = 'rota.jobs.payload_schema describes its arguments.';
    END IF;
    SELECT r.run_id INTO made FROM rota.enqueue_run(
        job => found.job, payload => given, queue => found.queue, priority => found.priority::integer,
            tenant => found.tenant, max_attempts => found.max_attempts::integer,
        timeout_seconds => found.timeout_seconds::double precision, tags => found.run_tags,
        metadata => coalesce(trigger_schedule.metadata || found.run_metadata, trigger_schedule.metadata,
        found.run_metadata), triggered_by => jsonb_build_object('type', 'manual', 'actor', who, 'schedule',
        found.name)) r;
    UPDATE rota.open_runs o SET schedule = found.name, schedule_id = found.id WHERE o.id = made;
    PERFORM rota.limit_run(made);
    PERFORM rota.write_audit(who, 'schedule.triggered', 'schedule', found.name, NULL,
        jsonb_build_object('run_id', made), trigger_schedule.reason, found.tenant);
    RETURN jsonb_build_object('success', true, 'run_id', made, 'job', found.job, 'job_name', found.job, 'schedule',
        found.name);
END $$;

-- Runs for nominal times of the past, which Python has listed. The decisions taken about them stay as they are: a
-- backfill has rows of its own. Its runs are not the schedule's (no overlap is counted, no last success is moved),
-- but they are under its limits.
-- Called by: sql/schedules/backfill.sql.
CREATE FUNCTION rota.backfill_schedule(
    name text, times timestamptz[], since timestamptz[], starts timestamptz[], from_at timestamptz,
    until_at timestamptz, priority integer DEFAULT NULL, reason text DEFAULT NULL, tenant text DEFAULT '',
    actor text DEFAULT NULL, backfill bigint DEFAULT NULL, total integer DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found rota.schedules := rota.find_schedule(backfill_schedule.name, backfill_schedule.tenant);
    who   text := rota.who(backfill_schedule.actor);
    its   rota.jobs := (SELECT j FROM rota.jobs j WHERE j.name = found.job);
    made  bigint := backfill_schedule.backfill;
    runs  bigint[];
BEGIN
    IF made IS NULL THEN
        INSERT INTO rota.backfills (schedule_id, from_at, until_at, created_by, reason)
        VALUES (found.id, backfill_schedule.from_at, backfill_schedule.until_at, who, backfill_schedule.reason)
        RETURNING id INTO made;
        PERFORM rota.write_audit(who, 'schedule.backfilled', 'schedule', found.name, NULL,
            jsonb_build_object('backfill', made, 'from', backfill_schedule.from_at, 'until', backfill_schedule.until_at,
                               'runs', coalesce(total, cardinality(times), 0)), backfill_schedule.reason, found.tenant);
    END IF;
    WITH wanted AS MATERIALIZED (
        SELECT t.nominal_at, t.since, t.start_at, r.run_id
        FROM unnest(times, backfill_schedule.since, starts) WITH ORDINALITY AS t (nominal_at, since, start_at, n)
        CROSS JOIN LATERAL rota.enqueue_run(
            job => found.job,
            payload => coalesce(found.payload, its.default_payload, '{}'), queue => found.queue,
            priority => coalesce(backfill_schedule.priority, found.priority::integer),
            run_at => rota.after(t.start_at, coalesce(its.delay_seconds, 0)), tenant => found.tenant,
            max_attempts => found.max_attempts::integer,
            timeout_seconds => found.timeout_seconds::double precision, tags => found.run_tags,
            metadata => found.run_metadata, triggered_by => jsonb_build_object('type', 'backfill', 'actor', who,
                'schedule', found.name, 'backfill', made, 'since', t.since)) r
        ORDER BY t.n
    ), noted AS (
        INSERT INTO rota.backfill_times (backfill_id, schedule_id, nominal_at, run_id)
        SELECT made, found.id, w.nominal_at, w.run_id FROM wanted w
    )
    SELECT array_agg(w.run_id ORDER BY w.nominal_at) INTO runs FROM wanted w;
    UPDATE rota.open_runs o SET schedule = found.name, scheduled_for = b.nominal_at
    FROM rota.backfill_times b WHERE b.backfill_id = made AND b.run_id = ANY (runs) AND o.id = b.run_id;
    PERFORM rota.limit_run(r) FROM unnest(runs) r;
    RETURN jsonb_build_object('backfill_id', made, 'run_ids', to_jsonb(coalesce(runs, '{}')));
END $$;

-- Deletes a schedule, and on request cancels its runs that wait; returns how many. What ran stays in history and
-- ledger.
-- Called by: delete_job, operations/cleanup.py, operations/schedules/schedules.py, users.
CREATE FUNCTION rota.delete_schedule(name text, cancel_waiting boolean DEFAULT false, tenant text DEFAULT '',
    reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS integer LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found     rota.schedules := rota.find_schedule(delete_schedule.name, delete_schedule.tenant);
    cancelled integer := 0;
    was       text[];
BEGIN
    was := rota.say_why(delete_schedule.actor, delete_schedule.reason);
    DELETE FROM rota.schedules s WHERE s.id = found.id;
    IF cancel_waiting THEN
        SELECT count(*) INTO cancelled FROM rota.end_waiting_runs(
            ARRAY(SELECT o.id FROM rota.open_runs o WHERE o.schedule_id = found.id AND o.state <> 'running'),
            'cancelled', 'its schedule was deleted');
    END IF;
    PERFORM rota.unsay(was);
    RETURN cancelled;
END $$;

-- Counts are kept, not counted: the ends of a schedule's runs by day. The ledger may be cut, these stay.
CREATE TABLE rota.schedule_days (
    schedule_id bigint NOT NULL,
    day         date NOT NULL,              -- in UTC
    succeeded   bigint NOT NULL,
    failed      bigint NOT NULL,
    cancelled   bigint NOT NULL,
    timed       bigint NOT NULL,            -- those that have a duration
    duration_ms double precision NOT NULL,  -- their sum
    longest_ms  real NOT NULL,
    PRIMARY KEY (schedule_id, day)
) WITH (fillfactor = 70);

-- What lists show of each schedule.
CREATE VIEW rota.schedule_status AS
SELECT s.name, s.tenant, s.job,
       CASE WHEN t.parked_at IS NOT NULL THEN 'parked'
            WHEN t.finished_at IS NOT NULL THEN 'finished'
            WHEN NOT s.is_enabled THEN 'disabled'
            WHEN s.paused_at IS NOT NULL AND coalesce(s.paused_until, 'infinity') > rota.now() THEN 'paused'
            WHEN EXISTS (SELECT FROM rota.jobs j WHERE j.name = s.job AND j.deleted_from_code_at IS NOT NULL)
                THEN 'orphaned'
            WHEN s.init IS NULL AND t.next_run_at IS NULL THEN 'pending'
            ELSE 'active' END AS state,
       s.is_enabled AS enabled, s.paused_until, s.pause_reason,
       t.last_run_at, t.last_run_success, t.last_success_at, t.last_enqueued_at,
       -- One that counts from the end of its run has no next time while that runs.
       CASE WHEN t.due_at IS NOT NULL THEN nullif(greatest(t.next_run_at, t.stopped_until), 'infinity') END
           AS next_run_at,
       coalesce(d.runs, 0) AS total_runs,
       round(100.0 * d.succeeded / nullif(d.succeeded + d.failed, 0), 1)::double precision AS success_rate_percent,
       d.duration_ms / nullif(d.timed, 0) AS avg_duration_ms,
       d.longest_ms AS max_duration_ms, d.longest_ms_7d AS max_duration_ms_7d,
       t.error, s.is_system, s.id AS schedule_id
FROM rota.schedules s JOIN rota.schedule_state t ON t.schedule_id = s.id
LEFT JOIN LATERAL (
    SELECT sum(c.succeeded + c.failed + c.cancelled)::bigint AS runs, sum(c.succeeded) AS succeeded,
           sum(c.failed) AS failed, sum(c.timed) AS timed, sum(c.duration_ms) AS duration_ms,
           max(c.longest_ms) FILTER (WHERE c.timed > 0) AS longest_ms,
           max(c.longest_ms) FILTER (WHERE c.timed > 0 AND c.day > (rota.now() AT TIME ZONE 'UTC')::date - 7)
           AS longest_ms_7d
    FROM rota.schedule_days c WHERE c.schedule_id = s.id
) d ON true;
COMMENT ON VIEW rota.schedule_status
    IS 'The status of each schedule: its last runs, its next time, the durations of its runs.';
