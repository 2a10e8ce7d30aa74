SELECT to_jsonb(k)::text FROM rota.keys k WHERE k.tenant = %(tenant)s::text
