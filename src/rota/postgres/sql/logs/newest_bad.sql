-- The warnings and errors that match between the edge and the cursor, the newest first. The lines are picked by the order of time
-- first and looked at afterwards, one by one until the page is full: an index of words would bring all of a common one.
SELECT l.at, l.run_id, l.attempt, l.seq, l.worker, l.level, l.message, l.fields, l.job, l.tenant
FROM (
    SELECT * FROM rota.logs l
    WHERE l.at >= %(edge)s::timestamptz AND l.at <= %(at)s::timestamptz
      AND (l.at, l.run_id, l.attempt, l.seq) < (%(at)s::timestamptz, %(run_id)s::bigint, %(of_attempt)s::integer, %(seq)s::integer) AND l.level IN ('warning', 'error', 'critical')
    ORDER BY l.at DESC, l.run_id DESC, l.attempt DESC, l.seq DESC
    OFFSET 0
) l
WHERE (%(jobs)s::text[] IS NULL OR l.job = ANY (%(jobs)s::text[]))
  AND (%(levels)s::text[] IS NULL OR l.level = ANY (%(levels)s::text[]))
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
ORDER BY l.at DESC, l.run_id DESC, l.attempt DESC, l.seq DESC
LIMIT %(limit)s::integer
