SELECT rota.remove_limit(name => %(name)s::text, tenant => %(tenant)s::text, reason => %(reason)s::text, actor => %(actor)s::text) AS answer
