SELECT (to_jsonb(e) || jsonb_build_object('payload', coalesce(e.payload, rota.large_payload(e.id))))::text FROM rota.ended_runs e WHERE e.tenant = %(tenant)s::text AND e.tenant <> ''
