-- Jobs whose body is a function of the database. `find_job_function` says what can be one, `sql_job_call` what a
-- worker executes; `allow_run_as` lets jobs run as another role. The second half is one such job, `cleanup`, which
-- removes expired rows of users' tables by rules; `plan_cleanup` counts them.

-- The function that a job means by a name: one with these types of arguments, if the name lists them, else the one of
-- that name that can be called with a payload, or with nothing; else any of that name. Arguments with a default need
-- not be given. A name alone is one of public, as for tables. NULL: there is none.
-- Called by: find_job_function, sql/jobs/function.sql.
CREATE FUNCTION rota.job_function(given text) RETURNS oid LANGUAGE sql STABLE SET jit = off AS $$
    SELECT CASE WHEN given ~ '\)$' THEN coalesce(to_regprocedure(given),
        CASE WHEN cardinality(parse_ident(split_part(given, '(', 1))) = 1 THEN to_regprocedure('public.' || given) END
        )::oid ELSE (
        SELECT p.oid FROM parse_ident(given) AS i (parts)
        JOIN pg_proc p ON p.proname = i.parts[cardinality(i.parts)]
        JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE CASE cardinality(i.parts) WHEN 1 THEN n.nspname IN ('public', 'pg_catalog')
            ELSE n.nspname = i.parts[1] END
        ORDER BY p.pronargs - p.pronargdefaults <= 1 AND coalesce(p.proargtypes[0] = 'jsonb'::regtype, false) DESC,
            p.pronargs = p.pronargdefaults DESC, p.pronargs, p.oid LIMIT 1) END
$$;

-- What a function asks for that a job does not give, which is one jsonb or nothing; NULL: nothing.
-- Called by: find_job_function, job_functions.
CREATE FUNCTION rota.unmet_arguments(function oid) RETURNS text LANGUAGE sql STABLE SET jit = off AS $$
    SELECT string_agg(trim(format('%s %s', coalesce(p.proargnames[coalesce(a.place, i.n)], 'number ' || i.n),
        format_type(i.type, NULL))), ', ' ORDER BY i.n)
    FROM pg_proc p CROSS JOIN LATERAL unnest(p.proargtypes::oid[]) WITH ORDINALITY AS i (type, n)
    -- With arguments that only come out, names are counted over all.
    LEFT JOIN LATERAL (SELECT m.place, row_number() OVER (ORDER BY m.place) AS n
        FROM unnest(p.proargmodes) WITH ORDINALITY AS m (mode, place) WHERE m.mode IN ('i', 'b', 'v')) a ON a.n = i.n
    WHERE p.oid = function AND i.n <= p.pronargs - p.pronargdefaults AND (i.n > 1 OR i.type <> 'jsonb'::regtype)
$$;

-- Functions that the call of this one may mean as well, as Postgres does not choose between arguments and defaults;
-- NULL: none.
-- Called by: find_job_function, job_functions.
CREATE FUNCTION rota.also_called(function oid) RETURNS text LANGUAGE sql STABLE SET jit = off AS $$
    SELECT string_agg(o.oid::regprocedure::text, ' and ' ORDER BY o.oid)
    FROM pg_proc p
    CROSS JOIN LATERAL (SELECT CASE WHEN p.proargtypes[0] = 'jsonb'::regtype THEN 1 ELSE 0 END AS given) g
    JOIN pg_proc o ON o.proname = p.proname AND o.pronamespace = p.pronamespace AND o.oid <> p.oid
    WHERE p.oid = function AND g.given BETWEEN o.pronargs - o.pronargdefaults AND o.pronargs
      AND (g.given = 0 OR o.proargtypes[0] = 'jsonb'::regtype)
$$;

-- The function behind a job, looked up in the catalogue; the name itself never becomes SQL. full_name is qualified, so
-- that a worker with another search_path finds the same one. is_answering: it returns what it did.
-- Called by: check_sql_job, sql_job_call.
CREATE FUNCTION rota.find_job_function(job text, function_name text, transaction_mode text,
    OUT id oid, OUT full_name text, OUT call text, OUT is_answering boolean) LANGUAGE plpgsql STABLE
SET jit = off AS $$
#variable_conflict use_variable
DECLARE
    given  text := btrim(function_name);
    wanted "char" := CASE transaction_mode WHEN 'none' THEN 'p' ELSE 'f' END;
    kind   text := CASE transaction_mode WHEN 'none' THEN 'procedure' ELSE 'function' END;
    found  record;
    unmet  text;
    others text;
