-- Schedules that would run, if code still declared their job.
SELECT s.name, s.tenant, s.job, j.deleted_from_code_at AS since, count(*) OVER () AS total
FROM rota.jobs j JOIN rota.schedules s ON s.job = j.name JOIN rota.schedule_state t ON t.schedule_id = s.id
WHERE j.deleted_from_code_at IS NOT NULL AND s.is_enabled AND s.paused_at IS NULL AND t.finished_at IS NULL
ORDER BY j.deleted_from_code_at DESC, s.id LIMIT %(limit)s::integer
