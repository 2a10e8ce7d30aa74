-- The days that lines are kept by, the oldest first.
SELECT p.from_at, p.to_at FROM rota.history_parts() p
WHERE p.state = 'attached' AND p.parent = 'logs' ORDER BY p.from_at
