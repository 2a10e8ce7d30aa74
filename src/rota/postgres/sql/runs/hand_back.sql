SELECT rota.hand_back_runs(for_worker => %(worker)s::bigint, ids => %(ids)s::bigint[], attempts => %(attempts)s::integer[])
