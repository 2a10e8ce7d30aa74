-- Schedules whose time came a minute ago or more, and nobody has decided about it. A pending one has no time yet: it waits since
-- it was written.
SELECT s.name, s.tenant, x.since, x.is_pending, count(*) OVER () AS total,
       (SELECT count(*) FROM rota.workers w WHERE w.state = 'live' AND w.lease_expires_at > clock_timestamp()) AS workers
FROM rota.schedules s
CROSS JOIN LATERAL (SELECT s.due_at < '1000-01-02Z' AS is_pending,
                           CASE WHEN s.due_at < '1000-01-02Z' THEN s.updated_at ELSE s.due_at END AS since) x
WHERE s.is_ticking AND s.init IS NULL AND s.due_at < rota.now() - interval '1 minute' AND x.since < rota.now() - interval '1 minute'
ORDER BY s.due_at, s.id LIMIT %(limit)s::integer
