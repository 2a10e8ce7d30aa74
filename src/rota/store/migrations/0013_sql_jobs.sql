-- SQL functions as jobs. A row of rota.jobs names a function; workers call it in one transaction with
-- the fenced end of the run, so that effect and completion commit together or not at all.

ALTER TABLE rota.jobs
    ADD COLUMN kind             text COLLATE "C" NOT NULL DEFAULT 'python' CHECK (kind IN ('python', 'sql', 'flow')),
    ADD COLUMN function_name    text,
    ADD COLUMN run_as           text,
    ADD COLUMN transaction_mode text COLLATE "C" NOT NULL DEFAULT 'whole' CHECK (transaction_mode IN ('whole', 'none')),
    ADD COLUMN is_system        boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT jobs_function CHECK ((kind = 'sql') = (function_name IS NOT NULL)),
    ADD CONSTRAINT jobs_sql_only CHECK (kind = 'sql' OR (run_as IS NULL AND transaction_mode = 'whole')),
    -- A function that runs as another role cannot commit.
    ADD CONSTRAINT jobs_run_as CHECK (run_as IS NULL OR transaction_mode = 'whole');
CREATE INDEX jobs_sql ON rota.jobs (name) WHERE kind = 'sql';

-- The function behind a job, looked up in the catalogue; the name itself never becomes SQL. full_name is qualified, so
-- that a worker with another search_path finds the same one. is_answering: it returns what it did.
CREATE FUNCTION rota.find_job_function(job text, function_name text, transaction_mode text,
    OUT id oid, OUT full_name text, OUT call text, OUT is_answering boolean)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_variable
DECLARE
    given  text := btrim(function_name);
    wanted "char" := CASE transaction_mode WHEN 'none' THEN 'p' ELSE 'f' END;
    kind   text := CASE transaction_mode WHEN 'none' THEN 'procedure' ELSE 'function' END;
    found  record;
BEGIN
    BEGIN
        id := CASE WHEN given ~ '\)$' THEN to_regprocedure(given)
                   ELSE coalesce(to_regprocedure(given || '(jsonb)'), to_regprocedure(given || '()')) END;
    EXCEPTION WHEN OTHERS THEN
        PERFORM rota.bad_job(job, format('"%s" is not the name of a function: %s', given, SQLERRM));
    END;
    IF id IS NULL THEN
        PERFORM rota.bad_job(job, format('there is no %s "%s" that takes nothing or one jsonb', kind, given),
            format('CREATE %s %s(payload jsonb) … first; name its schema.', upper(kind), given));
    END IF;
    SELECT n.nspname, p.*, format_type(p.prorettype, NULL) AS returns INTO found
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE p.oid = id;
    IF found.prokind <> wanted THEN
        PERFORM rota.bad_job(job, format('"%s" is not a %s', given, kind),
            'A function runs in one transaction with the end of the run; a procedure that commits by itself needs transaction_mode ''none''.');
    ELSIF found.pronargs > 1 OR (found.pronargs = 1 AND found.proargtypes[0] <> 'jsonb'::regtype) THEN
        PERFORM rota.bad_job(job, format('%s "%s" must take nothing or one jsonb', kind, given));
    ELSIF wanted = 'f' AND (found.prorettype <> 'jsonb'::regtype OR found.proretset) THEN
        PERFORM rota.bad_job(job, format('function "%s" returns %s%s, not jsonb', given, CASE WHEN found.proretset THEN 'a set of ' ELSE '' END, found.returns),
            'Return jsonb_build_object(''success'', true, ''message'', ''…'').');
    END IF;
    full_name := format('%I.%I', found.nspname, found.proname) || coalesce(substring(given FROM '\(.*\)$'), '');
    call := format('%s %I.%I(%s)', CASE wanted WHEN 'p' THEN 'CALL' ELSE 'SELECT' END, found.nspname, found.proname,
                   CASE found.pronargs WHEN 1 THEN '$1::jsonb' ELSE '' END);
    is_answering := wanted = 'f' OR coalesce('b' = ANY (found.proargmodes), false);
