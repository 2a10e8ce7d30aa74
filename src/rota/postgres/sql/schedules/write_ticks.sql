SELECT rota.write_ticks(for_worker => %(worker)s::bigint, ticks => %(ticks)s::jsonb)
