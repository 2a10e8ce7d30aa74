-- What somebody may do who may create in public: operators and functions that fit the words of Rota's functions better
-- than the server's own, wherever the server has none for exactly these types. Each leaves a trace when it is called.
SET search_path = pg_catalog;  -- not to be caught by one's own
CREATE SEQUENCE public.shadow_calls;

DO $make$
DECLARE
    trap constant text := $body$
        BEGIN
            PERFORM pg_catalog.nextval('public.shadow_calls'::pg_catalog.regclass);
            RAISE EXCEPTION 'a shadow was called: %s';
        END $body$;
    types constant regtype[] := string_to_array('oid,regclass,regtype,regproc,regprocedure,regrole,regnamespace,name,'
        'text,varchar,"char",smallint,integer,bigint,numeric,real,double precision,boolean,jsonb,timestamptz,timestamp,'
        'date,interval,xid,text[],'
        'bigint[],integer[],oid[],oidvector,int2vector,"char"[],timestamptz[],jsonb[],double precision[]', ',');
    -- Those that occur; the last are of statements that are sent over users' connections.
    used constant text[] := ARRAY(SELECT DISTINCT w[1] FROM pg_proc p CROSS JOIN LATERAL regexp_matches(
        coalesce(p.prosrc, '') || coalesce(pg_get_function_sqlbody(p.oid), ''), '([a-z_]+)\(', 'g') w
        WHERE p.pronamespace = 'rota'::regnamespace) || '{currval,nextval,make_interval}'::text[];
    one record;
    n   integer := 0;
BEGIN
    FOR one IN SELECT l, r, o.name, o.name IN ('||', '+', '-') AS is_sum
               FROM unnest(types) l, unnest(types) r,
                    unnest('{=,<>,<,<=,>,>=,||,+,-,@>,<@,&&,->,->>,~,!~,~~,!~~}'::text[]) o (name)
               WHERE NOT EXISTS (SELECT FROM pg_operator p WHERE p.oprname = o.name AND p.oprleft = l AND p.oprright = r)
                 -- Pairs that occur: of one kind, or with a text.
                 AND (o.name IN ('=', '<>') OR l = r OR 'text'::regtype IN (l, r)) LOOP
        n := n + 1;
        EXECUTE format('CREATE FUNCTION public.shadow_%s(%s, %s) RETURNS %s LANGUAGE plpgsql AS %L', n, one.l, one.r,
            CASE WHEN one.is_sum THEN one.l::text ELSE 'boolean' END,
            format(trap, format('%s %s %s', one.l, replace(one.name, '%', '%%'), one.r)));
        EXECUTE format('CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = public.shadow_%s)', one.name,
            one.l, one.r, n);
    END LOOP;
    -- Functions of the server that take anything, or a number of arguments, for types that are given to them; and those
    -- that take the name of an object, for a text that stands for it.
    FOR one IN SELECT DISTINCT p.proname, a.types FROM pg_proc p CROSS JOIN LATERAL (
                   SELECT t::text FROM unnest(types) t WHERE p.pronargs = 1 AND p.provariadic = 0
                       AND p.proargtypes[0]::regtype IN ('anyelement', 'anyarray', 'anynonarray', '"any"',
                                                         'anycompatible', 'anycompatiblearray')
                   UNION ALL
                   SELECT x FROM unnest(ARRAY['text, text', 'text, bigint', 'text, jsonb', 'text, text, text',
                       'text, text, text, text', 'text[], text', 'text, VARIADIC text[]', 'VARIADIC text[]']) x
                       WHERE p.provariadic <> 0 OR (p.pronargs = 2 AND p.proargtypes[0]::regtype IN ('anyelement',
                           'anyarray', 'anycompatible', 'anycompatiblearray'))
                   UNION ALL
                   SELECT 'text' WHERE p.pronargs = 1 AND p.proargtypes[0]::regtype IN ('regclass', 'oid')
               ) a (types)
               WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind IN ('f', 'a')
                 AND p.proname = ANY (used)
                 AND NOT EXISTS (SELECT FROM pg_proc o WHERE o.pronamespace = p.pronamespace AND o.proname = p.proname
                                 AND pg_get_function_identity_arguments(o.oid) = a.types) LOOP
        EXECUTE format('CREATE FUNCTION public.%I(%s) RETURNS text LANGUAGE plpgsql AS %L', one.proname, one.types,
            format(trap, one.proname || '(' || one.types || ')'));
    END LOOP;
END $make$;
RESET search_path;
