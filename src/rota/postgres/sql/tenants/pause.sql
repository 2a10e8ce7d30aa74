SELECT rota.pause_tenant(name => %(name)s::text, reason => %(reason)s::text, until => %(until)s::timestamptz, actor => %(actor)s::text) AS held
