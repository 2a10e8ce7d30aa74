-- What operators did, the newest first, or one entry. An entry's id is the place after which the next page begins.
SELECT id, at, actor, db_user, action, object_type, object_id, tenant, rota.listed(before, %(value_bytes)s::integer, '/audit/{entry_id}') AS before,
       rota.listed(after, %(value_bytes)s::integer, '/audit/{entry_id}') AS after, reason, jsonb_build_array(id) AS place
FROM rota.audit
WHERE (%(id)s::bigint IS NULL OR id = %(id)s::bigint)
  AND (%(actor)s::text IS NULL OR actor = %(actor)s::text)
  AND (%(action)s::text IS NULL OR action = %(action)s::text)
  AND (%(object_type)s::text IS NULL OR object_type = %(object_type)s::text)
  AND (%(object_id)s::text IS NULL OR object_id = %(object_id)s::text)
  AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s::text)
  AND (%(texts)s::text[] IS NULL OR concat_ws(' ', actor, action, object_type, object_id, reason) ILIKE ALL (%(texts)s::text[]))
  AND (%(not_names)s::text[] = '{}' OR NOT EXISTS (
      SELECT FROM unnest(%(not_names)s::text[], %(not_values)s::text[], %(not_patterns)s::text[]) x (name, wanted, pattern)
      WHERE CASE x.name
          WHEN 'actor' THEN actor = x.wanted
          WHEN 'action' THEN action = x.wanted
          WHEN 'noun' THEN object_type = x.wanted
          WHEN 'name' THEN object_id = x.wanted
          WHEN 'tenant' THEN tenant = x.wanted
          WHEN 'text' THEN concat_ws(' ', actor, action, object_type, object_id, reason) ILIKE x.pattern END))
  AND (%(since)s::timestamptz IS NULL OR at >= %(since)s::timestamptz)
  AND (%(until)s::timestamptz IS NULL OR at < %(until)s::timestamptz)
  AND (%(after)s::jsonb IS NULL OR id < (%(after)s::jsonb ->> 0)::bigint)
ORDER BY id DESC
LIMIT %(limit)s::integer
