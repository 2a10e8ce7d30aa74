-- A run that another one has asked for says which. Few have one, and only those are in these indexes.
CREATE INDEX open_runs_parent ON rota.open_runs ((triggered_by ->> 'run')) WHERE triggered_by ? 'run';
CREATE INDEX ended_runs_parent ON rota.ended_runs ((triggered_by ->> 'run')) WHERE triggered_by ? 'run';

-- What asks by plain SQL: in the session that a worker lends to a SQL job or to ctx.transaction(), its run.
CREATE FUNCTION rota.sql_trigger() RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN current_setting('application_name') LIKE 'rota run %' AND split_part(current_setting('application_name'), ' ', 3) ~ '^[0-9]{1,18}$'
                THEN jsonb_build_object('type', 'sql', 'run', split_part(current_setting('application_name'), ' ', 3)::bigint)
                ELSE jsonb '{"type": "sql"}' END
$$;

-- As they are, with another default.
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN SELECT p.oid, pg_get_functiondef(p.oid) AS text FROM pg_proc p
                 WHERE p.oid = ANY (ARRAY(SELECT f.oid FROM pg_proc f JOIN pg_class c ON c.relnamespace = f.pronamespace
                                          WHERE c.oid = 'rota.open_runs'::regclass AND f.proname IN ('enqueue_run', 'enqueue_many', 'enqueue_batch'))) LOOP
        EXECUTE regexp_replace(found.text, 'triggered_by jsonb DEFAULT ''\{"type": "sql"\}''::jsonb', 'triggered_by jsonb DEFAULT rota.sql_trigger()');
    END LOOP;
END $$;
