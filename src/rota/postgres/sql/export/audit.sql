SELECT to_jsonb(a)::text FROM rota.audit a WHERE a.tenant = %(tenant)s::text ORDER BY a.id
