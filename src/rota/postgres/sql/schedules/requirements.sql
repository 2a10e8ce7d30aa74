-- When each required schedule or job last succeeded, and whether its last run did; and what is wrong with what the schedule requires, if it was
-- written past the checks.
SELECT n.name,
       coalesce(t.last_success_at, j.last_success_at) AS last_success_at,
       coalesce(t.last_run_success, j.last_run_success) AS last_run_success, f.fault
FROM unnest(%(names)s::text[]) AS n (name)
LEFT JOIN rota.schedules s ON s.tenant = %(tenant)s::text AND s.name = n.name
LEFT JOIN rota.schedule_state t ON t.schedule_id = s.id
LEFT JOIN LATERAL (
    SELECT max(success.finished_at) AS last_success_at,
           (array_agg(run.state = 'succeeded' ORDER BY run.finished_at DESC NULLS LAST))[1] AS last_run_success
    FROM unnest(rota.names_of(n.name)) AS w (job)
    LEFT JOIN LATERAL (SELECT e.finished_at FROM rota.ended_runs e WHERE e.job = w.job AND e.state = 'succeeded'
        ORDER BY e.finished_at DESC LIMIT 1) success ON true
    LEFT JOIN LATERAL (SELECT e.finished_at, e.state FROM rota.ended_runs e WHERE e.job = w.job
        ORDER BY e.finished_at DESC LIMIT 1) run ON true
) j ON s.id IS NULL
CROSS JOIN (SELECT rota.requirement_fault(o) AS fault FROM rota.schedules o WHERE o.id = %(id)s::bigint) f
