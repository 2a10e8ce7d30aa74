SELECT coalesce(j.default_payload, '{}') AS payload FROM rota.jobs j WHERE j.name = %(name)s::text
