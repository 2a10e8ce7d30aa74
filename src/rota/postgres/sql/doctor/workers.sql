-- Leases and releases of those that live.
SELECT count(*) AS live, coalesce(sum(w.concurrency), 0)::bigint AS slots,
       extract(epoch FROM min(w.lease_expires_at) - clock_timestamp())::double precision AS lease_left,
       extract(epoch FROM clock_timestamp() - min(w.heartbeat_at))::double precision AS heartbeat_seconds,
       (array_agg(w.name ORDER BY w.lease_expires_at))[1] AS oldest_name, (array_agg(w.lease_seconds ORDER BY w.lease_expires_at))[1] AS lease_seconds,
       coalesce(array_agg(DISTINCT w.version), '{}') AS versions
FROM rota.workers w WHERE w.state IN ('live', 'stopping')
