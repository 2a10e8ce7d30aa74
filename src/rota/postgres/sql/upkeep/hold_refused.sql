SELECT rota.hold_refused_runs(max_runs => %(limit)s::integer)
