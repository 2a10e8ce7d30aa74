-- How workers and schedules stand. A worker is silent when its lease ran out and nobody has declared it lost yet.
SELECT w.live, w.draining, w.stopping, w.stuck, w.failing, w.silent, w.asleep, w.lost, w.slots, w.heartbeat_seconds, w.memory_bytes, w.memory_most_bytes, w.cpu_cores,
       s.active AS schedules_active, s.paused AS schedules_paused, s.parked AS schedules_parked, s.overdue_seconds,
       (SELECT CASE WHEN d.is_called THEN d.last_value ELSE 0 END FROM rota.duplicates d) AS duplicates,
       (SELECT CASE WHEN e.is_called THEN e.last_value ELSE 0 END FROM rota.event_ids e) AS events,
       (SELECT CASE WHEN e.is_called THEN e.last_value ELSE 0 END FROM rota.event_starts e) AS event_starts,
       (SELECT CASE WHEN h.is_called THEN h.last_value ELSE 0 END FROM rota.hook_refused h) AS hook_refusals,
       (SELECT count(*) FROM rota.queues q WHERE rota.queue_is_paused(q)) AS queues_paused,
       (SELECT count(*) FROM rota.queue_caps c WHERE c.full_since IS NOT NULL) AS queues_full,
       (SELECT CASE WHEN r.is_called THEN r.last_value ELSE 0 END FROM rota.queue_refusals r) AS queue_refusals
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
           count(*) FILTER (WHERE rota.is_asleep(w)) AS asleep,
           count(*) FILTER (WHERE state = 'lost' AND ended_at > clock_timestamp() - interval '1 hour') AS lost,
           coalesce(sum(concurrency) FILTER (WHERE state = 'live' AND lease_expires_at > clock_timestamp()), 0)::bigint AS slots,
           extract(epoch FROM clock_timestamp() - min(heartbeat_at) FILTER (WHERE state IN ('live', 'stopping')))::double precision
               AS heartbeat_seconds,
           sum(memory_bytes) FILTER (WHERE state IN ('live', 'stopping'))::bigint AS memory_bytes,
           max(memory_bytes) FILTER (WHERE state IN ('live', 'stopping')) AS memory_most_bytes,
           sum(cpu_cores) FILTER (WHERE state IN ('live', 'stopping'))::double precision AS cpu_cores
    FROM rota.workers w
) w, (
    SELECT count(*) FILTER (WHERE s.is_enabled AND s.paused_at IS NULL AND t.finished_at IS NULL AND t.parked_at IS NULL) AS active,
           count(*) FILTER (WHERE s.paused_at IS NOT NULL) AS paused, count(*) FILTER (WHERE t.parked_at IS NOT NULL) AS parked,
           greatest(0, extract(epoch FROM rota.now() - min(t.due_at) FILTER (WHERE t.due_at > '1000-01-02Z')))::double precision AS overdue_seconds
    FROM rota.schedules s JOIN rota.schedule_state t ON t.schedule_id = s.id
) s
