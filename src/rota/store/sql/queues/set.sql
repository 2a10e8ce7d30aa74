SELECT rota.set_queue(queue => %(queue)s::text, settings => %(settings)s::text::jsonb, reason => %(reason)s::text, actor => %(actor)s::text)
