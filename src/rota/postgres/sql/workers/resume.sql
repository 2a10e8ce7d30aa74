SELECT rota.resume_worker(worker => %(worker)s::bigint, reason => %(reason)s::text, actor => %(actor)s::text) AS is_changed
