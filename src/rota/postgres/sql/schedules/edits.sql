-- What was done to a schedule of this name, the newest first. An entry's id is the place after which the next page begins.
SELECT a.id, a.at, a.actor, a.action, rota.listed_fields(a.before, %(value_bytes)s::integer, '/audit/{entry_id}') AS before,
       rota.listed_fields(a.after, %(value_bytes)s::integer, '/audit/{entry_id}') AS after, a.reason, jsonb_build_array(a.id) AS place
FROM rota.audit a
WHERE a.object_type = 'schedule' AND a.object_id = %(name)s::text AND a.tenant = %(tenant)s::text
  AND a.action = ANY (%(actions)s::text[])
  AND (%(id)s::bigint IS NULL OR a.id = %(id)s::bigint)
  AND (%(after)s::jsonb IS NULL OR a.id < (%(after)s::jsonb ->> 0)::bigint)
ORDER BY a.id DESC
LIMIT %(limit)s::integer
