SELECT rota.put_schedules(%(tenants)s::text[], %(names)s::text[], %(places)s::integer[], %(documents)s::text[], actor => %(actor)s::text,
                          application => %(application)s::text, build => %(build)s::text, at_start => %(at_start)s::boolean,
                          forced => %(forced)s::text[]) AS written
