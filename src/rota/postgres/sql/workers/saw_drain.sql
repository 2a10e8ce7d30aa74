UPDATE rota.workers SET drain_seen_at = clock_timestamp()
FROM (SELECT set_config('lock_timeout', '1s', true)) bound
WHERE id = %(worker)s::bigint AND drain_requested_at IS NOT NULL AND drain_seen_at IS NULL
