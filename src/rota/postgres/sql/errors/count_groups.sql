-- How many groups of a filter there are, by standing; with all failures of the range, which are counted once for all groups.
WITH recent AS MATERIALIZED (
    SELECT c.error_group, sum(c.failures)::bigint AS failures FROM rota.error_counts c
    WHERE c.at >= %(since)s::timestamptz GROUP BY c.error_group
)
SELECT e.standing, count(*)::bigint AS groups, coalesce(sum(r.failures), 0)::bigint AS failures
FROM rota.errors e LEFT JOIN recent r ON r.error_group = e.id
WHERE (%(system)s::boolean OR NOT e.is_system)
  AND (NOT %(is_active)s::boolean OR e.last_seen_at >= %(since)s::timestamptz)
  AND (%(job)s::text IS NULL OR EXISTS (SELECT FROM rota.error_counts c WHERE c.error_group = e.id AND c.job = ANY ((SELECT rota.names_of(%(job)s::text))::text[])))
  AND (%(texts)s::text[] IS NULL OR concat_ws(' ', e.error_type || ': ' || e.error, e.file, e.function) ILIKE ALL (%(texts)s::text[]))
  AND (%(not_names)s::text[] = '{}' OR NOT EXISTS (
      SELECT FROM unnest(%(not_names)s::text[], %(not_values)s::text[], %(not_patterns)s::text[]) x (name, wanted, pattern)
      WHERE CASE x.name
          WHEN 'standing' THEN e.standing = x.wanted
          WHEN 'job' THEN EXISTS (SELECT FROM rota.error_counts c WHERE c.error_group = e.id AND c.job = ANY ((SELECT rota.names_of(x.wanted))::text[]))
          WHEN 'text' THEN concat_ws(' ', e.error_type || ': ' || e.error, e.file, e.function) ILIKE x.pattern END))
GROUP BY e.standing
