-- The matches among the next lines of one job before the cursor, the newest first.
-- edge: all from there up to the cursor has been looked at.
WITH edge AS MATERIALIZED (
    SELECT coalesce((SELECT l.at FROM rota.logs l WHERE l.at >= %(low)s::timestamptz AND l.at <= %(at)s::timestamptz AND l.job = %(job)s::text
                     ORDER BY l.at DESC OFFSET %(chunk)s::integer LIMIT 1), %(low)s::timestamptz) AS at
)
SELECT (SELECT at FROM edge) AS edge, found.*
FROM (SELECT 1) one
LEFT JOIN LATERAL (
    SELECT l.at, l.run_id, l.attempt, l.seq, l.worker, l.level, l.message, l.fields, l.job, l.tenant
    FROM rota.logs l
    WHERE l.at >= (SELECT at FROM edge) AND l.at >= %(low)s::timestamptz AND l.at <= %(at)s::timestamptz
          AND (l.at, l.run_id, l.attempt, l.seq) < (%(at)s::timestamptz, %(run_id)s::bigint, %(of_attempt)s::integer, %(seq)s::integer) AND l.job = %(job)s::text
          AND (%(job)s::text IS NULL OR l.job = %(job)s::text)
          AND (%(levels)s::text[] IS NULL OR l.level = ANY (%(levels)s::text[]))
          AND (%(tenant)s::text IS NULL OR l.tenant = %(tenant)s::text)
          AND (%(attempt)s::integer IS NULL OR l.attempt = %(attempt)s::integer)
          AND (%(hints)s::text[] = '{}' OR lower(l.message || ' ' || coalesce(l.fields::text, '')) LIKE ALL (%(hints)s::text[]))
          AND (%(query)s::text IS NULL OR rota.log_words(l.message, l.fields) @@ %(query)s::text::tsquery)
          AND (%(names)s::text[] = '{}' OR NOT EXISTS (
              SELECT FROM unnest(%(names)s::text[], %(values)s::text[]) f (name, value)
              WHERE coalesce(l.fields ->> f.name, l.fields #>> string_to_array(f.name, '.')) IS DISTINCT FROM f.value))
          AND (%(other_names)s::text[] = '{}' OR NOT EXISTS (
              SELECT FROM unnest(%(other_names)s::text[], %(other_values)s::text[]) f (name, value)
              WHERE coalesce(l.fields ->> f.name, l.fields #>> string_to_array(f.name, '.')) = f.value))
    ORDER BY l.at DESC, l.run_id DESC, l.attempt DESC, l.seq DESC
    LIMIT %(limit)s::integer
) found ON true
