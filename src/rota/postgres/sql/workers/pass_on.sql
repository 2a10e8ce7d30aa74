SELECT rota.pass_on(for_worker => %(worker)s::bigint, queues => %(queues)s::text[])
