SELECT rota.delete_job(%(name)s::text, cascade => %(cascade)s::boolean, cancel_open => %(cancel_open)s::boolean, reason => %(reason)s::text,
                       actor => %(actor)s::text) AS cancelled
