SELECT rota.drain_worker(worker => %(worker)s::bigint, stop => %(stop)s::boolean, reason => %(reason)s::text,
    at_once => %(at_once)s::boolean, actor => %(actor)s::text) AS is_changed
