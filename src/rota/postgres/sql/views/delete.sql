SELECT rota.delete_run_view(name => %(name)s::text, reason => %(reason)s::text, actor => %(actor)s::text)
