-- Which transaction this is, which database, whether its role may end runs there, and whether what others commit meanwhile conflicts with it. A copy of a server has its identifier, but was started at
-- another moment.
SELECT pg_catalog.date_part('epoch', pg_catalog.transaction_timestamp()),
       pg_catalog.concat(pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()), ' ', (
           SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())),
       coalesce(CASE WHEN pg_catalog.has_schema_privilege(session_user, pg_catalog.to_regnamespace(pg_catalog.quote_ident(%(schema)s::text)), 'USAGE')
                     THEN pg_catalog.has_table_privilege(session_user, pg_catalog.to_regclass('rota.open_runs'), 'DELETE') END, false),
       session_user::text,
       pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.<>) 'read committed'
