-- What has come in the last seconds, for a tail.
SELECT l.at, l.run_id, l.attempt, l.seq, l.worker, l.level, l.message, l.fields, l.job, l.tenant
FROM rota.logs l
WHERE l.at >= rota.now() - make_interval(secs => %(seconds)s::double precision)
          AND (%(run)s::bigint IS NULL OR l.run_id = %(run)s::bigint)
          AND
{logs/fitting}
ORDER BY l.at DESC, l.run_id DESC, l.attempt DESC, l.seq DESC
LIMIT %(limit)s::integer
