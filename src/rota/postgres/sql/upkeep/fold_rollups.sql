SELECT rota.fold_rollups(max_minutes => %(limit)s::integer)
