SELECT to_jsonb(e)::text FROM rota.events e WHERE e.tenant = %(tenant)s::text
