SELECT rota.lock_runs(ids => %(ids)s::bigint[])
