SELECT rota.present_name(%(name)s::text) AS name
