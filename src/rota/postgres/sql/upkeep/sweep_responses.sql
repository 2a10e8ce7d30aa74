SELECT rota.sweep_responses(max_rows => %(limit)s::integer)
