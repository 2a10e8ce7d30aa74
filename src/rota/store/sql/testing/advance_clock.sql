SELECT rota.set_clock(rota.now() + make_interval(secs => %(seconds)s::double precision)) AS now, pg_notify('rota', 'due')
