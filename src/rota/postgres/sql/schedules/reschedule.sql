SELECT rota.reschedule(%(name)s::text, %(at)s::timestamptz, tenant => %(tenant)s::text, actor => %(actor)s::text)
