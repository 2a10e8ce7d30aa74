SELECT rota.fall_asleep(%(worker)s::bigint, %(most)s::double precision, %(ticking)s::boolean)
