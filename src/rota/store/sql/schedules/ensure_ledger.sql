-- For decisions about times that lie far back.
SELECT rota.ensure_partitions(%(since)s::timestamptz, rota.now() + interval '7 days')
