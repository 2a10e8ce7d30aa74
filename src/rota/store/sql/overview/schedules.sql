-- What is due next.
SELECT s.name, s.tenant, s.job, s.next_run_at, s.paused_at IS NOT NULL AS is_paused
FROM rota.schedules s JOIN rota.jobs j ON j.name = s.job
WHERE s.is_ticking AND s.init IS NULL AND s.next_run_at IS NOT NULL AND NOT j.is_system
ORDER BY s.due_at, s.name LIMIT %(limit)s::integer
