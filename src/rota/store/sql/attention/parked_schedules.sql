-- Schedules that cannot be followed.
SELECT s.name, s.tenant, s.parked_at AS since, s.error, s.retry_at, count(*) OVER () AS total
FROM rota.schedules s WHERE s.parked_at IS NOT NULL ORDER BY s.parked_at, s.id LIMIT %(limit)s::integer
