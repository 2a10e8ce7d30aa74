SELECT to_jsonb(d)::text FROM rota.tenant_days d WHERE d.tenant = %(tenant)s::text ORDER BY d.day
