SELECT rota.save_run_view(name => %(name)s::text, query => %(query)s::text, reason => %(reason)s::text, actor => %(actor)s::text)
