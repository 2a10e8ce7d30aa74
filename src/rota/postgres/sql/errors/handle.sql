SELECT rota.handle_error(error_group => %(id)s::text, reason => %(reason)s::text, actor => %(actor)s::text)
