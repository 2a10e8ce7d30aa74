SELECT rota.drain_worker(worker => %(worker)s::bigint, stop => %(stop)s::boolean, reason => %(reason)s::text, actor => %(actor)s::text)
