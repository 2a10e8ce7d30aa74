SELECT run_id, attempt, state, worker, started_at, finished_at, duration_ms, message, details, error_type, error, traceback,
       is_redelivery, is_spent
FROM rota.attempts
WHERE run_id = %(id)s::bigint AND (finished_at IS NULL OR finished_at >= %(since)s::timestamptz)
ORDER BY attempt