BEGIN
    BEGIN
        id := rota.job_function(given);
    EXCEPTION WHEN OTHERS THEN
        PERFORM rota.bad_job(job, format('"%s" is not the name of a function: %s', given, SQLERRM));
    END;
    IF id IS NULL THEN
        PERFORM rota.bad_job(job, format('there is no %s "%s" that takes no argument or one jsonb', kind, given),
            format('CREATE %s %s(payload jsonb) … first; name its schema.', upper(kind), given));
    END IF;
    SELECT n.nspname, p.*, format_type(p.prorettype, NULL) AS returns INTO found
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE p.oid = id;
    unmet := rota.unmet_arguments(id);
    others := rota.also_called(id);
    IF found.prokind <> wanted THEN
        PERFORM rota.bad_job(job, format('"%s" is not a %s', given, kind),
            'A function runs in one transaction with the end of the run; a procedure that commits by itself requires '
            'transaction_mode ''none''.');
    ELSIF unmet IS NOT NULL THEN
        PERFORM rota.bad_job(job, format('%s "%s" must take no argument or one jsonb, but requires: %s', kind, given,
            unmet),
            'A job passes its payload as one jsonb: give other arguments a default, or read them from the payload.');
    ELSIF others IS NOT NULL THEN
        PERFORM rota.bad_job(job, format('%s "%s" is ambiguous: the same call may mean %s', kind, given, others),
            'Rename or drop one of them.');
    ELSIF wanted = 'f' AND (found.prorettype <> 'jsonb'::regtype OR found.proretset) THEN
        PERFORM rota.bad_job(job, format('function "%s" returns %s%s, not jsonb', given,
            CASE WHEN found.proretset THEN 'a set of ' ELSE '' END, found.returns),
            'Return jsonb_build_object(''success'', true, ''message'', ''…'').');
    END IF;
    full_name := format('%I.%I', found.nspname, found.proname) || coalesce(substring(given FROM '\(.*\)$'), '');
    call := format('%s %I.%I(%s)', CASE wanted WHEN 'p' THEN 'CALL' ELSE 'SELECT' END, found.nspname, found.proname,
                   CASE WHEN found.proargtypes[0] = 'jsonb'::regtype THEN '$1::jsonb' ELSE '' END);
    is_answering := wanted = 'f' OR coalesce('b' = ANY (found.proargmodes), false);
END $$;

-- The functions and procedures that a job can call: they take nothing or one jsonb, a function returns jsonb, and the
-- call means only one of them. Without those of PostgreSQL, of extensions and of Rota, and without those that the
-- current role may not execute. `jobs` are those that call it.
-- Called by: sql/jobs/functions.sql, users.
CREATE FUNCTION rota.job_functions(text text DEFAULT NULL) RETURNS TABLE (
    function_name text, arguments text, kind text, transaction_mode text, owner text, description text, jobs text[]
) LANGUAGE sql STABLE SET jit = off AS $$
    SELECT f.name, pg_get_function_arguments(p.oid), CASE p.prokind WHEN 'p' THEN 'procedure' ELSE 'function' END,
        CASE p.prokind WHEN 'p' THEN 'none' ELSE 'whole' END, p.proowner::regrole::text,
        coalesce(obj_description(p.oid, 'pg_proc'), ''),
        ARRAY(SELECT j.name FROM rota.jobs j WHERE j.kind = 'sql' AND j.function_name IN (f.plain, f.name)
            ORDER BY j.name)
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    -- One of several with its name is told by its arguments.
    CROSS JOIN LATERAL (SELECT format('%I.%I', n.nspname, p.proname) AS plain, format('%I.%I', n.nspname, p.proname)
        || CASE WHEN EXISTS (SELECT FROM pg_proc o WHERE o.proname = p.proname AND o.pronamespace = p.pronamespace
            AND o.oid <> p.oid) THEN format('(%s)', oidvectortypes(p.proargtypes)) ELSE '' END AS name) f
    WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
      AND n.oid <> (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'rota.jobs'::regclass)
      AND (p.prokind = 'p' OR (p.prokind = 'f' AND p.prorettype = 'jsonb'::regtype AND NOT p.proretset))
      AND p.pronargs - p.pronargdefaults <= 1
      AND has_schema_privilege(n.oid, 'USAGE') AND has_function_privilege(p.oid, 'EXECUTE')
      AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid
          AND d.deptype = 'e')
      AND rota.unmet_arguments(p.oid) IS NULL AND rota.also_called(p.oid) IS NULL
      AND (job_functions.text IS NULL OR strpos(lower(f.name), lower(job_functions.text)) > 0)
    ORDER BY f.name COLLATE "C"
$$;

-- The function that calls others as this role; NULL where nobody has made it.
-- Called by: allow_run_as, caller_state, check_sql_job, make_run_as, may_run_as, sql_job_call.
CREATE FUNCTION rota.find_run_as(role_name text) RETURNS oid LANGUAGE sql STABLE AS $$
    SELECT to_regprocedure(format('rota.%I(regprocedure,jsonb,text)', 'run_as_' || role_name))::oid
$$;

-- Whether the current role may have a function called as this one: it may become it, or run jobs as it.
-- Called by: check_sql_job.
CREATE FUNCTION rota.may_run_as(role_name text) RETURNS boolean LANGUAGE sql STABLE SET jit = off AS $$
    SELECT coalesce(has_function_privilege(rota.find_run_as(role_name), 'EXECUTE')
        OR pg_has_role(to_regrole(quote_ident(role_name))::oid, 'MEMBER'), false)
$$;

