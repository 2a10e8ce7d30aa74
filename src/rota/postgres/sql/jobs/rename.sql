SELECT rota.rename_job(name => %(name)s::text, new_name => %(new_name)s::text, reason => %(reason)s::text, actor => %(actor)s::text) AS moved
