SELECT rota.set_job_enabled(%(name)s::text, %(enabled)s::boolean, %(reason)s::text, %(actor)s::text) AS is_changed
