-- Jobs whose body is a function of the database. `find_job_function` says what can be one, `sql_job_call` what a
-- worker executes; `allow_run_as` lets jobs run as another role. The second half is one such job, `cleanup`, which
-- removes expired rows of users' tables by rules; `plan_cleanup` counts them.

-- The function that a job means by a name: one with these types of arguments, if the name lists them, else the one of
-- that name that can be called with a payload, or with nothing; else any of that name. Arguments with a default need
-- not be given. NULL: there is none.
-- Called by: find_job_function, sql/jobs/function.sql.
CREATE FUNCTION rota.job_function(given text) RETURNS oid LANGUAGE sql STABLE SET jit = off AS $$
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
-- Called by: find_job_function.
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

-- The function that calls others as this role; NULL where nobody has made it.
-- Called by: allow_run_as, check_sql_job, sql_job_call.
CREATE FUNCTION rota.find_run_as(role_name text) RETURNS oid LANGUAGE sql STABLE AS $$
    SELECT to_regprocedure(format('rota.%I(regprocedure,jsonb)', 'run_as_' || role_name))::oid
$$;

-- Trigger: a job of kind sql names a function that exists and takes what jobs give, and a role that jobs may run as.
CREATE FUNCTION rota.check_sql_job() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF NEW.function_name IS NULL THEN
        PERFORM rota.bad_job(NEW.name, 'a job of kind sql requires a function_name');
    END IF;
    SELECT f.full_name INTO NEW.function_name
    FROM rota.find_job_function(NEW.name, NEW.function_name, NEW.transaction_mode) f;
    -- Whoever inserts a job without one has the default of the column.
    IF NEW.executor NOT IN ('sql', CASE TG_OP WHEN 'INSERT' THEN 'async' ELSE OLD.executor END) THEN
        PERFORM rota.bad_job(NEW.name, format('executor "%s" is for Python jobs; a SQL function has the executor sql',
            NEW.executor), 'Omit executor.');
    END IF;
    IF NEW.run_as IS NOT NULL AND rota.find_run_as(NEW.run_as) IS NULL THEN
        PERFORM rota.bad_job(NEW.name, format('jobs may not run as role "%s"', NEW.run_as),
            format('Call allow_run_as(%L) in this schema, as a superuser or as its owner and member of that role.',
                NEW.run_as));
    END IF;
    NEW.executor := 'sql';
    RETURN NEW;
END $$;
CREATE TRIGGER jobs_check_sql BEFORE INSERT OR UPDATE OF kind, function_name, run_as, transaction_mode, executor
ON rota.jobs FOR EACH ROW WHEN (NEW.kind = 'sql') EXECUTE FUNCTION rota.check_sql_job();

-- Trigger: calls out a change of a SQL job, as workers know the SQL jobs of the database.
CREATE FUNCTION rota.call_sql_jobs() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF (TG_OP <> 'INSERT' AND OLD.kind = 'sql') OR (TG_OP <> 'DELETE' AND NEW.kind = 'sql') THEN
        PERFORM pg_notify('rota', 'jobs');
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_call AFTER INSERT OR DELETE OR UPDATE OF kind, function_name, run_as, transaction_mode,
    timeout_seconds, backoff ON rota.jobs
FOR EACH ROW EXECUTE FUNCTION rota.call_sql_jobs();

-- Nothing stays in it. The command number (cmin) of an insert that is taken back tells whether anything was written
-- since the last one.
CREATE UNLOGGED TABLE rota.command_marks ();

-- Makes the function through which jobs run as this role: SECURITY DEFINER and owned by the role, with no rights for
-- anybody until allow_run_as grants them. It refuses to run when it no longer separates the roles, and qualifies
-- every name inside with its schema.
-- Called by: allow_run_as.
CREATE FUNCTION rota.make_run_as(role_name text) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    place    regnamespace := (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'rota.jobs'::regclass);
    caller   text := 'run_as_' || role_name;
    is_given boolean := NOT has_schema_privilege(role_name, place::oid, 'CREATE');
BEGIN
    EXECUTE format($make$
        CREATE FUNCTION rota.%1$I(function regprocedure, payload jsonb) RETURNS jsonb LANGUAGE plpgsql VOLATILE
        SECURITY DEFINER AS $caller$
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
                RAISE EXCEPTION 'the function that runs jobs as role "%%" was changed and is not safe', %2$L
                    USING ERRCODE = 'RO002', HINT = 'Find out who changed it, drop it, and call allow_run_as again.';
            END IF;
            IF function IS NOT NULL THEN
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
    EXECUTE format('GRANT EXECUTE ON FUNCTION rota.%I(regprocedure, jsonb) TO %I', caller, worker_role);
    PERFORM rota.write_audit(NULL, 'run_as.allowed', 'role', role_name, NULL,
        jsonb_build_object('worker_role', worker_role));
EXCEPTION WHEN insufficient_privilege THEN
    RAISE EXCEPTION 'role "%" may not let jobs run as role "%": %', current_user, role_name, SQLERRM
        USING ERRCODE = 'RO002',
            HINT = 'Call this as a superuser, or as the owner of the schema and member of the role.';
END $$;

-- What a worker executes for this job, read afresh for every attempt: $1 is the payload.
-- Called by: sql/jobs/sql_call.sql.
CREATE FUNCTION rota.sql_job_call(job text, OUT call text, OUT transaction_mode text, OUT is_answering boolean,
    OUT settle text)
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
                format('Call allow_run_as(%L, %L) in this schema, as a superuser or as its owner and member of that '
                    'role.', known.run_as, current_user));
        END IF;
        call := format('SELECT rota.%I(%s::oid::regprocedure, $1::jsonb)', 'run_as_' || known.run_as, found.id);
        settle := format('SELECT rota.%I(NULL, NULL)', 'run_as_' || known.run_as);
    END IF;
