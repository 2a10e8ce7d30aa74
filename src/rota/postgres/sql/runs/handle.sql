SELECT rota.handle_run(run_id => %(id)s::bigint, reason => %(reason)s::text, actor => %(actor)s::text)
