SELECT rota.set_tenant(name => %(name)s::text, settings => %(settings)s::text::jsonb, reason => %(reason)s::text, actor => %(actor)s::text)
