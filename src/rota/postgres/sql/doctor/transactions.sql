-- Who keeps dead rows from being removed: the oldest transactions, two-phase ones that wait, and slots that nobody reads. What other
-- roles do is only seen with pg_read_all_stats.
(SELECT 'transaction' AS kind, a.pid::text AS name, a.usename::text AS owner, a.application_name AS program, a.state AS doing,
        extract(epoch FROM clock_timestamp() - a.xact_start)::double precision AS seconds, NULL::bigint AS bytes
 FROM pg_stat_activity a
 WHERE a.xact_start IS NOT NULL AND a.pid <> pg_backend_pid() AND a.datname = current_database() AND a.backend_type = 'client backend'
 ORDER BY a.xact_start LIMIT 1)
UNION ALL
(SELECT 'prepared', p.gid, p.owner::text, NULL, NULL, extract(epoch FROM clock_timestamp() - p.prepared)::double precision, NULL
 FROM pg_prepared_xacts p WHERE p.database = current_database() ORDER BY p.prepared LIMIT 1)
UNION ALL
(SELECT 'slot', s.slot_name::text, NULL, NULL, NULL, NULL,
        CASE WHEN pg_is_in_recovery() THEN 0 ELSE pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn) END::bigint
 FROM pg_replication_slots s WHERE NOT s.active AND s.restart_lsn IS NOT NULL ORDER BY s.restart_lsn LIMIT 1)
UNION ALL
SELECT 'hidden', count(*)::text, NULL, NULL, NULL, NULL, count(*) FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.query = '<insufficient privilege>'
