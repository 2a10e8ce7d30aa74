SELECT id FROM rota.open_runs WHERE id = ANY (%(ids)s::bigint[])
