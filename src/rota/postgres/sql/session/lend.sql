-- Before users' code. It finds the search path that it finds in any other session of the role, but for one thing: where the role is
-- called like this schema, "$user" would put Rota's tables before its own. Whoever wants them there names the schema.
-- The last column says which transaction this is.
SELECT pg_catalog.set_config('application_name', %(name)s, %(is_local)s),
       pg_catalog.set_config('idle_in_transaction_session_timeout', %(idle)s, %(is_local)s),
       pg_catalog.set_config('client_min_messages', coalesce(%(level)s, pg_catalog.current_setting('client_min_messages')), %(is_local)s),
       pg_catalog.set_config('search_path', CASE
           WHEN current_user OPERATOR(pg_catalog.=) %(schema)s::pg_catalog.name THEN pg_catalog.ltrim(pg_catalog.regexp_replace(
               pg_catalog.current_setting('search_path'), '(^|,)\s*("\$user"|\$user)\s*(?=,|$)', '', 'g'), ', ')
           ELSE pg_catalog.current_setting('search_path') END, %(is_local)s),
       pg_catalog.date_part('epoch', pg_catalog.transaction_timestamp())
