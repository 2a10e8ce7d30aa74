SELECT id, job, queue, state, priority, payload, run_at, attempt, max_attempts, key, tenant, tags, metadata, schedule,
       scheduled_for, triggered_by, worker, last_error, message, result, created_at, started_at, finished_at, duration_ms,
       expires_at, end_reason, attempts_used, progress, held_by
FROM rota.runs r
WHERE (%(states)s::text[] IS NULL OR state = ANY (%(states)s::text[]))
  AND (%(job)s::text IS NULL OR job = %(job)s::text)
  AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
  AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s::text)
  AND (%(tag)s::text IS NULL OR %(tag)s::text = ANY (tags))
  AND (%(key)s::text IS NULL OR key = %(key)s::text)
  AND (%(since)s::timestamptz IS NULL OR created_at >= %(since)s::timestamptz)
  -- Follows from the line above, and spares partitions, and what lies further down the index.
  AND (%(since)s::timestamptz IS NULL OR finished_at IS NULL OR finished_at >= %(since)s::timestamptz)
  AND (%(after_id)s::bigint IS NULL OR id > %(after_id)s::bigint)
  AND (%(before_id)s::bigint IS NULL OR id < %(before_id)s::bigint)
ORDER BY id DESC
LIMIT %(limit)s::integer
