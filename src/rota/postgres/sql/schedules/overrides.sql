SELECT field, stored, code, changed_by, changed_at FROM rota.schedule_overrides(%(name)s::text, %(tenant)s::text)
