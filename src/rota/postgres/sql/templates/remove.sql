DELETE FROM rota.schedule_templates WHERE name = %(name)s::text RETURNING name
