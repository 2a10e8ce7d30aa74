UPDATE rota.workers SET drain_seen_at = clock_timestamp()
WHERE id = %(worker)s::bigint AND drain_requested_at IS NOT NULL AND drain_seen_at IS NULL
