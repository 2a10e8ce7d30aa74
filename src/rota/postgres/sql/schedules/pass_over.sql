SELECT rota.pass_over(batch => %(batch)s::bigint[], passed => %(passed)s::bigint[], for_seconds => %(seconds)s::double precision)
