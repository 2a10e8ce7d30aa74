SELECT to_jsonb(l)::text FROM rota.limits l WHERE l.tenant = %(tenant)s::text
