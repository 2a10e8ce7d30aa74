SELECT id, error_type FROM rota.error_groups WHERE id = ANY(%(ids)s::text[])
