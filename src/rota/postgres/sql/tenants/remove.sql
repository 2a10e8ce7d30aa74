SELECT rota.remove_tenant(name => %(name)s::text, reason => %(reason)s::text, actor => %(actor)s::text)
