SELECT rota.free_known_runs(max_runs => %(limit)s::integer)
