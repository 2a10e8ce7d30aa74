-- The matches of one job between the edge and the cursor, the newest first. The lines are picked by the order of time
-- first and looked at afterwards, one by one until the page is full: an index of words would bring all of a common one.
SELECT l.at, l.run_id, l.attempt, l.seq, l.worker, l.level, l.message, l.fields, l.job, l.tenant
FROM (
    SELECT * FROM rota.logs l
    WHERE l.at >= %(edge)s::timestamptz AND l.at <= %(at)s::timestamptz
      AND (l.at, l.run_id, l.attempt, l.seq) < (%(at)s::timestamptz, %(run_id)s::bigint, %(of_attempt)s::integer, %(seq)s::integer) AND l.job = %(job)s::text
    ORDER BY l.at DESC, l.run_id DESC, l.attempt DESC, l.seq DESC
    OFFSET 0
) l
WHERE
{logs/fitting}
ORDER BY l.at DESC, l.run_id DESC, l.attempt DESC, l.seq DESC
LIMIT %(limit)s::integer
