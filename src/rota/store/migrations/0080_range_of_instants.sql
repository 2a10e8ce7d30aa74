-- Whoever is refused an instant is told which there are: of the first and the last year a day is missing, so that each is within them in every
-- time zone. In every function that says so, as it is defined now.
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN SELECT p.oid FROM pg_proc p JOIN pg_class c ON c.relnamespace = p.pronamespace
                 WHERE c.oid = 'rota.locks'::regclass AND p.prosrc LIKE '%the years 1 to 9999%' LOOP
        EXECUTE replace(pg_get_functiondef(found.oid), 'the years 1 to 9999', 'the years 1 to 9999 (0001-01-02 to 9999-12-30, UTC)');
    END LOOP;
END $$;
