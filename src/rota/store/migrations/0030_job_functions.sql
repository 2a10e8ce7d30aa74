-- A function with arguments that have defaults can be a job, and what another one asks for in vain is named.

-- The function that a job means by a name: one with these types of arguments, if the name lists them, else the one of
-- that name that can be called with a payload, or with nothing; else any of that name. Arguments with a default need
-- not be given. NULL: there is none.
-- Called by: find_job_function, sql/jobs/function.sql.
CREATE OR REPLACE FUNCTION rota.job_function(given text) RETURNS oid LANGUAGE sql STABLE SET jit = off AS $$
    SELECT CASE WHEN given ~ '\)$' THEN to_regprocedure(given)::oid ELSE (
        SELECT p.oid FROM parse_ident(given) AS i (parts)
        JOIN pg_proc p ON p.proname = i.parts[cardinality(i.parts)]
        JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE CASE cardinality(i.parts) WHEN 1 THEN pg_function_is_visible(p.oid) ELSE n.nspname = i.parts[1] END
        ORDER BY p.pronargs - p.pronargdefaults <= 1 AND coalesce(p.proargtypes[0] = 'jsonb'::regtype, false) DESC,
            p.pronargs = p.pronargdefaults DESC, p.pronargs, p.oid LIMIT 1) END
$$;

-- What a function asks for that a job does not give, which is one jsonb or nothing; NULL: nothing.
-- Called by: find_job_function.
CREATE OR REPLACE FUNCTION rota.unmet_arguments(function oid) RETURNS text LANGUAGE sql STABLE SET jit = off AS $$
    SELECT string_agg(trim(format('%s %s', coalesce(p.proargnames[coalesce(a.place, i.n)], 'number ' || i.n),
        format_type(i.type, NULL))), ', ' ORDER BY i.n)
    FROM pg_proc p CROSS JOIN LATERAL unnest(p.proargtypes::oid[]) WITH ORDINALITY AS i (type, n)
    -- With arguments that only come out, names are counted over all.
    LEFT JOIN LATERAL (SELECT m.place, row_number() OVER (ORDER BY m.place) AS n
        FROM unnest(p.proargmodes) WITH ORDINALITY AS m (mode, place) WHERE m.mode IN ('i', 'b', 'v')) a ON a.n = i.n
    WHERE p.oid = function AND i.n <= p.pronargs - p.pronargdefaults AND (i.n > 1 OR i.type <> 'jsonb'::regtype)
$$;

-- The function behind a job, looked up in the catalogue; the name itself never becomes SQL. full_name is qualified, so
-- that a worker with another search_path finds the same one. is_answering: it returns what it did.
-- Called by: check_sql_job, sql_job_call.
CREATE OR REPLACE FUNCTION rota.find_job_function(job text, function_name text, transaction_mode text,
    OUT id oid, OUT full_name text, OUT call text, OUT is_answering boolean) LANGUAGE plpgsql STABLE
SET jit = off AS $$
#variable_conflict use_variable
DECLARE
    given  text := btrim(function_name);
    wanted "char" := CASE transaction_mode WHEN 'none' THEN 'p' ELSE 'f' END;
    kind   text := CASE transaction_mode WHEN 'none' THEN 'procedure' ELSE 'function' END;
    found  record;
    unmet  text;
BEGIN
    BEGIN
        id := rota.job_function(given);
    EXCEPTION WHEN OTHERS THEN
        PERFORM rota.bad_job(job, format('"%s" is not the name of a function: %s', given, SQLERRM));
    END;
    IF id IS NULL THEN
        PERFORM rota.bad_job(job, format('there is no %s "%s" that takes nothing or one jsonb', kind, given),
            format('CREATE %s %s(payload jsonb) … first; name its schema.', upper(kind), given));
    END IF;
    SELECT n.nspname, p.*, format_type(p.prorettype, NULL) AS returns INTO found
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE p.oid = id;
    unmet := rota.unmet_arguments(id);
    IF found.prokind <> wanted THEN
        PERFORM rota.bad_job(job, format('"%s" is not a %s', given, kind),
            'A function runs in one transaction with the end of the run; a procedure that commits by itself needs transaction_mode ''none''.');
    ELSIF unmet IS NOT NULL THEN
        PERFORM rota.bad_job(job, format('%s "%s" must take nothing or one jsonb, but needs: %s', kind, given, unmet),
            'A job gives one argument, its payload, as jsonb: give the others a default, or read them from the payload.');
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

-- Makes the function through which jobs run as this role: SECURITY DEFINER and owned by the role, with no rights for
-- anybody until allow_run_as grants them. It refuses to work when it is no wall any more, and names everything
-- inside by its schema.
-- Called by: allow_run_as.
CREATE OR REPLACE FUNCTION rota.make_run_as(role_name text) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
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
                SELECT pg_catalog.format('SELECT %%I.%%I(%%s)', n.nspname, p.proname, CASE WHEN p.proargtypes[0] OPERATOR(pg_catalog.=) 'pg_catalog.jsonb'::pg_catalog.regtype::pg_catalog.oid THEN '$1' ELSE '' END)
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
