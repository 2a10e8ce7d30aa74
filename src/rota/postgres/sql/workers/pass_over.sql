SELECT rota.pass_over_silent(for_worker => %(worker)s::bigint, in_queues => %(queues)s::text[])
