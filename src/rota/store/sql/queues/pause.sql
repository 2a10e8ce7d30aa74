SELECT rota.pause_queue(queue => %(queue)s::text, reason => %(reason)s::text, actor => %(actor)s::text,
                       until => %(until)s::timestamptz) AS is_changed
