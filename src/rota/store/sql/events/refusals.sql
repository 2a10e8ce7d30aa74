SELECT r.hook, r.reason, r.address, r.minute, r.refusals, r.last_at
FROM rota.hook_refusals r
WHERE (%(hook)s::text IS NULL OR r.hook = %(hook)s::text)
ORDER BY r.minute DESC, r.hook, r.reason, r.address
LIMIT %(limit)s::integer
