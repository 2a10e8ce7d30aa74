SELECT rota.settle_kept_ends(%(limit)s::integer)
