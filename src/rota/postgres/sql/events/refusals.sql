-- Calls of webhooks that were refused, the latest minute first. `place` is where each row stands: the next page begins after it.
SELECT r.hook, r.reason, r.address, r.minute, r.refusals, r.last_at,
       jsonb_build_array(r.minute, r.hook, r.reason, r.address, r.tenant) AS place
FROM rota.hook_refusals r
WHERE (%(hook)s::text IS NULL OR r.hook = %(hook)s::text)
  AND (%(after)s::jsonb IS NULL OR r.minute <= (%(after)s::jsonb ->> 0)::timestamptz)
  AND (%(after)s::jsonb IS NULL OR r.minute < (%(after)s::jsonb ->> 0)::timestamptz
       OR (r.hook, r.reason, r.address, r.tenant) >
          (%(after)s::jsonb ->> 1, %(after)s::jsonb ->> 2, %(after)s::jsonb ->> 3, %(after)s::jsonb ->> 4))
ORDER BY r.minute DESC, r.hook, r.reason, r.address, r.tenant
LIMIT %(limit)s::integer
