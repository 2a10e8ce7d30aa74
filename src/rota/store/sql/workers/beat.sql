SELECT rota.beat(for_worker => %(worker)s::bigint, stuck => %(stuck)s::boolean)
