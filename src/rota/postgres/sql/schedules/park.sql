SELECT rota.park_schedule(schedule_id => %(id)s::bigint, read_version => %(version)s::bigint, why => %(error)s::text)
