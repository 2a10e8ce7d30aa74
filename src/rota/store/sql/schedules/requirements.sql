-- When each required schedule or job last succeeded, and whether its last run did; and what is wrong with what the schedule requires, if it was
-- written past the checks.
SELECT n.name,
       coalesce(t.last_success_at, j.last_success_at) AS last_success_at,
       coalesce(t.last_run_success, j.last_run_success) AS last_run_success, f.fault
FROM unnest(%(names)s::text[]) AS n (name)
LEFT JOIN rota.schedules s ON s.tenant = %(tenant)s::text AND s.name = n.name
LEFT JOIN rota.schedule_state t ON t.schedule_id = s.id
LEFT JOIN LATERAL (
    SELECT (SELECT e.finished_at FROM rota.ended_runs e WHERE e.job = n.name AND e.state = 'succeeded'
            ORDER BY e.finished_at DESC LIMIT 1) AS last_success_at,
           (SELECT e.state = 'succeeded' FROM rota.ended_runs e WHERE e.job = n.name ORDER BY e.finished_at DESC LIMIT 1) AS last_run_success
) j ON s.id IS NULL
CROSS JOIN (SELECT rota.requirement_fault(o) AS fault FROM rota.schedules o WHERE o.id = %(id)s::bigint) f
