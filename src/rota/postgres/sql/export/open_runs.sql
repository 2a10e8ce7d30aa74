SELECT (to_jsonb(o) || jsonb_build_object('payload', coalesce(o.payload, rota.large_payload(o.id))))::text FROM rota.open_runs o WHERE o.tenant = %(tenant)s::text AND o.tenant <> '' ORDER BY o.id