END $$;

-- The function that calls others as this role; NULL where nobody has made it.
CREATE FUNCTION rota.find_run_as(role_name text) RETURNS oid LANGUAGE sql STABLE AS $$
    SELECT to_regprocedure(format('rota.%I(regprocedure,jsonb)', 'run_as_' || role_name))::oid
$$;

CREATE FUNCTION rota.check_sql_job() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF NEW.function_name IS NULL THEN
        PERFORM rota.bad_job(NEW.name, 'a job of kind sql needs a function_name');
    END IF;
    SELECT f.full_name INTO NEW.function_name FROM rota.find_job_function(NEW.name, NEW.function_name, NEW.transaction_mode) f;
    IF NEW.run_as IS NOT NULL AND rota.find_run_as(NEW.run_as) IS NULL THEN
        PERFORM rota.bad_job(NEW.name, format('jobs may not run as role "%s"', NEW.run_as),
            format('Somebody who may act for that role calls allow_run_as(%L) in this schema.', NEW.run_as));
    END IF;
    NEW.executor := 'sql';
    RETURN NEW;
END $$;
CREATE TRIGGER jobs_check_sql BEFORE INSERT OR UPDATE OF kind, function_name, run_as, transaction_mode ON rota.jobs
FOR EACH ROW WHEN (NEW.kind = 'sql') EXECUTE FUNCTION rota.check_sql_job();

-- Workers know the SQL jobs of the database; a change is called out to them.
CREATE FUNCTION rota.call_sql_jobs() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF (TG_OP <> 'INSERT' AND OLD.kind = 'sql') OR (TG_OP <> 'DELETE' AND NEW.kind = 'sql') THEN
        PERFORM pg_notify('rota', 'jobs');
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_call AFTER INSERT OR DELETE OR UPDATE OF kind, function_name, run_as, transaction_mode, timeout_seconds, backoff ON rota.jobs
FOR EACH ROW EXECUTE FUNCTION rota.call_sql_jobs();

CREATE FUNCTION rota.keep_system() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE EXCEPTION '% "%" belongs to Rota and cannot be deleted', rtrim(TG_TABLE_NAME, 's'), OLD.name
        USING ERRCODE = 'RO005', HINT = 'Disable it instead.';
END $$;
CREATE TRIGGER jobs_guard_system BEFORE DELETE ON rota.jobs FOR EACH ROW WHEN (OLD.is_system) EXECUTE FUNCTION rota.keep_system();
CREATE TRIGGER schedules_guard_system BEFORE DELETE ON rota.schedules FOR EACH ROW WHEN (OLD.is_system) EXECUTE FUNCTION rota.keep_system();

-- What a worker executes for this job, read afresh for every attempt: $1 is the payload.
CREATE FUNCTION rota.sql_job_call(job text, OUT call text, OUT transaction_mode text, OUT is_answering boolean)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_variable
DECLARE
    known  rota.jobs;
    found  record;
    caller oid;
BEGIN
    SELECT j.* INTO known FROM rota.jobs j WHERE j.name = job AND j.kind = 'sql';
    IF known.name IS NULL THEN
        PERFORM rota.unknown_job(job);
    END IF;
    SELECT f.* INTO found FROM rota.find_job_function(job, known.function_name, known.transaction_mode) f;
    call := found.call;
    transaction_mode := known.transaction_mode;
    is_answering := found.is_answering;
    IF known.run_as IS NOT NULL THEN
        caller := rota.find_run_as(known.run_as);
        IF caller IS NULL OR NOT has_function_privilege(caller, 'EXECUTE') THEN
            PERFORM rota.bad_job(job, format('role "%s" may not run jobs as role "%s"', current_user, known.run_as),
                format('Somebody who may act for that role calls allow_run_as(%L, %L) in this schema.', known.run_as, current_user));
        END IF;
        call := format('SELECT rota.%I(%s::oid::regprocedure, $1::jsonb)', 'run_as_' || known.run_as, found.id);
    END IF;
