-- What is due next. The index leads to the first ones; ten thousand of the same instant are not put in order by name.
SELECT d.name, d.tenant, d.job, d.next_run_at, d.is_paused FROM (
    SELECT s.name, s.tenant, s.job, s.next_run_at, s.paused_at IS NOT NULL AS is_paused, s.due_at
    FROM rota.schedules s JOIN rota.jobs j ON j.name = s.job
    WHERE s.is_ticking AND s.init IS NULL AND s.next_run_at IS NOT NULL AND NOT j.is_system
    ORDER BY s.due_at, s.id LIMIT %(limit)s::integer
) d ORDER BY d.due_at, d.name
