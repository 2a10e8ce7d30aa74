SELECT rota.set_schedule_enabled(%(name)s::text, %(enabled)s::boolean, tenant => %(tenant)s::text, actor => %(actor)s::text) AS is_changed
