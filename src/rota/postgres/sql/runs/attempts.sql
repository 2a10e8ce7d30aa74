-- The attempts of a run, the first one first, or one of them. `place` is where each stands: the next page begins after it.
SELECT run_id, attempt, state, worker, started_at, finished_at, duration_ms, rota.listed_text(message, %(value_bytes)s::integer) AS message,
       rota.listed(details, %(value_bytes)s::integer, '/runs/{run_id}/attempts/{attempt}') AS details, error_type,
       rota.listed_text(error, %(value_bytes)s::integer) AS error, rota.listed_text(traceback, %(value_bytes)s::integer) AS traceback,
       is_redelivery, is_spent, jsonb_build_array(attempt) AS place
FROM rota.attempts
WHERE run_id = %(id)s::bigint AND (finished_at IS NULL OR finished_at >= %(since)s::timestamptz)
  AND (%(attempt)s::integer IS NULL OR attempt = %(attempt)s::integer)
  AND (%(after)s::jsonb IS NULL OR attempt > (%(after)s::jsonb ->> 0)::integer)
ORDER BY attempt LIMIT %(limit)s::integer
