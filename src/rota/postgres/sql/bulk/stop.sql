SELECT rota.stop_bulk_action(action_id => %(id)s::bigint, reason => %(reason)s::text, actor => %(actor)s::text)
