SELECT to_jsonb(o)::text FROM rota.open_runs o WHERE o.tenant = %(tenant)s::text AND o.tenant <> '' ORDER BY o.id
