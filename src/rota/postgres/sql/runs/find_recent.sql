-- The bounds come as values, so that the planner opens the partitions between them only.
SELECT id, job, queue, state, priority, payload, run_at, attempt, max_attempts, key, tenant, tags, metadata, schedule,
       scheduled_for, triggered_by, worker, last_error, message, result, created_at, started_at, finished_at, duration_ms,
       expires_at, end_reason, attempts_used, progress, held_by, enqueued_at, error_group
FROM rota.runs WHERE id = %(id)s::bigint AND finished_at >= %(since)s::timestamptz AND finished_at < %(until)s::timestamptz
