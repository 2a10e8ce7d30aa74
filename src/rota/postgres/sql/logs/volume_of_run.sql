-- The same of one run, of its first `most` lines.
WITH found AS MATERIALIZED (
    SELECT floor(extract(epoch FROM l.at - %(since)s::timestamptz) / %(step)s::double precision)::integer AS n, l.at, l.level, l.job, l.worker
    FROM rota.logs l
    WHERE l.run_id = %(run)s::bigint AND l.at >= greatest(%(since)s::timestamptz, %(low)s::timestamptz) AND l.at < %(until)s::timestamptz
      AND
{logs/fitting}
    ORDER BY l.attempt, l.seq LIMIT %(run_most)s::integer
)
SELECT 'step' AS kind, f.n, f.level AS name, NULL::bigint AS worker, count(*) AS lines, NULL::timestamptz AS edge FROM found f GROUP BY f.n, f.level
UNION ALL (SELECT 'cut', NULL, NULL, NULL, count(*), max(f.at) FROM found f HAVING count(*) = %(run_most)s::integer)
UNION ALL (SELECT 'job', NULL, f.job, NULL, count(*), NULL FROM found f GROUP BY f.job)
UNION ALL (SELECT 'worker', NULL, NULL, f.worker, count(*), NULL FROM found f GROUP BY f.worker)
