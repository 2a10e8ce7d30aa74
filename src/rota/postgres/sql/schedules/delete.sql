SELECT rota.delete_schedule(%(name)s::text, cancel_waiting => %(cancel_waiting)s::boolean, tenant => %(tenant)s::text,
                            actor => %(actor)s::text) AS cancelled
