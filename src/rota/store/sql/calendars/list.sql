SELECT c.name, c.description, c.definition, c.updated_at, c.version,
       (SELECT count(*) FROM rota.schedules s WHERE s.calendar = c.name) AS schedules
FROM rota.calendars c WHERE %(name)s::text IS NULL OR c.name = %(name)s::text ORDER BY c.name
