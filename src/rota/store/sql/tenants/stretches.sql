-- The days and weeks that attempts and lines are kept by, the oldest first.
SELECT DISTINCT p.from_at, p.to_at FROM rota.history_parts() p
WHERE p.state = 'attached' AND (p.parent = 'logs' OR p.parent LIKE 'past\_attempts\_%%') ORDER BY p.from_at, p.to_at
