-- The table with most dead rows beside its live ones.
SELECT s.relname AS name, s.n_live_tup AS live, s.n_dead_tup AS dead,
       extract(epoch FROM clock_timestamp() - greatest(s.last_autovacuum, s.last_vacuum))::double precision AS vacuum_seconds
FROM pg_stat_user_tables s JOIN pg_class c ON c.relnamespace = (SELECT r.relnamespace FROM pg_class r WHERE r.oid = 'rota.open_runs'::regclass)
WHERE c.oid = s.relid ORDER BY s.n_dead_tup::double precision / (s.n_live_tup + 1000) DESC, s.relname LIMIT 1
