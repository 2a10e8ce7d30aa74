-- run_as as a wall. What a function leaves behind runs when the transaction ends, as the worker: cursors WITH HOLD, and before PostgreSQL 18
-- deferred triggers. So the caller that belongs to the role closes and settles what is there, as the role, and the worker repeats that until nothing
-- happens any more. And the role owns its caller: it may take SECURITY DEFINER away, or give it a role and a search path of its own. So the caller
-- proves that it is a wall before it does anything else, in words that no search path changes.

-- Nothing stays in it. The command number (cmin) of an insert that is taken back tells whether anything was written since the last one.
CREATE UNLOGGED TABLE rota.command_marks ();

CREATE FUNCTION rota.make_run_as(role_name text) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    place    regnamespace := (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'rota.jobs'::regclass);
    caller   text := 'run_as_' || role_name;
    is_given boolean := NOT has_schema_privilege(role_name, place::oid, 'CREATE');
BEGIN
    EXECUTE format($make$
        CREATE FUNCTION rota.%1$I(function regprocedure, payload jsonb) RETURNS jsonb LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $caller$
        DECLARE
            call    pg_catalog.text;
            answer  pg_catalog.jsonb;
            is_wall pg_catalog.bool := false;
        BEGIN
            BEGIN
                PERFORM pg_catalog.set_config('role', 'none', true);
            EXCEPTION WHEN insufficient_privilege THEN
                is_wall := true;
            END;
            IF NOT is_wall OR current_user OPERATOR(pg_catalog.<>) %2$L::pg_catalog.name THEN
                RAISE EXCEPTION 'the caller of role "%%" is no wall any more', %2$L
                    USING ERRCODE = 'RO002', HINT = 'Drop it, ask who changed it, and call allow_run_as again.';
            END IF;
            IF function IS NOT NULL THEN
                SELECT pg_catalog.format('SELECT %%I.%%I(%%s)', n.nspname, p.proname, CASE WHEN p.pronargs OPERATOR(pg_catalog.>) 0 THEN '$1' ELSE '' END)
                INTO call FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace
                WHERE p.oid OPERATOR(pg_catalog.=) function::pg_catalog.oid;
                EXECUTE call INTO answer USING payload;
            END IF;
            SET CONSTRAINTS ALL IMMEDIATE;
            EXECUTE 'CLOSE ALL';
            EXECUTE 'DEALLOCATE ALL';
            RETURN answer;
        END $caller$ $make$, caller, role_name);
    EXECUTE format('REVOKE ALL ON FUNCTION rota.%I(regprocedure, jsonb) FROM PUBLIC', caller);
    -- The owner of a function needs CREATE on its schema, for as long as it becomes the owner.
    IF is_given THEN
        EXECUTE format('GRANT CREATE ON SCHEMA %s TO %I', place, role_name);
    END IF;
    EXECUTE format('ALTER FUNCTION rota.%I(regprocedure, jsonb) OWNER TO %I', caller, role_name);
    IF is_given THEN
        EXECUTE format('REVOKE CREATE ON SCHEMA %s FROM %I', place, role_name);
    END IF;
END $$;

-- Lets workers that connect as worker_role run SQL jobs as role_name. SET ROLE would be no wall, because the function
-- says RESET ROLE and is the worker; inside a SECURITY DEFINER function that is refused.
CREATE OR REPLACE FUNCTION rota.allow_run_as(role_name text, worker_role text DEFAULT current_user) RETURNS void LANGUAGE plpgsql VOLATILE
SET jit = off AS $$
DECLARE
    caller text := 'run_as_' || role_name;
BEGIN
    IF to_regrole(quote_ident(role_name)) IS NULL THEN
        RAISE EXCEPTION 'there is no role "%"', role_name USING ERRCODE = 'RO002';
    ELSIF to_regrole(quote_ident(worker_role)) IS NULL THEN
        RAISE EXCEPTION 'there is no role "%"', worker_role USING ERRCODE = 'RO002';
    ELSIF octet_length(caller) > 63 THEN
        RAISE EXCEPTION 'the name of role "%" is too long: % bytes at most', role_name, 63 - length('run_as_') USING ERRCODE = 'RO002';
    END IF;
    IF rota.find_run_as(role_name) IS NULL THEN
        PERFORM rota.make_run_as(role_name);
    END IF;
    EXECUTE format('GRANT EXECUTE ON FUNCTION rota.%I(regprocedure, jsonb) TO %I', caller, worker_role);
    PERFORM rota.write_audit(NULL, 'run_as.allowed', 'role', role_name, NULL, jsonb_build_object('worker_role', worker_role));
EXCEPTION WHEN insufficient_privilege THEN
    RAISE EXCEPTION 'role "%" may not let jobs run as role "%": %', current_user, role_name, SQLERRM
        USING ERRCODE = 'RO002', HINT = 'Call this as a superuser, or as the owner of the schema who is a member of the role.';
END $$;

-- What a worker executes for this job, read afresh for every attempt: $1 is the payload. settle: what it says afterwards to the caller of run_as.
DROP FUNCTION rota.sql_job_call(text);
CREATE FUNCTION rota.sql_job_call(job text, OUT call text, OUT transaction_mode text, OUT is_answering boolean, OUT settle text)
LANGUAGE plpgsql STABLE SET jit = off AS $$
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
        settle := format('SELECT rota.%I(NULL, NULL)', 'run_as_' || known.run_as);
    END IF;
END $$;

-- Callers that exist are made anew, for the same workers.
DO $$
DECLARE
    old record;
BEGIN
    FOR old IN
        SELECT substr(p.proname, 8) AS role_name, p.oid::regprocedure AS function, ARRAY(
            SELECT a.grantee FROM aclexplode(p.proacl) a WHERE a.privilege_type = 'EXECUTE' AND a.grantee NOT IN (0, p.proowner)) AS workers
        FROM pg_proc p JOIN pg_class own ON own.oid = 'rota.jobs'::regclass AND own.relnamespace = p.pronamespace
        WHERE p.proname ~ '^run_as_' AND oidvectortypes(p.proargtypes) = 'regprocedure, jsonb'
    LOOP
        EXECUTE format('DROP FUNCTION %s', old.function);
        BEGIN
            PERFORM rota.make_run_as(old.role_name);
            EXECUTE (SELECT string_agg(format('GRANT EXECUTE ON FUNCTION rota.%I(regprocedure, jsonb) TO %s', 'run_as_' || old.role_name, w::regrole), ';')
                     FROM unnest(old.workers) w HAVING count(*) > 0);
        EXCEPTION WHEN insufficient_privilege OR null_value_not_allowed THEN
            RAISE WARNING 'jobs run as role "%" again when somebody who may act for it calls allow_run_as', old.role_name;
        END;
    END LOOP;
END $$;
