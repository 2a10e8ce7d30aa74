-- Pinned plans look so expensive that a server with jit = on, the default, compiles them anew on each call. Rota's own sessions are
-- opened without; here it is switched off for every other caller too, psql and triggers of users' tables among them. What stays as it is are functions in
-- SQL that the planner takes apart (a SET clause would prevent that), and those that only calculate: they are called once for each row.
DO $$
DECLARE
    function regprocedure;
BEGIN
    FOR function IN
        SELECT p.oid::regprocedure FROM pg_proc p
        JOIN pg_language l ON l.oid = p.prolang
        JOIN pg_class own ON own.oid = 'rota.jobs'::regclass AND own.relnamespace = p.pronamespace
        WHERE l.lanname = 'plpgsql' AND p.proname !~ '^run_as_'
           OR l.lanname = 'sql' AND (p.proconfig IS NOT NULL OR (p.provolatile = 'v' AND p.prosrc ~* '\m(from|insert|update|delete)\M'))
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET jit = off', function);
    END LOOP;
END $$;
