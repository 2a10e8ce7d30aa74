-- How many lines there are in each of some steps, by level, with the jobs and workers that wrote most. In each step only the first
-- `most` lines are looked at, so that ten million cost no more than a page of them: a step where there are more says
-- until when it was looked at (edge), and its figures are those of that part.
WITH looked AS MATERIALIZED (
    SELECT b.n, l.*
    FROM (SELECT n, %(since)s::timestamptz + n * make_interval(secs => %(step)s::double precision) AS low,
                 least(%(since)s::timestamptz + (n + 1) * make_interval(secs => %(step)s::double precision), %(until)s::timestamptz) AS high
          FROM generate_series(0, %(steps)s::integer - 1) AS n) b
    CROSS JOIN LATERAL (
        (SELECT * FROM rota.logs l
         WHERE %(jobs)s::text[] IS NULL AND l.at >= b.low AND l.at < b.high
           AND (NOT %(is_bad)s::boolean OR l.level IN ('warning', 'error', 'critical'))
         ORDER BY l.at LIMIT %(most)s::integer)
        UNION ALL
        -- In an order that only the index of jobs has: by that of time all lines of a step would be read.
        (SELECT l.* FROM unnest(%(jobs)s::text[]) AS w (job) CROSS JOIN LATERAL (
             SELECT * FROM rota.logs l
             WHERE (l.job, l.at) >= (w.job, b.low) AND (l.job, l.at) < (w.job, b.high)
               AND l.at >= b.low AND l.at < b.high
               AND (NOT %(is_bad)s::boolean OR l.level IN ('warning', 'error', 'critical'))
             ORDER BY l.job, l.at LIMIT %(most)s::integer) l)
    ) l
), found AS (
    SELECT l.n, l.level, l.job, l.worker FROM looked l
    WHERE
{logs/fitting}
)
SELECT 'step' AS kind, f.n, f.level AS name, NULL::bigint AS worker, count(*) AS lines, NULL::timestamptz AS edge FROM found f GROUP BY f.n, f.level
UNION ALL SELECT 'cut', l.n, NULL, NULL, count(*), max(l.at) FROM looked l GROUP BY l.n HAVING count(*) >= %(most)s::integer
UNION ALL (SELECT 'job', NULL, f.job, NULL, count(*), NULL FROM found f GROUP BY f.job ORDER BY 5 DESC, 3 LIMIT %(names_most)s::integer)
UNION ALL (SELECT 'worker', NULL, NULL, f.worker, count(*), NULL FROM found f GROUP BY f.worker ORDER BY 5 DESC, 4 LIMIT %(names_most)s::integer)
