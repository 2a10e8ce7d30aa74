SELECT rota.release_hold(hold => %(hold)s::bigint)
