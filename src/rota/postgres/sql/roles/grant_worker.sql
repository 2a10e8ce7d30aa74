SELECT rota.grant_worker(%(role)s::text)
