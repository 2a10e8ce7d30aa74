-- The same of one run, of its first `most` lines.
WITH found AS MATERIALIZED (
    SELECT floor(extract(epoch FROM l.at - %(since)s::timestamptz) / %(step)s::double precision)::integer AS n, l.at, l.level, l.job, l.worker
    FROM rota.logs l
    WHERE l.run_id = %(run)s::bigint AND l.at >= greatest(%(since)s::timestamptz, %(low)s::timestamptz) AND l.at < %(until)s::timestamptz
      AND (%(jobs)s::text[] IS NULL OR l.job = ANY (%(jobs)s::text[]))
      AND (%(levels)s::text[] IS NULL OR l.level = ANY (%(levels)s::text[]))
      AND (%(tenant)s::text IS NULL OR l.tenant = %(tenant)s::text)
      AND (%(worker)s::bigint IS NULL OR l.worker = %(worker)s::bigint)
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
    ORDER BY l.attempt, l.seq LIMIT %(run_most)s::integer
)
SELECT 'step' AS kind, f.n, f.level AS name, NULL::bigint AS worker, count(*) AS lines, NULL::timestamptz AS edge FROM found f GROUP BY f.n, f.level
UNION ALL (SELECT 'cut', NULL, NULL, NULL, count(*), max(f.at) FROM found f HAVING count(*) = %(run_most)s::integer)
UNION ALL (SELECT 'job', NULL, f.job, NULL, count(*), NULL FROM found f GROUP BY f.job)
UNION ALL (SELECT 'worker', NULL, NULL, f.worker, count(*), NULL FROM found f GROUP BY f.worker)
