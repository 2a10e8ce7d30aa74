SELECT rota.reopen_error(error_group => %(id)s::text, reason => %(reason)s::text, actor => %(actor)s::text)
