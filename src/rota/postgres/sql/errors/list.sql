-- Groups of errors, with what happened in a range. `place` is where each stands in the order: the next page begins after it.
WITH recent AS MATERIALIZED (
    SELECT c.error_group, sum(c.failures)::bigint AS failures, sum(c.runs)::bigint AS runs
    FROM rota.error_counts c WHERE c.at >= %(since)s::timestamptz GROUP BY c.error_group
), total AS (
    SELECT coalesce(sum(r.failures), 0)::bigint AS failures FROM recent r
)
SELECT e.id, e.error_type, e.error, e.file, e.line, e.function,
       ARRAY(SELECT DISTINCT c.job FROM rota.error_counts c
             WHERE c.error_group = e.id AND c.at >= e.last_seen_at - interval '30 days' ORDER BY c.job LIMIT 100) AS jobs,
       e.standing, e.first_seen_at, e.last_seen_at, e.failures, e.runs, coalesce(r.failures, 0) AS recent_failures,
       coalesce(r.runs, 0) AS recent_runs, coalesce(r.failures::double precision / nullif(t.failures, 0), 0) AS share,
       ARRAY(SELECT coalesce(b.failures, 0) FROM generate_series(0, %(steps)s::integer - 1) AS s (n)
             LEFT JOIN (SELECT floor(date_part('epoch', c.at - %(since)s::timestamptz) / %(step)s::double precision) AS n, sum(c.failures)::bigint AS failures
                        FROM rota.error_counts c WHERE c.error_group = e.id AND c.at >= %(since)s::timestamptz GROUP BY 1) b ON b.n = s.n
             ORDER BY s.n) AS counts,
       e.last_run_id, e.returned_at, e.quiet_since, e.handled_at, e.handled_by, e.handled_reason,
       jsonb_build_array(p.place, e.id) AS place
FROM rota.errors e CROSS JOIN total t LEFT JOIN recent r ON r.error_group = e.id
CROSS JOIN LATERAL (
    SELECT CASE %(order)s::text WHEN 'most' THEN -coalesce(r.failures, 0) WHEN 'first' THEN -date_part('epoch', e.first_seen_at)
                ELSE -date_part('epoch', e.last_seen_at) END AS place) p
WHERE (%(id)s::text IS NULL OR e.id = %(id)s::text)
  AND (%(system)s::boolean OR NOT e.is_system)
  AND (NOT %(is_active)s::boolean OR e.last_seen_at >= %(since)s::timestamptz)
  AND (%(standings)s::text[] IS NULL OR e.standing = ANY (%(standings)s::text[]))
  AND (%(job)s::text IS NULL OR EXISTS (SELECT FROM rota.error_counts c WHERE c.error_group = e.id AND c.job = ANY ((SELECT rota.names_of(%(job)s::text))::text[])))
  AND (%(texts)s::text[] IS NULL OR concat_ws(' ', e.error_type || ': ' || e.error, e.file, e.function) ILIKE ALL (%(texts)s::text[]))
  AND (%(not_names)s::text[] = '{}' OR NOT EXISTS (
      SELECT FROM unnest(%(not_names)s::text[], %(not_values)s::text[], %(not_patterns)s::text[]) x (name, wanted, pattern)
      WHERE CASE x.name
          WHEN 'standing' THEN e.standing = x.wanted
          WHEN 'job' THEN EXISTS (SELECT FROM rota.error_counts c WHERE c.error_group = e.id AND c.job = ANY ((SELECT rota.names_of(x.wanted))::text[]))
          WHEN 'text' THEN concat_ws(' ', e.error_type || ': ' || e.error, e.file, e.function) ILIKE x.pattern END))
  AND (%(after)s::jsonb IS NULL OR (p.place, e.id) > ((%(after)s::jsonb ->> 0)::double precision, %(after)s::jsonb ->> 1))
ORDER BY p.place, e.id LIMIT %(limit)s::integer
