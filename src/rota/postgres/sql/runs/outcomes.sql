-- How these runs stand, those that there are. None was created before the instant.
SELECT id, state, enqueued_at, duration_ms, rota.listed_text(last_error, %(value_bytes)s::integer) AS last_error FROM rota.runs
WHERE id = ANY (%(ids)s::bigint[]) AND (%(since)s::timestamptz IS NULL OR finished_at IS NULL OR finished_at >= %(since)s::timestamptz)
