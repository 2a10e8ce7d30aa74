SELECT to_jsonb(p)::text FROM rota.past_attempts p WHERE p.tenant = %(tenant)s::text
