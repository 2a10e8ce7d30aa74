-- The lines of one run after the cursor, the oldest first.
SELECT l.at, l.run_id, l.attempt, l.seq, l.worker, l.level, l.message, l.fields, l.job, l.tenant
FROM rota.logs l
WHERE l.run_id = %(run)s::bigint AND l.at >= %(low)s::timestamptz
  AND (%(attempt)s::integer IS NULL OR l.attempt = %(attempt)s::integer)
  AND (l.attempt, l.seq) > (%(of_attempt)s::integer, %(seq)s::integer)
ORDER BY l.attempt, l.seq
LIMIT %(limit)s::integer
