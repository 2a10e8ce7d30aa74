SELECT rota.reset_queue(queue => %(queue)s::text, reason => %(reason)s::text, actor => %(actor)s::text)
