SELECT rota.trigger_schedule(%(name)s::text, payload => %(payload)s::text::jsonb, tenant => %(tenant)s::text, actor => %(actor)s::text,
                             metadata => %(metadata)s::text::jsonb) AS answer
