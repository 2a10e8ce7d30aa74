SELECT to_jsonb(t)::text FROM rota.tenants t WHERE t.name = %(tenant)s::text
