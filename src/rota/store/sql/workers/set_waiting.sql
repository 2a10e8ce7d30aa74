SELECT rota.set_waiting(for_worker => %(worker)s::bigint, waiting => %(waiting)s::boolean)
