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