-- Refuses a job of kind sql that names no function which exists and takes what jobs give, or a role that jobs may not
-- run as. Which function is called as another role is said by who could call it so: otherwise a worker that is allowed
-- would call it for somebody who is not.
-- Called by: before_job.
CREATE FUNCTION rota.check_sql_job(new rota.jobs, old rota.jobs) RETURNS rota.jobs
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF NEW.function_name IS NULL THEN
        PERFORM rota.bad_job(NEW.name, 'a job of kind sql requires a function_name');
    END IF;
    SELECT f.full_name INTO NEW.function_name
    FROM rota.find_job_function(NEW.name, NEW.function_name, NEW.transaction_mode) f;
    -- Whoever inserts a job without one has the default of the column.
    IF NEW.executor NOT IN ('sql', CASE WHEN OLD.name IS NULL THEN 'async' ELSE OLD.executor END) THEN
        PERFORM rota.bad_job(NEW.name, format('executor "%s" is for Python jobs; a SQL function has the executor sql',
            NEW.executor), 'Omit executor.');
    END IF;
    IF NEW.run_as IS NOT NULL AND rota.find_run_as(NEW.run_as) IS NULL THEN
        PERFORM rota.bad_job(NEW.name, format('jobs may not run as role "%s"', NEW.run_as),
            format('Call allow_run_as(%L) in this schema, as a superuser or as its owner and member of that role.',
                NEW.run_as));
    END IF;
    IF NEW.run_as IS NOT NULL AND (NEW.function_name, NEW.run_as) IS DISTINCT FROM (OLD.function_name, OLD.run_as)
        AND NOT rota.may_run_as(NEW.run_as) THEN
        PERFORM rota.bad_job(NEW.name, format('role "%s" may not choose what jobs call as role "%s"', current_user,
            NEW.run_as), format('Do it as a member of that role, or call allow_run_as(%L, %L) in this schema, as a '
            'superuser or as its owner and member of that role.', NEW.run_as, current_user));
    END IF;
    NEW.executor := 'sql';
    RETURN NEW;
END $$;

-- Calls out a change of a SQL job, as workers know the SQL jobs of the database.
-- Called by: after_job.
CREATE FUNCTION rota.call_sql_jobs(new rota.jobs, old rota.jobs) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF (OLD.name IS NOT NULL AND OLD.kind = 'sql') OR (NEW.name IS NOT NULL AND NEW.kind = 'sql') THEN
        PERFORM rota.call_workers('jobs');
    END IF;
END $$;

-- Nothing stays in it. The command number (cmin) of an insert that is taken back tells whether anything was written
-- since the last one.
CREATE UNLOGGED TABLE rota.command_marks ();

-- The body of the function through which jobs run as this role. It refuses to run when it no longer separates the
-- roles, and qualifies every name inside with its schema. function 0: nothing is called, only what is deferred runs.
-- The nonce comes back as proof that the body ran.
-- Called by: caller_state, make_run_as.
CREATE FUNCTION rota.caller_body(role_name text) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $body$
    SELECT format($caller$
        DECLARE
            call    pg_catalog.text;
            is_wall pg_catalog.bool := false;
        BEGIN
            BEGIN
                PERFORM pg_catalog.set_config('role', 'none', true);
            EXCEPTION WHEN insufficient_privilege THEN
                is_wall := true;
            END;
            IF NOT is_wall OR current_user OPERATOR(pg_catalog.<>) %1$L::pg_catalog.name THEN
                RAISE EXCEPTION 'the function that runs jobs as role "%%" was changed and is not safe', %1$L
                    USING ERRCODE = 'RO002', HINT = 'Find out who changed it, drop it, and call allow_run_as again.';
            END IF;
            IF function::pg_catalog.oid OPERATOR(pg_catalog.<>) 0::pg_catalog.oid THEN
                SELECT pg_catalog.format('SELECT %%I.%%I(%%s)', n.nspname, p.proname, CASE WHEN p.proargtypes[0]
                    OPERATOR(pg_catalog.=) 'pg_catalog.jsonb'::pg_catalog.regtype::pg_catalog.oid THEN '$1' ELSE '' END)
                INTO call FROM pg_catalog.pg_proc p
                JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace
                WHERE p.oid OPERATOR(pg_catalog.=) function::pg_catalog.oid;
                EXECUTE call INTO answer USING payload;
            END IF;
            SET CONSTRAINTS ALL IMMEDIATE;
            EXECUTE 'CLOSE ALL';
            EXECUTE 'DEALLOCATE ALL';
            proof := nonce;
        END $caller$, role_name)
$body$;

-- Makes the function through which jobs run as this role: SECURITY DEFINER and owned by the role, as whom it could not
-- run otherwise, with no rights for anybody until allow_run_as grants them: default privileges would let every worker
-- act as the role.
-- Called by: allow_run_as.
CREATE FUNCTION rota.make_run_as(role_name text) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    place    regnamespace := (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'rota.jobs'::regclass);
    caller   text := format('rota.%I', 'run_as_' || role_name);
    is_given boolean := NOT has_schema_privilege(role_name, place::oid, 'CREATE');
    grantee  text;
BEGIN
    EXECUTE format('CREATE FUNCTION %s(function regprocedure, payload jsonb, nonce text, OUT answer jsonb, '
        'OUT proof text) LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS %L', caller, rota.caller_body(role_name));
    FOR grantee IN SELECT DISTINCT CASE g.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(g.grantee)) END
                   FROM pg_proc p CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) g
                   WHERE p.oid = rota.find_run_as(role_name) AND g.grantee <> p.proowner LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s(regprocedure, jsonb, text) FROM %s', caller, grantee);
    END LOOP;
    -- The owner of a function needs CREATE on its schema, for as long as it becomes the owner.
    IF is_given THEN
        EXECUTE format('GRANT CREATE ON SCHEMA %s TO %I', place, role_name);
    END IF;
    EXECUTE format('ALTER FUNCTION %s(regprocedure, jsonb, text) OWNER TO %I', caller, role_name);
    IF is_given THEN
        EXECUTE format('REVOKE CREATE ON SCHEMA %s FROM %I', place, role_name);
    END IF;
END $$;

