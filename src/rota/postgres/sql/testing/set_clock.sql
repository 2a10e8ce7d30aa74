-- History needs its partitions, and promoters shall look at once, not when they would have by the old clock.
WITH clock AS MATERIALIZED (SELECT rota.set_clock(%(at)s::timestamptz) AS now)
SELECT now, rota.ensure_partitions(now - interval '1 day', now + interval '7 days'), rota.call_workers('due') FROM clock
