SELECT rota.resume_schedule(%(name)s::text, catch_up => %(catch_up)s::boolean, tenant => %(tenant)s::text, actor => %(actor)s::text)
    AS is_changed