-- Which version of that function there is, as every change makes a new one; refuses one that is not as make_run_as
-- has made it, because its owner may alter it. A worker compares what it was before a job with what it is at its end.
-- Called by: allow_run_as, sql/jobs/caller_state.sql, sql_job_call.
CREATE FUNCTION rota.caller_state(role_name text) RETURNS text LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    found record;
BEGIN
    SELECT p.oid, p.xmin, p.ctid, p.proowner = to_regrole(quote_ident(role_name))::oid AND p.prosecdef
        AND NOT p.proisstrict AND NOT p.proretset AND p.provolatile = 'v' AND p.proparallel = 'u' AND p.prokind = 'f'
        AND p.proconfig IS NULL AND p.prosupport = 0 AND l.lanname = 'plpgsql'
        AND p.prosrc = rota.caller_body(role_name) AS is_safe INTO found
    FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang WHERE p.oid = rota.find_run_as(role_name);
    IF found.is_safe IS NOT TRUE THEN
        RAISE EXCEPTION 'the function that runs jobs as role "%" was changed and is not safe', role_name
            USING ERRCODE = 'RO002', HINT = 'Find out who changed it, drop it, and call allow_run_as again.';
    END IF;
    RETURN format('%s %s %s', found.oid, found.xmin, found.ctid);
END $$;

-- Lets workers that connect as worker_role run SQL jobs as role_name. SET ROLE would not protect the worker's role: the
-- job could call RESET ROLE. Inside a SECURITY DEFINER function that is refused.
-- Called by: users.
CREATE FUNCTION rota.allow_run_as(role_name text, worker_role text DEFAULT current_user) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    caller text := 'run_as_' || role_name;
BEGIN
    IF to_regrole(quote_ident(role_name)) IS NULL THEN
        RAISE EXCEPTION 'there is no role "%"', role_name USING ERRCODE = 'RO002';
    ELSIF to_regrole(quote_ident(worker_role)) IS NULL THEN
        RAISE EXCEPTION 'there is no role "%"', worker_role USING ERRCODE = 'RO002';
    ELSIF octet_length(caller) > 63 THEN
        RAISE EXCEPTION 'the name of role "%" is too long: % bytes at most', role_name, 63 - length('run_as_')
            USING ERRCODE = 'RO002';
    END IF;
    IF rota.find_run_as(role_name) IS NULL THEN
        PERFORM rota.make_run_as(role_name);
    END IF;
    PERFORM rota.caller_state(role_name);
    EXECUTE format('GRANT EXECUTE ON FUNCTION rota.%I(regprocedure, jsonb, text) TO %I', caller, worker_role);
    PERFORM rota.write_audit(NULL, 'run_as.allowed', 'role', role_name, NULL,
        jsonb_build_object('worker_role', worker_role));
EXCEPTION WHEN insufficient_privilege THEN
    RAISE EXCEPTION 'role "%" may not let jobs run as role "%": %', current_user, role_name, SQLERRM
        USING ERRCODE = 'RO002',
            HINT = 'Call this as a superuser, or as the owner of the schema and member of the role.';
END $$;

-- Whether code of a role may run with the rights of the current one: it is this role, one that it is a member of, or a
-- superuser. A superuser is no member of all others here: as one, everybody's code could do everything.
-- Called by: call_fault, cleanup_fault, compared_as, sql/cleanup/known_tables.sql.
CREATE FUNCTION rota.is_trusted(of_role oid) RETURNS boolean LANGUAGE sql STABLE SET jit = off AS $$
    WITH RECURSIVE mine (id) AS (
        SELECT r.oid FROM pg_roles r WHERE r.rolname = current_user
        UNION SELECT m.roleid FROM mine JOIN pg_auth_members m ON m.member = mine.id)
    SELECT EXISTS (SELECT FROM mine WHERE mine.id = of_role)
        OR EXISTS (SELECT FROM pg_roles r WHERE r.oid = of_role AND r.rolsuper)
$$;

-- Why the current role does not call a function: it may change this schema, and another role's code would run with its
-- rights. Which function a job calls is said by everybody who may write jobs, which granted workers may. A SECURITY
-- DEFINER function is no exception: what it defers, and a cursor that it leaves, runs as the worker at the end of the
-- transaction. NULL: nothing is against it.
-- Called by: sql_job_call.
CREATE FUNCTION rota.call_fault(function oid) RETURNS text LANGUAGE sql STABLE SET jit = off AS $$
    SELECT format('%s belongs to role "%s", whose code would run as role "%s", which may change this schema',
        p.oid::regprocedure, pg_get_userbyid(p.proowner), current_user)
    FROM pg_proc p JOIN pg_class own ON own.oid = 'rota.jobs'::regclass
    WHERE p.oid = function AND NOT rota.is_trusted(p.proowner)
      AND pg_has_role(own.relowner, 'USAGE')
$$;

-- What a worker executes for this job, read afresh for every attempt: $1 is the payload. Where it runs as another role,
-- $2 is a nonce, which comes back beside the answer; settle, with the nonce alone, runs what is deferred; state is what
-- caller_state says.
-- Called by: sql/jobs/sql_call.sql.
CREATE FUNCTION rota.sql_job_call(job text, OUT call text, OUT transaction_mode text, OUT is_answering boolean,
    OUT settle text, OUT run_as text, OUT state text)
