DELETE FROM rota.calendars WHERE name = %(name)s::text RETURNING name
