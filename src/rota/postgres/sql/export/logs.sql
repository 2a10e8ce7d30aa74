SELECT to_jsonb(l)::text FROM rota.logs l WHERE l.tenant = %(tenant)s::text
