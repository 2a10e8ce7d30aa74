-- What is due next. The index leads to the first ones; ten thousand of the same instant are not put in order by name.
SELECT d.name, d.tenant, d.job, d.next_run_at, d.is_paused FROM (
    SELECT s.name, s.tenant, s.job, t.next_run_at, s.paused_at IS NOT NULL AS is_paused, t.due_at
    FROM rota.schedule_state t JOIN rota.schedules s ON s.id = t.schedule_id JOIN rota.jobs j ON j.name = s.job
    WHERE t.due_at IS NOT NULL AND t.next_run_at IS NOT NULL AND NOT j.is_system
    ORDER BY t.due_at, t.schedule_id LIMIT %(limit)s::integer
) d ORDER BY d.due_at, d.name
