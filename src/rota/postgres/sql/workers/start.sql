SELECT rota.start_worker(%(worker)s::bigint, %(application)s::text, %(build)s::text, %(is_new)s::boolean, %(release)s::text)