END $$;

-- Lets workers that connect as worker_role run SQL jobs as role_name. SET ROLE would be no wall, because the function
-- says RESET ROLE and is the worker; inside a SECURITY DEFINER function that is refused. Deferred constraints fire inside
-- it too: at the commit their triggers would run as the worker.
CREATE FUNCTION rota.allow_run_as(role_name text, worker_role text DEFAULT current_user) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    place    regnamespace := (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'rota.jobs'::regclass);
    caller   text := 'run_as_' || role_name;
    is_given boolean;
BEGIN
    IF to_regrole(quote_ident(role_name)) IS NULL THEN
        RAISE EXCEPTION 'there is no role "%"', role_name USING ERRCODE = 'RO002';
    ELSIF to_regrole(quote_ident(worker_role)) IS NULL THEN
        RAISE EXCEPTION 'there is no role "%"', worker_role USING ERRCODE = 'RO002';
    ELSIF octet_length(caller) > 63 THEN
        RAISE EXCEPTION 'the name of role "%" is too long: % bytes at most', role_name, 63 - length('run_as_') USING ERRCODE = 'RO002';
    END IF;
    IF rota.find_run_as(role_name) IS NULL THEN
        EXECUTE format($make$
            CREATE FUNCTION rota.%I(function regprocedure, payload jsonb) RETURNS jsonb LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $caller$
            DECLARE
                call   text;
                answer jsonb;
            BEGIN
                SELECT pg_catalog.format('SELECT %%I.%%I(%%s)', n.nspname, p.proname, CASE WHEN p.pronargs OPERATOR(pg_catalog.>) 0 THEN '$1' ELSE '' END)
                INTO call FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace
                WHERE p.oid OPERATOR(pg_catalog.=) function::pg_catalog.oid;
                EXECUTE call INTO answer USING payload;
                SET CONSTRAINTS ALL IMMEDIATE;
                RETURN answer;
            END $caller$ $make$, caller);
        EXECUTE format('REVOKE ALL ON FUNCTION rota.%I(regprocedure, jsonb) FROM PUBLIC', caller);
        -- The owner of a function needs CREATE on its schema, for as long as it becomes the owner.
        is_given := NOT has_schema_privilege(role_name, place::oid, 'CREATE');
        IF is_given THEN
            EXECUTE format('GRANT CREATE ON SCHEMA %s TO %I', place, role_name);
        END IF;
        EXECUTE format('ALTER FUNCTION rota.%I(regprocedure, jsonb) OWNER TO %I', caller, role_name);
        IF is_given THEN
            EXECUTE format('REVOKE CREATE ON SCHEMA %s FROM %I', place, role_name);
        END IF;
    END IF;
    EXECUTE format('GRANT EXECUTE ON FUNCTION rota.%I(regprocedure, jsonb) TO %I', caller, worker_role);
    PERFORM rota.write_audit(NULL, 'run_as.allowed', 'role', role_name, NULL, jsonb_build_object('worker_role', worker_role));
EXCEPTION WHEN insufficient_privilege THEN
    RAISE EXCEPTION 'role "%" may not let jobs run as role "%": %', current_user, role_name, SQLERRM
        USING ERRCODE = 'RO002', HINT = 'Call this as a superuser, or as the owner of the schema who is a member of the role.';
END $$;

-- What SQL jobs answer is kept with the attempt: finish and requeue as before, with details.
DROP FUNCTION rota.finish_runs(bigint, bigint[], integer[], real[], jsonb[], text[], text[], text[], text[], text[], text[], text[]);
CREATE FUNCTION rota.finish_runs(
    for_worker bigint, ids bigint[], attempts integer[], durations_ms real[],
    results jsonb[] DEFAULT NULL, states text[] DEFAULT NULL, attempt_states text[] DEFAULT NULL,
    end_reasons text[] DEFAULT NULL, messages text[] DEFAULT NULL, error_types text[] DEFAULT NULL,
    errors text[] DEFAULT NULL, tracebacks text[] DEFAULT NULL, details jsonb[] DEFAULT NULL
) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET lock_timeout = '100ms' AS $$
#variable_conflict use_column
DECLARE
    clock timestamptz := rota.now();
