-- As list, the oldest first.
SELECT id, job, queue, state, priority, rota.listed(payload, %(value_bytes)s::integer, '/runs/{run_id}') AS payload, run_at, attempt, max_attempts, key, tenant, tags, rota.listed(metadata, %(value_bytes)s::integer, '/runs/{run_id}') AS metadata, schedule,
       scheduled_for, triggered_by, worker, rota.listed_text(last_error, %(value_bytes)s::integer) AS last_error, rota.listed_text(message, %(value_bytes)s::integer) AS message, rota.listed(result, %(value_bytes)s::integer, '/runs/{run_id}') AS result, created_at, started_at, finished_at, duration_ms,
       expires_at, end_reason, attempts_used, progress, held_by, enqueued_at, error_group
FROM rota.run_rows r
{runs/fitting}
ORDER BY id
LIMIT %(limit)s::integer
