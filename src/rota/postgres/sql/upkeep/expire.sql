SELECT rota.expire_runs(%(limit)s::integer)
