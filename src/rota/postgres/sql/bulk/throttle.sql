SELECT rota.throttle_bulk_action(action_id => %(id)s::bigint, rate => %(rate)s::double precision, reason => %(reason)s::text, actor => %(actor)s::text)
