SELECT name, cron, description FROM rota.schedule_templates WHERE %(name)s::text IS NULL OR name = %(name)s::text ORDER BY name
