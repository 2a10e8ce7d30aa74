SELECT rota.ensure_partitions(rota.now() - interval '1 day', rota.now() + interval '7 days')
