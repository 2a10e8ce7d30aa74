SELECT rota.forget_tenant(%(name)s::text, %(removed)s::text::jsonb, reason => %(reason)s::text, actor => %(actor)s::text)
