SELECT rota.sweep(max_rows => %(limit)s::integer)
