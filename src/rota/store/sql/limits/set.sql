SELECT rota.set_limit(name => %(name)s::text, changes => %(changes)s::text::jsonb, tenant => %(tenant)s::text, reason => %(reason)s::text, actor => %(actor)s::text)
