SELECT rota.pause_schedule(%(name)s::text, reason => %(reason)s::text, until => %(until)s::timestamptz, tenant => %(tenant)s::text,
                           actor => %(actor)s::text) AS is_changed
