SELECT rota.free_refused_runs(max_runs => %(limit)s::integer)
