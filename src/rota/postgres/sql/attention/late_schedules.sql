-- Schedules whose time came a minute ago or more, and nobody has decided about it. A pending one has no time yet: it waits since
-- it was written.
SELECT s.name, s.tenant, x.since, x.is_pending, count(*) OVER () AS total,
       (SELECT count(*) FROM rota.workers w WHERE w.state = 'live' AND w.lease_expires_at > clock_timestamp()) AS workers
FROM rota.schedule_state t JOIN rota.schedules s ON s.id = t.schedule_id
CROSS JOIN LATERAL (SELECT t.due_at < '1000-01-02Z' AS is_pending,
                           CASE WHEN t.due_at < '1000-01-02Z' THEN s.updated_at ELSE t.due_at END AS since) x
WHERE t.due_at < rota.now() - interval '1 minute' AND x.since < rota.now() - interval '1 minute'
ORDER BY t.due_at, t.schedule_id LIMIT %(limit)s::integer
