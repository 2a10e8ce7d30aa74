SELECT rota.reset_schedule(%(name)s::text, %(fields)s::text[], tenant => %(tenant)s::text, actor => %(actor)s::text) AS fields
