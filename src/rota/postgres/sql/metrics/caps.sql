-- Queues that have a cap, the fullest first.
SELECT q.name AS queue, q.max_waiting, c.waiting FROM rota.queue_caps c JOIN rota.queues q ON q.name = c.queue AND q.max_waiting IS NOT NULL
ORDER BY c.waiting::double precision / greatest(q.max_waiting, 1) DESC, q.name LIMIT %(most)s::integer
