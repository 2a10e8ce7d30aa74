-- As list, the oldest first.
SELECT id, job, queue, state, priority, payload, run_at, attempt, max_attempts, key, tenant, tags, metadata, schedule,
       scheduled_for, triggered_by, worker, last_error, message, result, created_at, started_at, finished_at, duration_ms,
       expires_at, end_reason, attempts_used, progress, held_by, enqueued_at
FROM rota.run_rows r
WHERE id > %(low)s::bigint AND id <= %(high)s::bigint
  -- Nothing created later than this can have ended before: spares partitions.
  AND (%(ended_after)s::timestamptz IS NULL OR finished_at IS NULL OR finished_at >= %(ended_after)s::timestamptz)
  -- What has ended is among the open ones only if it expired.
  AND (NOT %(are_ended)s::boolean OR is_ended OR (%(with_expired)s::boolean AND expires_at <= rota.now()))
  AND (%(states)s::text[] IS NULL OR state = ANY (%(states)s::text[]))
  AND (NOT %(is_dead)s::boolean OR attempts_used >= max_attempts)
  AND (%(job)s::text IS NULL OR job = %(job)s::text)
  AND (%(system)s::boolean OR queue <> 'rota' || '.system')
  AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
  AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s::text)
  AND (%(tag)s::text IS NULL OR %(tag)s::text = ANY (tags))
  AND (%(key)s::text IS NULL OR key = %(key)s::text)
  AND (%(schedule)s::text IS NULL OR schedule = %(schedule)s::text)
  AND (%(since)s::timestamptz IS NULL OR created_at >= %(since)s::timestamptz)
  AND (%(until)s::timestamptz IS NULL OR created_at < %(until)s::timestamptz)
ORDER BY id
LIMIT %(limit)s::integer
