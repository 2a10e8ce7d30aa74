SELECT to_jsonb(s)::text FROM rota.schedules s WHERE s.tenant = %(tenant)s::text ORDER BY s.name
