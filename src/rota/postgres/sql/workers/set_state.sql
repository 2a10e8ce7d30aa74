UPDATE rota.workers
SET state = %(state)s::text, is_waiting = false,
    ended_at = CASE WHEN %(state)s::text = 'gone' THEN clock_timestamp() END
FROM (SELECT set_config('lock_timeout', '1s', true)) bound
WHERE id = %(worker)s::bigint AND state IN ('live', 'stopping')
