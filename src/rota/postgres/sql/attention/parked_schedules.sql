-- Schedules that cannot be followed.
SELECT s.name, s.tenant, t.parked_at AS since, t.error, t.retry_at, count(*) OVER () AS total
FROM rota.schedule_state t JOIN rota.schedules s ON s.id = t.schedule_id WHERE t.parked_at IS NOT NULL ORDER BY t.parked_at, s.id LIMIT %(limit)s::integer
