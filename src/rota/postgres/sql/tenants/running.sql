SELECT id FROM rota.open_runs WHERE tenant = %(name)s::text AND tenant <> '' AND state = 'running' ORDER BY id LIMIT %(limit)s::integer
