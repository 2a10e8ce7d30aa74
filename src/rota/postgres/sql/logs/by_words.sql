-- Matches in one span of time by the index of its words: for words that are rare, as all of them are read.
WITH found AS MATERIALIZED (
    SELECT l.at, l.run_id, l.attempt, l.seq, l.worker, l.level, l.message, l.fields, l.job, l.tenant
    FROM rota.logs l
    WHERE l.at >= %(low)s::timestamptz AND l.at < %(high)s::timestamptz
          AND (l.at, l.run_id, l.attempt, l.seq) < (%(at)s::timestamptz, %(run_id)s::bigint, %(of_attempt)s::integer, %(seq)s::integer)
          AND
{logs/fitting}
)
SELECT * FROM found ORDER BY at DESC, run_id DESC, attempt DESC, seq DESC LIMIT %(limit)s::integer
