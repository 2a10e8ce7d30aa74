-- The time was up: what was deleted so far.
SELECT rota.write_audit(%(actor)s::text, 'tenant.deleting', 'tenant', %(name)s::text, %(removed)s::text::jsonb, NULL, %(reason)s::text, %(name)s::text)
