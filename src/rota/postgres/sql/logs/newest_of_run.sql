-- The matches of one run before the cursor, the newest first. No line is older than its run.
SELECT l.at, l.run_id, l.attempt, l.seq, l.worker, l.level, l.message, l.fields, l.job, l.tenant
FROM rota.logs l
WHERE l.run_id = %(run)s::bigint AND l.at >= %(low)s::timestamptz AND l.at < %(high)s::timestamptz
          AND (l.attempt, l.seq) < (%(of_attempt)s::integer, %(seq)s::integer)
          AND
{logs/fitting}
ORDER BY l.attempt DESC, l.seq DESC
LIMIT %(limit)s::integer
