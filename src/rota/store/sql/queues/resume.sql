SELECT rota.resume_queue(queue => %(queue)s::text, reason => %(reason)s::text, actor => %(actor)s::text) AS is_changed
