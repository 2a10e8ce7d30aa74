SELECT rota.unblock_limit(name => %(name)s::text, value => %(value)s::text, tenant => %(tenant)s::text, reason => %(reason)s::text, actor => %(actor)s::text) AS freed
