-- Which of these runs there are, and in which state. None was created before the instant.
SELECT id, job, state, tenant FROM rota.runs
WHERE id = ANY (%(ids)s::bigint[]) AND (%(since)s::timestamptz IS NULL OR finished_at IS NULL OR finished_at >= %(since)s::timestamptz)
