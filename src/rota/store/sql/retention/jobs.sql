SELECT name, retention FROM rota.jobs WHERE %(is_all)s::boolean OR retention IS NOT NULL ORDER BY name
