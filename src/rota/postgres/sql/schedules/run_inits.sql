SELECT i.schedule, i.run_id FROM rota.run_inits(%(worker)s::bigint, %(release)s::text) i
