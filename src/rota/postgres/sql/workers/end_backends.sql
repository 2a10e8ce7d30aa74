-- Ends the open transactions of attempts whose worker is lost: they block their successors.
SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.application_name LIKE 'rota run %%'
  AND a.application_name LIKE '%% worker ' || %(worker)s::bigint
