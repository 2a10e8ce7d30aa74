-- What the runs of a schedule get, as text with the digits that they have.
SELECT jsonb_pretty(s.payload) AS payload, jsonb_pretty(s.run_metadata) AS run_metadata
FROM rota.schedules s WHERE s.tenant = %(tenant)s::text AND s.name = %(name)s::text
