SELECT name FROM rota.schedules WHERE tenant = %(tenant)s::text ORDER BY name
