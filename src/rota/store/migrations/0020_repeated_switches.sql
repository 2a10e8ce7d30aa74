-- Enabling, disabling, pausing and resuming what is so already writes nothing and says so. These answered nothing
-- before, so they are made anew; releases that read no answer go on as they are.
DROP FUNCTION rota.set_job_enabled(text, boolean, text, text);
DROP FUNCTION rota.pause_queue(text, text, text, timestamptz);
DROP FUNCTION rota.resume_queue(text, text, text);
DROP FUNCTION rota.enable_schedule(text, text, text);
DROP FUNCTION rota.disable_schedule(text, text, text);
DROP FUNCTION rota.set_schedule_enabled(text, boolean, text, text);
DROP FUNCTION rota.pause_schedule(text, text, timestamptz, text, text);
DROP FUNCTION rota.resume_schedule(text, boolean, text, text);

-- Enables or disables a job: its runs wait and its schedules skip their times while it is disabled. The trigger
-- writes the audit. Answers whether it wrote: false if it was so already.
-- Called by: sql/jobs/set_enabled.sql, users.
CREATE FUNCTION rota.set_job_enabled(job text, enabled boolean, reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    is_new boolean;
BEGIN
    PERFORM rota.act_as(set_job_enabled.actor);
    PERFORM set_config('rota' || '.reason', coalesce(set_job_enabled.reason, ''), true);
    UPDATE rota.jobs j SET is_enabled = enabled WHERE j.name = set_job_enabled.job AND j.is_enabled <> enabled;
    is_new := FOUND;
    IF NOT is_new AND NOT EXISTS (SELECT FROM rota.jobs j WHERE j.name = set_job_enabled.job) THEN
        PERFORM rota.unknown_job(set_job_enabled.job);
    END IF;
    PERFORM set_config('rota' || '.reason', '', true);
    RETURN is_new;
END $$;

-- No run of the queue is claimed until it is resumed, or until that time. What runs, runs on. Of a paused queue,
-- another end or another reason replaces what was said. Answers whether it wrote: false if it was paused so already.
-- Called by: sql/queues/pause.sql, users.
-- Locks: rows.
CREATE FUNCTION rota.pause_queue(queue text, reason text DEFAULT NULL, actor text DEFAULT NULL,
    until timestamptz DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    who   text := coalesce(pause_queue.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    clock timestamptz := rota.now();
    was   rota.queues;
BEGIN
    IF pause_queue.until <= clock THEN
        RAISE EXCEPTION 'queue "%": a pause ends in the future, not at %', pause_queue.queue, pause_queue.until
            USING ERRCODE = 'RO002';
    END IF;
    SELECT * INTO was FROM rota.queues q WHERE q.name = pause_queue.queue FOR UPDATE;
    INSERT INTO rota.queues AS q (name, is_paused, paused_at, paused_by, pause_reason, paused_until)
    VALUES (pause_queue.queue, true, clock, who, pause_queue.reason, pause_queue.until)
    ON CONFLICT (name) DO UPDATE SET is_paused = true, paused_by = excluded.paused_by,
        paused_until = excluded.paused_until,
        paused_at = CASE WHEN rota.queue_is_paused(q) THEN q.paused_at ELSE excluded.paused_at END,
        pause_reason = CASE WHEN rota.queue_is_paused(q) THEN coalesce(excluded.pause_reason, q.pause_reason)
            ELSE excluded.pause_reason END
    WHERE NOT rota.queue_is_paused(q) OR q.paused_until IS DISTINCT FROM excluded.paused_until
       OR q.pause_reason IS DISTINCT FROM coalesce(excluded.pause_reason, q.pause_reason);
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM rota.write_audit(who, 'queue.paused', 'queue', pause_queue.queue,
        CASE WHEN rota.queue_is_paused(was) THEN jsonb_build_object('is_paused', true, 'paused_until',
        was.paused_until) END, jsonb_strip_nulls(jsonb_build_object('is_paused', true, 'paused_until',
            pause_queue.until)), pause_queue.reason);
    PERFORM rota.wake_later(pause_queue.until - clock) WHERE pause_queue.until IS NOT NULL;
    RETURN true;
END $$;

-- The queue goes on, and whoever waits for work is called. Answers whether it wrote: false if it was not paused.
-- Called by: sql/queues/resume.sql, users.
CREATE FUNCTION rota.resume_queue(queue text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    UPDATE rota.queues q SET is_paused = false, paused_at = NULL, paused_by = NULL, pause_reason = NULL,
        paused_until = NULL
    WHERE q.name = resume_queue.queue AND rota.queue_is_paused(q);
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM rota.write_audit(resume_queue.actor, 'queue.resumed', 'queue', resume_queue.queue, '{"is_paused": true}',
        '{"is_paused": false}', resume_queue.reason);
    PERFORM rota.wake(ARRAY[resume_queue.queue]);
    RETURN true;
END $$;

-- What enable_schedule and disable_schedule do. The trigger of edits writes the audit. Answers whether it wrote: false
-- if it was so already.
-- Called by: disable_schedule, enable_schedule, sql/schedules/set_enabled.sql, users.
CREATE FUNCTION rota.set_schedule_enabled(name text, enabled boolean, tenant text DEFAULT '', actor text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found rota.schedules := rota.find_schedule(set_schedule_enabled.name, set_schedule_enabled.tenant);
    wrote bigint;
BEGIN
    PERFORM rota.act_as(set_schedule_enabled.actor);
    UPDATE rota.schedules s SET is_enabled = enabled WHERE s.id = found.id AND s.is_enabled <> enabled;
    GET DIAGNOSTICS wrote = ROW_COUNT;
    RETURN wrote > 0;
END $$;

-- It goes on with its next time. False: it was enabled already.
-- Called by: users.
CREATE FUNCTION rota.enable_schedule(name text, tenant text DEFAULT '', actor text DEFAULT NULL) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
    SELECT rota.set_schedule_enabled(enable_schedule.name, true, enable_schedule.tenant, enable_schedule.actor)
$$;

-- Its times are skipped and recorded until it is enabled. False: it was disabled already.
-- Called by: users.
CREATE FUNCTION rota.disable_schedule(name text, tenant text DEFAULT '', actor text DEFAULT NULL) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
    SELECT rota.set_schedule_enabled(disable_schedule.name, false, disable_schedule.tenant, disable_schedule.actor)
$$;

-- Its times are skipped and recorded until it is resumed, or until that time. Of a paused schedule, another end or
-- another reason replaces what was said. Answers whether it wrote: false if it was paused so already.
-- Called by: sql/schedules/pause.sql, users.
CREATE FUNCTION rota.pause_schedule(name text, reason text DEFAULT NULL, until timestamptz DEFAULT NULL,
    tenant text DEFAULT '', actor text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found rota.schedules := rota.find_schedule(pause_schedule.name, pause_schedule.tenant);
    wrote bigint;
BEGIN
    IF pause_schedule.until <= rota.now() THEN
        PERFORM rota.bad_schedule(found.name, 'a pause ends in the future');
    END IF;
    PERFORM rota.act_as(pause_schedule.actor);
    UPDATE rota.schedules s
    SET paused_at = coalesce(s.paused_at, rota.now()), paused_until = pause_schedule.until,
        pause_reason = coalesce(pause_schedule.reason, CASE WHEN s.paused_until <= rota.now() THEN NULL
            ELSE s.pause_reason END),
        paused_by = coalesce(pause_schedule.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user)
    WHERE s.id = found.id AND (s.paused_at IS NULL OR s.paused_until IS DISTINCT FROM pause_schedule.until
        OR s.pause_reason IS DISTINCT FROM coalesce(pause_schedule.reason, s.pause_reason));
    GET DIAGNOSTICS wrote = ROW_COUNT;
    RETURN wrote > 0;
END $$;

-- A paused schedule goes on from now; with catch_up, the times since the pause are treated as missed and the policy
-- decides. Answers whether it wrote: false if it was not paused.
-- Called by: sql/schedules/resume.sql, users.
CREATE FUNCTION rota.resume_schedule(name text, catch_up boolean DEFAULT false, tenant text DEFAULT '',
    actor text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found rota.schedules := rota.find_schedule(resume_schedule.name, resume_schedule.tenant);
BEGIN
    IF found.paused_at IS NULL THEN
        RETURN false;
    END IF;
    PERFORM rota.act_as(resume_schedule.actor);
    UPDATE rota.schedules s SET paused_at = NULL, paused_by = NULL, pause_reason = NULL, paused_until = NULL,
        failures_in_a_row = 0
    WHERE s.id = found.id;
    IF resume_schedule.catch_up THEN
        -- The trigger has noted the stretch of the pause as skipped; it is owed after all.
        UPDATE rota.schedules s SET segments = s.segments - -1
        WHERE s.id = found.id AND jsonb_array_length(s.segments) > jsonb_array_length(found.segments);
    END IF;
    RETURN true;
END $$;

-- Holds a tenant's runs until it is resumed, or until that time. Of a paused tenant, another end or another reason
-- replaces what was said. Answers how many runs it held at once; workers hold the rest, and what comes. NULL: it was
-- paused so already, and nothing was written.
-- Called by: sql/tenants/pause.sql, users.
CREATE OR REPLACE FUNCTION rota.pause_tenant(name text, reason text DEFAULT NULL, until timestamptz DEFAULT NULL,
    actor text DEFAULT NULL)
RETURNS integer LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    who   text := coalesce(pause_tenant.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    clock timestamptz := rota.now();
    was   text;
    is_new boolean;
BEGIN
    PERFORM rota.check_tenant(pause_tenant.name);
    IF pause_tenant.until <= clock THEN
        RAISE EXCEPTION 'tenant "%": a pause ends in the future, not at %', pause_tenant.name, pause_tenant.until
            USING ERRCODE = 'RO002';
    END IF;
    was := rota.say_why(who, pause_tenant.reason);
    INSERT INTO rota.tenants AS t (name, is_paused, paused_at, paused_by, pause_reason, paused_until)
    VALUES (pause_tenant.name, true, clock, who, pause_tenant.reason, pause_tenant.until)
    ON CONFLICT ON CONSTRAINT tenants_pkey DO UPDATE SET is_paused = true, paused_by = excluded.paused_by,
        paused_until = excluded.paused_until,
        paused_at = CASE WHEN rota.tenant_is_paused(t) THEN t.paused_at ELSE excluded.paused_at END,
        pause_reason = CASE WHEN rota.tenant_is_paused(t) THEN coalesce(excluded.pause_reason, t.pause_reason)
            ELSE excluded.pause_reason END
    WHERE NOT rota.tenant_is_paused(t) OR t.paused_until IS DISTINCT FROM excluded.paused_until
       OR t.pause_reason IS DISTINCT FROM coalesce(excluded.pause_reason, t.pause_reason);
    is_new := FOUND;
    PERFORM set_config('rota' || '.reason', was, true);
    RETURN CASE WHEN is_new THEN rota.hold_runs_of(pause_tenant.name, 1000) END;
END $$;

-- Frees a tenant's runs; answers how many it freed at once. Workers free the rest. NULL: it was not paused, and
-- nothing was written.
-- Called by: sql/tenants/resume.sql, users.
CREATE OR REPLACE FUNCTION rota.resume_tenant(name text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    was text;
    is_new boolean;
BEGIN
    was := rota.say_why(resume_tenant.actor, resume_tenant.reason);
    UPDATE rota.tenants t SET is_paused = false, paused_at = NULL, paused_by = NULL, pause_reason = NULL,
        paused_until = NULL
    WHERE t.name = resume_tenant.name AND rota.tenant_is_paused(t);
    is_new := FOUND;
    PERFORM set_config('rota' || '.reason', was, true);
    RETURN CASE WHEN is_new THEN rota.free_runs_of(resume_tenant.name, 1000) END;
END $$;
