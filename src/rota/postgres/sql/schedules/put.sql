SELECT rota.put_schedule(%(name)s::text, %(columns)s::text::jsonb, tenant => %(tenant)s::text, actor => %(actor)s::text) AS is_written
