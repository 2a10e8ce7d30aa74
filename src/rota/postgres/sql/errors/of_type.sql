-- Groups whose type fits: a run that waits has the message of its last error only.
SELECT g.id FROM rota.error_groups g WHERE g.error_type ILIKE %(pattern)s::text ORDER BY g.last_seen_at DESC LIMIT 1000