END $$;

-- Refuses a rule of cleanup (RO002). Tables and columns of rules are looked up in the catalogue, conditions come
-- from a fixed grammar: a rule is data and cannot say anything else.
-- Called by: check_rule, check_rule_keys, rule_age, rule_column, rule_condition, rule_filter, rule_table.
CREATE FUNCTION rota.bad_rule(rule integer, what text, hint text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
BEGIN
    IF hint IS NULL THEN
        RAISE EXCEPTION 'cleanup rule %: %', rule, what USING ERRCODE = 'RO002';
    END IF;
    RAISE EXCEPTION 'cleanup rule %: %', rule, what USING ERRCODE = 'RO002', HINT = hint;
END $$;

-- The table that a rule of cleanup is about: an ordinary or a partitioned one, and none of Rota's.
-- Called by: apply_rule, check_rule, plan_cleanup.
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

-- A condition of a rule, {"column", "op", "value"}, as SQL. A value is tried as the column's type, so that a rule that
-- cannot work is refused when it is written.
-- Called by: rule_filter.
CREATE FUNCTION rota.rule_condition(rule integer, relation regclass, condition jsonb) RETURNS text
LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    found pg_attribute := rota.rule_column(rule, relation, condition ->> 'column');
    kind  text := format_type(found.atttypid, found.atttypmod);
    op    text := lower(condition ->> 'op');
    value text;
BEGIN
    PERFORM rota.check_rule_keys(rule, condition, '{column,op,value}');
    IF op IN ('is null', 'is not null') AND NOT condition ? 'value' THEN
        RETURN format('%I %s', found.attname, upper(op));
    ELSIF op IN ('=', '<>', '<', '<=', '>', '>=')
        AND jsonb_typeof(condition -> 'value') IN ('string', 'number', 'boolean') THEN
        value := format('%L::%s', condition ->> 'value', kind);
    ELSIF op = 'in' AND jsonb_typeof(condition -> 'value') = 'array' AND NOT EXISTS (
        SELECT FROM jsonb_array_elements(condition -> 'value') v
        WHERE jsonb_typeof(v) NOT IN ('string', 'number', 'boolean')) THEN
        op := '=';
        value := format('ANY (%L::%s[])', ARRAY(SELECT jsonb_array_elements_text(condition -> 'value')), kind);
    ELSE
        PERFORM rota.bad_rule(rule, format('condition %s is not valid', condition),
            'op must be =, <>, <, <=, > or >= with a value, in with a list of values, or is null or is not null '
            'without a value.');
    END IF;
    BEGIN
        EXECUTE format('SELECT NULL::%s %s %s', kind, op, value);
    EXCEPTION WHEN OTHERS THEN
        PERFORM rota.bad_rule(rule, format('condition %s does not match column "%s" of type %s', condition,
            found.attname, kind), SQLERRM);
    END;
    RETURN format('%I %s %s', found.attname, op, value);
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

-- The rows of the table that one rule is about, as SQL.
-- Called by: apply_rule, check_rule, plan_cleanup.
CREATE FUNCTION rota.rule_filter(rule integer, relation regclass, said jsonb) RETURNS text
LANGUAGE plpgsql STABLE SET jit = off AS $$
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
-- it removed, and whether it stopped at its limit.
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

-- Trigger: a schedule of the cleanup has rules that can be applied, when it is written and not when it first runs.
CREATE FUNCTION rota.check_cleanup() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND (NEW.job, NEW.payload) IS NOT DISTINCT FROM (OLD.job, OLD.payload) THEN
        RETURN NEW;
    ELSIF jsonb_typeof(NEW.payload -> 'rules') IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION
            'schedule "%": the payload of cleanup must be {"rules": [{"table", "column", "older_than", …}]}, not %',
            NEW.name, left(NEW.payload::text, 200)
            USING ERRCODE = 'RO002', HINT =
            'Write for example {"rules": [{"table": "public.sessions", "column": "expires_at", "older_than": 86400}]}.';
    END IF;
    PERFORM rota.check_rule(r.n::integer, r.said)
    FROM jsonb_array_elements(NEW.payload -> 'rules') WITH ORDINALITY AS r (said, n);
    RETURN NEW;
END $$;
CREATE TRIGGER b_cleanup BEFORE INSERT OR UPDATE OF job, payload ON rota.schedules FOR EACH ROW
    WHEN (NEW.job = 'rota' || '.cleanup' AND NEW.payload IS NOT NULL) EXECUTE FUNCTION rota.check_cleanup();
