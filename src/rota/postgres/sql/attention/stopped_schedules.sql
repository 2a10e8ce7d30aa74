-- Schedules that were paused by Rota itself, because their runs failed.
SELECT s.name, s.tenant, s.paused_at AS since, s.pause_reason, count(*) OVER () AS total
FROM rota.schedules s JOIN rota.schedule_state t ON t.schedule_id = s.id
WHERE s.paused_by = 'rota' AND s.paused_at IS NOT NULL AND s.is_enabled AND t.finished_at IS NULL
ORDER BY s.paused_at DESC, s.id LIMIT %(limit)s::integer
