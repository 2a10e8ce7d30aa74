SELECT rota.put_schedules(%(tenants)s::text[], %(names)s::text[], %(places)s::integer[], %(documents)s::text[], actor => %(actor)s::text,
                          application => %(application)s::text) AS written