BEGIN
    RETURN QUERY
    WITH ended AS (
        DELETE FROM rota.open_runs o
        USING unnest(ids, attempts, durations_ms, results, states, attempt_states, end_reasons, messages, error_types, errors, tracebacks, details)
              AS f (id, attempt, duration_ms, result, state, attempt_state, end_reason, message, error_type, error, traceback, detail)
        WHERE o.id = ANY (ARRAY[f.id]) AND o.attempt = f.attempt AND o.worker = for_worker
        RETURNING o.id, o.created_at, o.run_at, greatest(o.started_at, clock - f.duration_ms * interval '1 millisecond') AS started_at,
            o.attempt, f.duration_ms,
            o.attempts_used + (coalesce(f.attempt_state, 'succeeded') <> 'cancelled')::integer AS attempts_used,
            o.max_attempts, o.priority, o.is_suspect, coalesce(f.state, 'succeeded') AS state,
            coalesce(f.attempt_state, 'succeeded') AS attempt_state,
            o.queue, o.job, o.tenant, o.payload, f.result, o.expires_at, o.timeout_seconds, o.key, o.key_seconds, o.backoff, o.tags,
            o.metadata, o.triggered_by, o.schedule, o.scheduled_for, o.schedule_id, o.progress, coalesce(f.message, o.message) AS message,
            f.error_type, f.error, f.traceback, f.end_reason, f.detail
    ), moved AS (
        INSERT INTO rota.ended_runs (id, created_at, run_at, started_at, finished_at, worker, attempt, duration_ms, attempts_used,
            max_attempts, priority, is_redelivery, state, attempt_state, queue, job, tenant, payload, result, expires_at,
            timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id, progress, message,
            error_type, error, traceback, end_reason, details)
        SELECT id, created_at, run_at, started_at, clock, for_worker, attempt, duration_ms, attempts_used,
            max_attempts, priority, is_suspect, state, attempt_state, queue, job, tenant, payload, result, expires_at,
            timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id, progress, message,
            error_type, error, traceback, end_reason, detail
        FROM ended ORDER BY schedule_id -- the order in which the ends of scheduled runs lock their schedules
    ), freed AS (
        DELETE FROM rota.keys k
        USING (SELECT tenant, job, key, id FROM ended WHERE key IS NOT NULL AND key_seconds IS NULL ORDER BY tenant, job, key COLLATE "C") e
        WHERE k.tenant = e.tenant AND k.job = e.job AND k.key = e.key AND k.run_id = e.id
    ), kept AS (
        UPDATE rota.keys k SET expires_at = rota.after(clock, e.key_seconds)
        FROM (SELECT tenant, job, key, id, key_seconds FROM ended WHERE key_seconds IS NOT NULL ORDER BY tenant, job, key COLLATE "C") e
        WHERE k.tenant = e.tenant AND k.job = e.job AND k.key = e.key AND k.run_id = e.id
    )
    SELECT id FROM ended;
END $$;

DROP FUNCTION rota.requeue_runs(bigint, bigint[], integer[], real[], text[], double precision[], boolean[], text[], text[], text[], text[]);
CREATE FUNCTION rota.requeue_runs(
    for_worker bigint, ids bigint[], attempts integer[], durations_ms real[],
    attempt_states text[], delays double precision[], spent boolean[],
    messages text[] DEFAULT NULL, error_types text[] DEFAULT NULL, errors text[] DEFAULT NULL, tracebacks text[] DEFAULT NULL,
    details jsonb[] DEFAULT NULL
) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET lock_timeout = '100ms' AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    done    bigint[];
    touched text[];
    soonest timestamptz;
