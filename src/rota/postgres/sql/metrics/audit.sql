-- What people did, after this row of the audit; without one, nothing but the last row, to go on from.
(SELECT a.id, a.at, a.actor, a.action, a.object_type, a.object_id, a.tenant, a.reason
 FROM rota.audit a WHERE a.id > %(after)s::bigint ORDER BY a.id LIMIT 500)
UNION ALL
(SELECT a.id, a.at, a.actor, a.action, a.object_type, a.object_id, a.tenant, a.reason
 FROM rota.audit a WHERE %(after)s::bigint IS NULL ORDER BY a.id DESC LIMIT 1)
