-- Who has a place, the first first.
SELECT o.id, o.job, o.queue, o.state, substr(k.key, length(rota.first_key(l)) + 1) AS value, coalesce(o.started_at, o.enqueued_at) AS since, o.worker
FROM rota.limits l
JOIN rota.open_runs o ON o.slots IS NOT NULL
CROSS JOIN LATERAL (SELECT u AS key FROM unnest(o.slots) u WHERE u >= rota.first_key(l) AND u < rota.last_key(l)) k
WHERE l.tenant = %(tenant)s::text AND l.name = %(name)s::text
ORDER BY o.id LIMIT 100