BEGIN
    WITH input AS MATERIALIZED (
        SELECT f.* FROM unnest(ids, attempts, durations_ms, attempt_states, delays, spent, messages, error_types, errors, tracebacks, details)
            AS f (id, attempt, duration_ms, state, delay, is_spent, message, error_type, error, traceback, detail)
        WHERE NOT EXISTS (SELECT FROM rota.cancel_requests c WHERE c.run_id = f.id AND c.attempt = f.attempt)
    ), was AS MATERIALIZED (
        SELECT f.*, o.started_at, o.is_suspect, o.job, o.tenant FROM input f JOIN rota.open_runs o
            ON o.id = ANY (ARRAY[f.id]) AND o.attempt = f.attempt AND o.worker = for_worker
        FOR UPDATE OF o
    ), again AS (
        UPDATE rota.open_runs o
        SET state = CASE WHEN w.delay > 0 THEN 'scheduled' ELSE 'queued' END,
            run_at = CASE WHEN w.delay > 0 THEN clock + make_interval(secs => w.delay) ELSE o.run_at END,
            seq = CASE WHEN w.delay IS NULL THEN o.seq ELSE nextval('rota.run_ids') END,
            enqueued_at = clock_timestamp(), worker = NULL, started_at = NULL, claim_batch = NULL, is_suspect = false,
            attempts_used = o.attempts_used + w.is_spent::integer, last_error = coalesce(w.error, o.last_error),
            message = coalesce(w.message, o.message), progress = NULL
        FROM was w WHERE o.id = ANY (ARRAY[w.id])
        RETURNING o.id, o.queue, o.state, o.run_at
    ), recorded AS (
        INSERT INTO rota.past_attempts (run_id, attempt, state, worker, started_at, finished_at, duration_ms, is_redelivery,
            is_spent, job, tenant, message, error_type, error, traceback, details)
        SELECT w.id, w.attempt, w.state, for_worker, greatest(w.started_at, clock - w.duration_ms * interval '1 millisecond'), clock,
            w.duration_ms, w.is_suspect, w.is_spent, w.job, w.tenant, w.message, w.error_type, w.error, w.traceback, w.detail
        FROM was w JOIN again a ON a.id = w.id
    )
    SELECT array_agg(id), array_agg(DISTINCT queue) FILTER (WHERE state = 'queued'), min(run_at) FILTER (WHERE state = 'scheduled')
    INTO done, touched, soonest FROM again;
    PERFORM rota.wake(coalesce(touched, '{}'));
    PERFORM rota.wake_later(soonest - clock) WHERE soonest IS NOT NULL;
    RETURN QUERY SELECT unnest(done);

    RETURN QUERY
    SELECT e.* FROM (
        SELECT array_agg(f.id) AS ids, array_agg(f.attempt) AS attempts, array_agg(f.duration_ms) AS durations,
               array_agg('cancelled'::text) AS states, array_agg(f.state) AS attempt_states,
               array_agg('cancelled by ' || c.requested_by || coalesce(': ' || c.reason, '')) AS reasons,
               array_agg(f.message) AS messages, array_agg(f.error_type) AS error_types, array_agg(f.error) AS errors, array_agg(f.traceback) AS tracebacks,
               array_agg(f.detail) AS details
        FROM unnest(ids, attempts, durations_ms, attempt_states, messages, error_types, errors, tracebacks, details)
                AS f (id, attempt, duration_ms, state, message, error_type, error, traceback, detail)
        JOIN rota.cancel_requests c ON c.run_id = f.id AND c.attempt = f.attempt
    ) b, rota.finish_runs(for_worker, b.ids, b.attempts, b.durations, NULL, b.states,
                          (SELECT array_agg(CASE s WHEN 'snoozed' THEN 'cancelled' ELSE s END) FROM unnest(b.attempt_states) s),
                          b.reasons, b.messages, b.error_types, b.errors, b.tracebacks, b.details) AS e
    WHERE b.ids IS NOT NULL;
END $$;
