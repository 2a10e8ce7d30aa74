-- The server and this database. Connections are those of all databases, as the limit is.
SELECT current_setting('server_version') AS version, current_setting('server_version_num')::integer AS number,
       extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::double precision AS up_seconds,
       current_setting('fsync') = 'on' AS is_fsync, current_setting('full_page_writes') = 'on' AS is_full_page,
       current_setting('autovacuum') = 'on' AS is_autovacuum, current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer AS most_connections,
       (SELECT sum(d.numbackends) FROM pg_stat_database d)::bigint AS connections,
       (SELECT count(*) FROM pg_stat_activity a WHERE a.datname = current_database() AND a.application_name LIKE 'rota%%') AS own_connections,
       pg_notification_queue_usage() AS notify_usage,
       (SELECT age(d.datfrozenxid) FROM pg_database d WHERE d.datname = current_database())::bigint AS xid_age,
       current_setting('autovacuum_freeze_max_age')::bigint AS freeze_age,
       pg_database_size(current_database()) AS bytes,
       clock_timestamp() AS clock, extract(epoch FROM (SELECT s.clock_offset FROM rota.settings s))::double precision AS clock_offset
