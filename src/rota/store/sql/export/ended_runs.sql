SELECT to_jsonb(e)::text FROM rota.ended_runs e WHERE e.tenant = %(tenant)s::text AND e.tenant <> ''
