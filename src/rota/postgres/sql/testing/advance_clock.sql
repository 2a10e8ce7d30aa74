WITH clock AS MATERIALIZED (SELECT rota.set_clock(rota.now() + make_interval(secs => %(seconds)s::double precision)) AS now)
SELECT now, rota.ensure_partitions(now - interval '1 day', now + interval '7 days'), rota.call_workers('due') FROM clock
