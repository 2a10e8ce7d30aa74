-- Who waits for a place now, in the order of each counter.
SELECT o.id, o.job, o.queue, o.state, substr(o.limit_key, length(rota.first_key(l)) + 1) AS value, o.enqueued_at AS since, o.worker
FROM rota.limits l
JOIN rota.open_runs o ON o.held_by = 'limit' AND o.limit_key >= rota.first_key(l) AND o.limit_key < rota.last_key(l)
WHERE l.tenant = %(tenant)s::text AND l.name = %(name)s::text
ORDER BY o.limit_key, o.priority, o.seq LIMIT 100
