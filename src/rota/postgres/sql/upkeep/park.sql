SELECT rota.park_unknown_runs(max_runs => %(limit)s::integer)
