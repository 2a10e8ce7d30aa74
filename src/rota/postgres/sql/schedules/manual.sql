-- What people ran of a schedule of this name, beside its times: single runs and backfills, in the order of the time at which they
-- asked. `place` is where each stands: the next page begins after it.
SELECT a.id, a.at, a.actor, a.action, a.after, a.reason, jsonb_build_array(a.at, a.id) AS place
FROM rota.audit a
WHERE a.object_type = 'schedule' AND a.object_id = %(name)s::text AND a.tenant = %(tenant)s::text
  AND a.action = ANY (%(actions)s::text[])
  AND (%(since)s::timestamptz IS NULL OR a.at >= %(since)s::timestamptz)
  AND (%(before)s::timestamptz IS NULL OR a.at < %(before)s::timestamptz)
  AND (%(after)s::jsonb IS NULL OR CASE %(order)s::text
       WHEN 'oldest' THEN (a.at, a.id) > ((%(after)s::jsonb ->> 0)::timestamptz, (%(after)s::jsonb ->> 1)::bigint)
       ELSE (a.at, a.id) < ((%(after)s::jsonb ->> 0)::timestamptz, (%(after)s::jsonb ->> 1)::bigint) END)
ORDER BY CASE %(order)s::text WHEN 'oldest' THEN a.at END, CASE %(order)s::text WHEN 'oldest' THEN a.id END, a.at DESC, a.id DESC
LIMIT %(limit)s::integer