LANGUAGE plpgsql STABLE SET jit = off AS $$
#variable_conflict use_variable
DECLARE
    known  rota.jobs;
    found  record;
    caller oid;
    fault  text;
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
                format('Call allow_run_as(%L, %L) in this schema, as a superuser or as its owner and member of that '
                    'role.', known.run_as, current_user));
        END IF;
        run_as := known.run_as;
        state := rota.caller_state(run_as);
        call := format('SELECT answer, proof FROM rota.%I(%s::pg_catalog.oid, $1::pg_catalog.jsonb, '
            '$2::pg_catalog.text)', 'run_as_' || run_as, found.id);
        settle := format('SELECT answer, proof FROM rota.%I(0::pg_catalog.oid, ''null''::pg_catalog.jsonb, '
            '$1::pg_catalog.text)', 'run_as_' || run_as);
        RETURN;
    END IF;
    fault := rota.call_fault(found.id);
    IF fault IS NOT NULL THEN
        PERFORM rota.bad_job(job, fault, format('Let the job run as that role (allow_run_as), run workers as a role '
            'that owns nothing (grant_worker), or make role "%s" a member of that role.', current_user));
    END IF;
END $$;

-- Refuses a rule of cleanup (RO002). Tables and columns of rules are looked up in the catalogue, conditions come
-- from a fixed grammar: a rule is data and cannot say anything else.
-- Called by: check_owners, check_rule, check_rule_keys, rule_age, rule_column, rule_condition, rule_filter, rule_table.
CREATE FUNCTION rota.bad_rule(rule integer, what text, hint text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
BEGIN
    IF hint IS NULL THEN
        RAISE EXCEPTION 'cleanup rule %: %', rule, what USING ERRCODE = 'RO002';
    END IF;
    RAISE EXCEPTION 'cleanup rule %: %', rule, what USING ERRCODE = 'RO002', HINT = hint;
END $$;

-- The table that a rule of cleanup is about: an ordinary or a partitioned one, and none of Rota's.
-- Called by: apply_rule, check_cleanup, check_rule, plan_cleanup.
CREATE FUNCTION rota.rule_table(rule integer, said jsonb) RETURNS regclass LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    relation regclass := rota.table_of(said ->> 'table');
BEGIN
    IF relation IS NULL THEN
        PERFORM rota.bad_rule(rule, format('there is no table "%s"', said ->> 'table'),
            'Name it with its schema, quoted as in SQL: public.sessions.');
    ELSIF EXISTS (SELECT FROM pg_class c, pg_class own WHERE c.oid = relation AND own.oid = 'rota.jobs'::regclass
                  AND (c.relkind NOT IN ('r', 'p')
                       OR c.relnamespace IN (own.relnamespace, 'pg_catalog'::regnamespace))) THEN
        PERFORM rota.bad_rule(rule, format('rows of %s cannot be removed', relation),
            'Name a table or a partitioned table that belongs neither to Rota nor to the server.');
    END IF;
    RETURN relation;
END $$;

-- The column that a rule of cleanup names; refuses one that the table has not.
-- Called by: rule_condition, rule_filter.
CREATE FUNCTION rota.rule_column(rule integer, relation regclass, name text) RETURNS pg_attribute
LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    found pg_attribute;
BEGIN
    SELECT a.* INTO found FROM pg_attribute a
    WHERE a.attrelid = relation AND a.attname = rule_column.name AND a.attnum > 0 AND NOT a.attisdropped;
    IF found.attname IS NULL THEN
        PERFORM rota.bad_rule(rule, format('table %s has no column "%s"', relation, rule_column.name),
            (SELECT format('Its columns are %s.', string_agg(a.attname, ', ' ORDER BY a.attnum)) FROM pg_attribute a
             WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped));
    END IF;
    RETURN found;
END $$;

-- Refuses a rule, or a condition of one, with a key that nobody reads: without the condition that was meant, a rule
-- would remove more.
-- Called by: check_rule, rule_condition.
CREATE FUNCTION rota.check_rule_keys(rule integer, said jsonb, known text[]) RETURNS void LANGUAGE plpgsql STABLE
SET jit = off AS $$
DECLARE
    odd text := (SELECT min(k) FROM jsonb_object_keys(said) k WHERE k <> ALL (known));
BEGIN
    IF odd IS NOT NULL THEN
        PERFORM rota.bad_rule(rule, format('unknown key "%s"', odd),
            'Choose from ' || array_to_string(known, ', ') || '.');
    END IF;
END $$;

-- Why rows of a table are not removed as the current role: somebody else's code would run with its rights. That is code
-- of who owns the table, a part of it, or one whose rows go or change with its rows; and of who wrote what their
-- triggers, policies and rules use: functions and operators, the check of a domain, and tables and views, which bring
-- code of their own. SECURITY DEFINER is no exception (call_fault); functions of Rota are, as tables may be watched.
-- NULL: nothing is against it.
-- Called by: check_owners, sql/cleanup/known_tables.sql.
CREATE FUNCTION rota.cleanup_fault(relation oid) RETURNS text LANGUAGE sql STABLE SET jit = off AS $$
    WITH RECURSIVE touched (id) AS (
        SELECT cleanup_fault.relation
        UNION SELECT next.id FROM touched CROSS JOIN LATERAL (
            SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = touched.id
            UNION ALL SELECT c.conrelid FROM pg_constraint c
            WHERE c.confrelid = touched.id AND c.contype = 'f' AND c.confdeltype IN ('c', 'n', 'd')) next (id)
    ), active (kind, relation, name, class, id) AS (
        SELECT 'trigger', t.tgrelid, t.tgname, 'pg_trigger'::regclass, t.oid
        FROM touched JOIN pg_trigger t ON t.tgrelid = touched.id AND NOT t.tgisinternal AND t.tgenabled <> 'D'
        UNION ALL
        SELECT 'policy', p.polrelid, p.polname, 'pg_policy'::regclass, p.oid
        FROM touched JOIN pg_policy p ON p.polrelid = touched.id
        JOIN pg_class c ON c.oid = p.polrelid AND c.relrowsecurity
        UNION ALL
        SELECT 'rule', r.ev_class, r.rulename, 'pg_rewrite'::regclass, r.oid
        FROM touched JOIN pg_rewrite r ON r.ev_class = touched.id AND r.ev_enabled <> 'D'
    ), used AS (
        SELECT a.*, f.oid::regprocedure::text AS what, f.proowner AS role
        FROM active a JOIN pg_depend d ON d.classid = a.class AND d.objid = a.id AND d.refclassid = 'pg_proc'::regclass
        JOIN pg_proc f ON f.oid = d.refobjid
        JOIN pg_class own ON own.oid = 'rota.jobs'::regclass
            AND (f.pronamespace, f.proowner) <> (own.relnamespace, own.relowner)
        UNION ALL
        SELECT a.*, o.oid::regoperator::text, o.oprowner
        FROM active a
        JOIN pg_depend d ON d.classid = a.class AND d.objid = a.id AND d.refclassid = 'pg_operator'::regclass
        JOIN pg_operator o ON o.oid = d.refobjid
        UNION ALL
        SELECT a.*, r.oid::regclass::text, r.relowner
        FROM active a JOIN pg_depend d ON d.classid = a.class AND d.objid = a.id AND d.refclassid = 'pg_class'::regclass
        JOIN pg_class r ON r.oid = d.refobjid
        UNION ALL
        SELECT a.*, t.oid::regtype::text, t.typowner
        FROM active a JOIN pg_depend d ON d.classid = a.class AND d.objid = a.id AND d.refclassid = 'pg_type'::regclass
        JOIN pg_type t ON t.oid = d.refobjid AND t.typtype = 'd'
    )
    SELECT coalesce(
        (SELECT format('%s belongs to role "%s", whose triggers and policies would run as role "%s"', c.oid::regclass,
             pg_get_userbyid(c.relowner), current_user)
         FROM touched JOIN pg_class c ON c.oid = touched.id WHERE NOT rota.is_trusted(c.relowner)
         ORDER BY c.oid <> cleanup_fault.relation, c.oid LIMIT 1),
        (SELECT format('%s "%s" of %s uses %s of role "%s", whose code would run as role "%s"', u.kind, u.name,
             u.relation::regclass, u.what, pg_get_userbyid(u.role), current_user)
         FROM used u WHERE NOT rota.is_trusted(u.role) ORDER BY u.relation, u.name, u.what LIMIT 1))
$$;

-- Refuses a table whose rows are not removed as the current role.
-- Called by: apply_rule, check_cleanup, plan_cleanup.
CREATE FUNCTION rota.check_owners(rule integer, relation regclass) RETURNS void LANGUAGE plpgsql STABLE
SET jit = off AS $$
DECLARE
    fault text := rota.cleanup_fault(relation);
BEGIN
    IF fault IS NOT NULL THEN
        PERFORM rota.bad_rule(rule, fault, format('Make role "%s" a member of that role if it may run its code, or '
            'remove the rows with a SQL job that has run_as.', current_user));
    END IF;
END $$;

-- The type as which a column is compared, and its operator. Without the checks of a domain, which are code of its
-- owner; with the type's own operator, whatever is in the search path. Nothing where the type is somebody else's.
-- Called by: rule_condition.
CREATE FUNCTION rota.compared_as(type oid, op text, OUT kind text, OUT operator text) LANGUAGE sql STABLE
SET jit = off AS $$
    WITH RECURSIVE base (id, n) AS (
        SELECT compared_as.type, 0
        UNION ALL SELECT t.typbasetype, base.n + 1 FROM base JOIN pg_type t ON t.oid = base.id AND t.typtype = 'd')
    SELECT format_type(t.oid, -1), CASE
        WHEN t.oid < 16384 OR t.typtype = 'e' THEN format('OPERATOR(pg_catalog.%s)', compared_as.op)
        ELSE (SELECT format('OPERATOR(%I.%s)', n.nspname, o.oprname)
              FROM pg_opclass c JOIN pg_am m ON m.oid = c.opcmethod AND m.amname = 'btree'
              JOIN pg_amop a ON a.amopfamily = c.opcfamily AND a.amoplefttype = t.oid AND a.amoprighttype = t.oid
              JOIN pg_operator e ON e.oid = a.amopopr
              JOIN pg_operator o ON o.oid IN (e.oid, e.oprnegate) AND o.oprname = compared_as.op
              JOIN pg_namespace n ON n.oid = o.oprnamespace
              WHERE c.opcintype = t.oid AND c.opcdefault LIMIT 1) END
    FROM base JOIN pg_type t ON t.oid = base.id
    WHERE t.typtype IN ('b', 'e')
      AND (t.oid < 16384 OR t.typtype = 'e' OR (rota.is_trusted(t.typowner) AND t.typelem = 0))
    ORDER BY base.n DESC LIMIT 1
$$;

-- A condition of a rule, {"column", "op", "value"}, as SQL. A value is tried as the column's type, so that a rule that
-- cannot work is refused when it is written.
-- Called by: rule_filter.
CREATE FUNCTION rota.rule_condition(rule integer, relation regclass, condition jsonb) RETURNS text
LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    found pg_attribute := rota.rule_column(rule, relation, condition ->> 'column');
    op    text := lower(condition ->> 'op');
    known record;
    value text;
BEGIN
    PERFORM rota.check_rule_keys(rule, condition, '{column,op,value}');
    SELECT c.kind, c.operator INTO known
    FROM rota.compared_as(found.atttypid, CASE op WHEN 'in' THEN '=' ELSE op END) c;
    IF op IN ('is null', 'is not null') AND NOT condition ? 'value' THEN
        RETURN format('%I %s', found.attname, upper(op));
    ELSIF op IN ('=', '<>', '<', '<=', '>', '>=')
        AND jsonb_typeof(condition -> 'value') IN ('string', 'number', 'boolean') THEN
        value := format('%L::%s', condition ->> 'value', known.kind);
    ELSIF op = 'in' AND jsonb_typeof(condition -> 'value') = 'array' AND NOT EXISTS (
        SELECT FROM jsonb_array_elements(condition -> 'value') v
        WHERE jsonb_typeof(v) NOT IN ('string', 'number', 'boolean')) THEN
        value := format('ANY (%L::%s[])', ARRAY(SELECT jsonb_array_elements_text(condition -> 'value')), known.kind);
    ELSE
        PERFORM rota.bad_rule(rule, format('condition %s is not valid', condition),
            'op must be =, <>, <, <=, > or >= with a value, in with a list of values, or is null or is not null '
            'without a value.');
    END IF;
    IF known.operator IS NULL THEN
        PERFORM rota.bad_rule(rule, format('column "%s" has the type %s, which cannot be compared here', found.attname,
            format_type(found.atttypid, NULL)), 'Choose a column of one of the server''s types, or of an enum.');
    END IF;
    BEGIN
        EXECUTE format('SELECT NULL::%s %s %s', known.kind, known.operator, value);
    EXCEPTION WHEN OTHERS THEN
        PERFORM rota.bad_rule(rule, format('condition %s does not match column "%s" of type %s', condition,
            found.attname, format_type(found.atttypid, found.atttypmod)), SQLERRM);
    END;
    RETURN format('%I %s %s', found.attname, known.operator, value);
END $$;

-- The age that a rule of cleanup names, as an interval; refuses what is none.
-- Called by: rule_filter.
CREATE FUNCTION rota.rule_age(rule integer, older_than jsonb) RETURNS interval LANGUAGE plpgsql STABLE
SET jit = off AS $$
DECLARE
    age interval;
BEGIN
    age := CASE jsonb_typeof(older_than) WHEN 'number'
        THEN make_interval(secs => (older_than #>> '{}')::double precision)
                                         WHEN 'string' THEN (older_than #>> '{}')::interval END;
    IF age IS NULL THEN
        PERFORM rota.bad_rule(rule, format('older_than must be an interval or a number of seconds, not %s',
            coalesce(older_than::text, 'missing')));
    ELSIF age < '0' THEN
        PERFORM rota.bad_rule(rule, format('older_than must not be negative: %s', older_than));
    END IF;
    RETURN age;
EXCEPTION WHEN invalid_datetime_format OR datetime_field_overflow THEN
    PERFORM rota.bad_rule(rule, format('older_than %s is not an interval', older_than));
END $$;

-- The rows of the table that one rule is about, as SQL. Its time means the same in every style of a session.
-- Called by: apply_rule, check_rule, plan_cleanup.
CREATE FUNCTION rota.rule_filter(rule integer, relation regclass, said jsonb) RETURNS text
LANGUAGE plpgsql STABLE SET jit = off SET DateStyle = 'ISO' SET TimeZone = 'UTC' AS $$
DECLARE
    cutoff timestamptz := rota.now() - rota.rule_age(rule, said -> 'older_than');
    found  pg_attribute := rota.rule_column(rule, relation, said ->> 'column');
    wheres jsonb := coalesce(said -> 'where', '[]');
    parts  text[];
BEGIN
    -- A time without a zone is taken as UTC, whatever the zone of the session is.
    parts := ARRAY[format('%I < %L::%s', found.attname, CASE WHEN found.atttypid = 'timestamptz'::regtype
        THEN cutoff::text ELSE (cutoff AT TIME ZONE 'UTC')::text END,
                          format_type(found.atttypid, NULL))];
    IF found.atttypid NOT IN ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype) THEN
        PERFORM rota.bad_rule(rule, format('column "%s" of %s is %s, not a time', found.attname, relation,
            format_type(found.atttypid, NULL)));
    END IF;
    IF jsonb_typeof(wheres) = 'object' THEN
        wheres := jsonb_build_array(wheres);
    ELSIF jsonb_typeof(wheres) <> 'array' THEN
        PERFORM rota.bad_rule(rule, format('where must be a condition or a list of conditions, not %s', wheres));
    END IF;
    RETURN array_to_string(parts || ARRAY(SELECT rota.rule_condition(rule, relation, w)
        FROM jsonb_array_elements(wheres) w), ' AND ');
END $$;

-- Refuses a rule that cannot be applied, without applying it.
-- Called by: apply_rule, check_cleanup, plan_cleanup.
CREATE FUNCTION rota.check_rule(rule integer, said jsonb) RETURNS void LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    one     text;
BEGIN
    IF jsonb_typeof(said) IS DISTINCT FROM 'object' THEN
        PERFORM rota.bad_rule(rule, format('it must be an object with table, column and older_than, not %s', said));
    END IF;
    PERFORM rota.check_rule_keys(rule, said, '{table,column,older_than,where,batch_size,max_batches}');
    FOREACH one IN ARRAY '{batch_size,max_batches}'::text[] LOOP
        IF said ? one AND (said ->> one ~ '^[1-9][0-9]{0,8}$') IS NOT TRUE THEN
            PERFORM rota.bad_rule(rule, format('%s must be a whole number of at least 1, not %s', one, said -> one));
        END IF;
    END LOOP;
    PERFORM rota.rule_filter(rule, rota.rule_table(rule, said), said);
END $$;

-- Applies one rule, {"table", "column", "older_than", "where", "batch_size", "max_batches"}: returns how many rows
-- it removed, and whether it stopped at its limit. The table is locked as by DELETE before it is looked at: a trigger
-- that somebody is making on it is seen, or waits. Tables that its rows cascade into are not locked.
-- Called by: cleanup.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.apply_rule(rule integer, said jsonb) RETURNS jsonb LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    relation regclass;
    size     integer;
    batches  integer;
    filter   text;
    leaf     regclass;
    gone     integer;
    removed  bigint := 0;
BEGIN
    PERFORM rota.check_rule(rule, said);
    relation := rota.rule_table(rule, said);
    EXECUTE format('LOCK TABLE %s IN ROW EXCLUSIVE MODE', relation);
    PERFORM rota.check_owners(rule, relation);
    size := coalesce((said ->> 'batch_size')::integer, 1000);
    batches := coalesce((said ->> 'max_batches')::integer, 100);
    filter := rota.rule_filter(rule, relation, said);
    -- Leaf by leaf, because a place in a table is unique in that table only.
    FOR leaf IN SELECT relation WHERE NOT EXISTS (SELECT FROM pg_partition_tree(relation) t WHERE NOT t.isleaf)
                UNION SELECT t.relid FROM pg_partition_tree(relation) t WHERE t.isleaf LOOP
        LOOP
            EXIT WHEN batches = 0;
            EXECUTE format(
                'DELETE FROM ONLY %1$s WHERE ctid = ANY (ARRAY(SELECT ctid FROM ONLY %1$s WHERE %2$s LIMIT %3$s '
                'FOR UPDATE SKIP LOCKED))',
                           leaf, filter, size);
            GET DIAGNOSTICS gone = ROW_COUNT;
            removed := removed + gone;
            batches := batches - 1;
            EXIT WHEN gone < size;
        END LOOP;
    END LOOP;
    RETURN jsonb_build_object('table', relation::text, 'removed', removed, 'has_more', batches = 0);
END $$;

-- How many rows each rule of a payload would remove now. Changes nothing.
-- Called by: sql/cleanup/plan.sql, users.
CREATE FUNCTION rota.plan_cleanup(payload jsonb) RETURNS TABLE (rule integer, table_name text, matching bigint)
LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    one record;
    relation regclass;
BEGIN
    FOR one IN SELECT r.n, r.said FROM jsonb_array_elements(payload -> 'rules') WITH ORDINALITY AS r (said, n) LOOP
        PERFORM rota.check_rule(one.n::integer, one.said);
        relation := rota.rule_table(one.n::integer, one.said);
        PERFORM rota.check_owners(one.n::integer, relation);
        rule := one.n;
        table_name := relation::text;
        EXECUTE format('SELECT count(*) FROM %s WHERE %s', relation, rota.rule_filter(rule, relation, one.said))
        INTO matching;
        RETURN NEXT;
    END LOOP;
END $$;

-- The SQL job `rota.cleanup`: applies each rule of its payload once, and says how many rows went.
-- Called by: users.
CREATE FUNCTION rota.cleanup(payload jsonb) RETURNS jsonb LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    done  jsonb;
    total bigint;
BEGIN
    IF jsonb_typeof(payload -> 'rules') IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION 'the payload of cleanup must be {"rules": [{"table", "column", "older_than", …}]}, not %',
            payload USING ERRCODE = 'RO002';
    END IF;
    SELECT coalesce(jsonb_agg(a.applied ORDER BY a.n), '[]'),
        coalesce(sum((a.applied ->> 'removed')::bigint), 0) INTO done, total
    FROM (SELECT r.n, rota.apply_rule(r.n::integer, r.rule) AS applied
          FROM jsonb_array_elements(payload -> 'rules') WITH ORDINALITY AS r (rule, n) OFFSET 0) a;
    RETURN jsonb_build_object('success', true, 'message', format('%s expired rows removed', total), 'details',
        jsonb_build_object('rules', done));
END $$;

-- Refuses a schedule of the cleanup whose rules cannot be applied, when it is written and not when it first runs.
-- Called by: before_schedule.
CREATE FUNCTION rota.check_cleanup(s rota.schedules) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF s.job <> 'rota' || '.cleanup' OR s.payload IS NULL THEN
        RETURN;
    ELSIF jsonb_typeof(s.payload -> 'rules') IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION
            'schedule "%": the payload of cleanup must be {"rules": [{"table", "column", "older_than", …}]}, not %',
            s.name, left(s.payload::text, 200)
            USING ERRCODE = 'RO002', HINT =
            'Write for example {"rules": [{"table": "public.sessions", "column": "expires_at", "older_than": 86400}]}.';
    END IF;
    PERFORM rota.check_rule(r.n::integer, r.said)
    FROM jsonb_array_elements(s.payload -> 'rules') WITH ORDINALITY AS r (said, n);
    -- A superuser writes rules for workers of another role, who ask again.
    IF NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user) THEN
        PERFORM rota.check_owners(r.n::integer, rota.rule_table(r.n::integer, r.said))
        FROM jsonb_array_elements(s.payload -> 'rules') WITH ORDINALITY AS r (said, n);
    END IF;
END $$;
