SELECT rota.quiet_seconds(%(worker)s::bigint, %(most)s::double precision, %(ticking)s::boolean)
