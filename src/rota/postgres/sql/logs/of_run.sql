-- The last lines of a run, the newest first. No line is older than its run.
SELECT l.at, l.run_id, l.attempt, l.seq, l.worker, l.level, l.message, l.fields, l.job, l.tenant
FROM rota.logs l
WHERE l.run_id = %(id)s::bigint AND l.at >= %(since)s::timestamptz
ORDER BY l.attempt DESC, l.seq DESC
LIMIT %(limit)s::integer
