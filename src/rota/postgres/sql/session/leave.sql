-- After users' code on their own connection, in its transaction and gone with it: nothing that it set reaches the statements that end the run.
-- Returns which transaction this is.
SELECT pg_catalog.set_config('role', 'none', true),
       pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
       pg_catalog.set_config('jit', 'off', true),
       pg_catalog.set_config('statement_timeout', '0', true),
       pg_catalog.set_config('lock_timeout', '0', true),
       pg_catalog.set_config('array_nulls', 'on', true),
       pg_catalog.set_config('idle_in_transaction_session_timeout', %(idle)s::text, true),
       pg_catalog.date_part('epoch', pg_catalog.transaction_timestamp())
