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
    WHERE (%(levels)s::text[] IS NULL OR l.level = ANY (%(levels)s::text[]))
      AND (%(tenant)s::text IS NULL OR l.tenant = %(tenant)s::text)
      AND (%(worker)s::bigint IS NULL OR l.worker = %(worker)s::bigint)
      AND (%(queue)s::text IS NULL OR l.job = ANY (%(sole)s::text[])
           OR (l.job = ANY (%(mixed)s::text[]) AND EXISTS (SELECT FROM rota.runs r WHERE r.id = l.run_id AND r.queue = %(queue)s::text)))
      AND (%(attempt)s::integer IS NULL OR l.attempt = %(attempt)s::integer)
      AND (%(hints)s::text[] = '{}' OR lower(l.message || ' ' || coalesce(l.fields::text, '')) LIKE ALL (%(hints)s::text[]))
      AND (%(query)s::text IS NULL
           OR (%(strangers)s::text[] <> '{}' AND NOT lower(l.message || ' ' || coalesce(l.fields::text, '')) LIKE ANY (%(strangers)s::text[]))
           OR rota.line_words(l.message, l.fields) @@ %(query)s::text::tsquery)
      AND (%(names)s::text[] = '{}' OR NOT EXISTS (
          SELECT FROM unnest(%(names)s::text[], %(values)s::text[]) f (name, value)
          WHERE coalesce(l.fields ->> f.name, l.fields #>> string_to_array(f.name, '.')) IS DISTINCT FROM f.value))
      AND (%(other_names)s::text[] = '{}' OR NOT EXISTS (
          SELECT FROM unnest(%(other_names)s::text[], %(other_values)s::text[]) f (name, value)
          WHERE coalesce(l.fields ->> f.name, l.fields #>> string_to_array(f.name, '.')) = f.value))
)
SELECT 'step' AS kind, f.n, f.level AS name, NULL::bigint AS worker, count(*) AS lines, NULL::timestamptz AS edge FROM found f GROUP BY f.n, f.level
UNION ALL SELECT 'cut', l.n, NULL, NULL, count(*), max(l.at) FROM looked l GROUP BY l.n HAVING count(*) >= %(most)s::integer
UNION ALL (SELECT 'job', NULL, f.job, NULL, count(*), NULL FROM found f GROUP BY f.job ORDER BY 5 DESC, 3 LIMIT %(names_most)s::integer)
UNION ALL (SELECT 'worker', NULL, NULL, f.worker, count(*), NULL FROM found f GROUP BY f.worker ORDER BY 5 DESC, 4 LIMIT %(names_most)s::integer)
