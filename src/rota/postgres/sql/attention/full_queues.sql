-- Queues that have as much waiting as they may, the longest first.
SELECT q.name, c.waiting, q.max_waiting, q.when_full, c.full_since
FROM rota.queues q JOIN rota.queue_caps c ON c.queue = q.name
WHERE q.max_waiting IS NOT NULL AND c.full_since IS NOT NULL ORDER BY c.full_since, q.name
