INSERT INTO rota.schedule_templates (name, cron, description) VALUES (%(name)s::text, %(cron)s::text, %(description)s::text)
ON CONFLICT (name) DO UPDATE SET cron = excluded.cron, description = excluded.description
