-- Whoever may create in a schema of a session's search_path can define an operator or a function that fits the words
-- of a function better than the server's own does. `pin_functions` takes that away from every function of the schema.

-- Makes the functions of the schema independent of the session of whoever calls them. Those that run as a whole get a
-- search_path of the server's own, and where a backslash is in them, its standard meaning. One in SQL without settings
-- is taken apart by the planner, which a SET clause would prevent: its body is parsed here, once, instead of at each
-- call. Every migration ends with this, because a function that is replaced comes back as it is written. Callers of
-- run_as stay as they were made.
-- Called by: sql/migrate/pin.sql.
CREATE FUNCTION rota.pin_functions() RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT p.oid::regprocedure AS signature, p.prokind, p.prosrc, pg_get_functiondef(p.oid) AS definition,
                   l.lanname = 'sql' AND p.proconfig IS NULL AS is_taken_apart, pin.has_backslash
               FROM pg_class own JOIN pg_proc p ON p.pronamespace = own.relnamespace AND p.proowner = own.relowner
               JOIN pg_language l ON l.oid = p.prolang
               CROSS JOIN LATERAL (SELECT strpos(p.prosrc, chr(92)) > 0 AS has_backslash) pin
               WHERE own.oid = 'rota.jobs'::regclass AND p.prokind IN ('f', 'p') AND l.lanname IN ('sql', 'plpgsql')
                 AND p.prosqlbody IS NULL AND p.proname NOT LIKE 'run\_as\_%'
                 AND ('search_path=pg_catalog, pg_temp' = ANY (p.proconfig)
                      AND (NOT pin.has_backslash OR 'standard_conforming_strings=on' = ANY (p.proconfig))) IS NOT TRUE
        LOOP
        IF one.is_taken_apart THEN
            EXECUTE left(one.definition, strpos(one.definition, E'\nAS $function$')) || E'BEGIN ATOMIC\n'
                || rtrim(one.prosrc, E' \n;') || E'\n;\nEND';
        ELSE
            EXECUTE format('ALTER %s %s SET search_path = pg_catalog, pg_temp%s',
                CASE one.prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END, one.signature,
                CASE WHEN one.has_backslash THEN ' SET standard_conforming_strings = on' ELSE '' END);
        END IF;
    END LOOP;
END $$;
SELECT rota.pin_functions();
