-- How workers and schedules stand. A worker is silent when its lease ran out and nobody has declared it lost yet.
SELECT w.live, w.draining, w.stopping, w.stuck, w.failing, w.silent, w.lost, w.slots, w.heartbeat_seconds,
       s.active AS schedules_active, s.paused AS schedules_paused, s.parked AS schedules_parked, s.overdue_seconds,
       (SELECT CASE WHEN d.is_called THEN d.last_value ELSE 0 END FROM rota.duplicates d) AS duplicates
FROM (
    SELECT count(*) FILTER (WHERE state = 'live' AND lease_expires_at > clock_timestamp() AND NOT is_stuck
                              AND trouble IS NULL AND drain_requested_at IS NULL) AS live,
           count(*) FILTER (WHERE state = 'live' AND lease_expires_at > clock_timestamp() AND NOT is_stuck
                              AND trouble IS NULL AND drain_requested_at IS NOT NULL) AS draining,
           count(*) FILTER (WHERE state = 'stopping' AND lease_expires_at > clock_timestamp()) AS stopping,
           count(*) FILTER (WHERE state = 'live' AND lease_expires_at > clock_timestamp() AND is_stuck) AS stuck,
           count(*) FILTER (WHERE state = 'live' AND lease_expires_at > clock_timestamp() AND NOT is_stuck
                              AND trouble IS NOT NULL) AS failing,
           count(*) FILTER (WHERE state IN ('live', 'stopping') AND lease_expires_at <= clock_timestamp()) AS silent,
           count(*) FILTER (WHERE state = 'lost' AND ended_at > clock_timestamp() - interval '1 hour') AS lost,
           coalesce(sum(concurrency) FILTER (WHERE state = 'live' AND lease_expires_at > clock_timestamp()), 0)::bigint AS slots,
           extract(epoch FROM clock_timestamp() - min(heartbeat_at) FILTER (WHERE state IN ('live', 'stopping')))::double precision
               AS heartbeat_seconds
    FROM rota.workers
) w, (
    SELECT count(*) FILTER (WHERE is_ticking AND paused_at IS NULL) AS active, count(*) FILTER (WHERE paused_at IS NOT NULL) AS paused,
           count(*) FILTER (WHERE parked_at IS NOT NULL) AS parked,
           greatest(0, extract(epoch FROM rota.now() - min(due_at) FILTER (WHERE is_ticking AND init IS NULL AND due_at > '1000-01-02Z')
           ))::double precision AS overdue_seconds
    FROM rota.schedules
) s
