-- The last lines of a run, the newest first. No line is older than its run.
SELECT at, run_id, attempt, seq, worker, level, message, fields
FROM rota.logs
WHERE run_id = %(id)s::bigint AND at >= %(since)s::timestamptz
ORDER BY attempt DESC, seq DESC
LIMIT %(limit)s::integer
