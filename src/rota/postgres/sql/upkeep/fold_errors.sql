SELECT rota.fold_errors(%(limit)s::integer)
