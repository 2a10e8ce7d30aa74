UPDATE rota.workers SET is_solo = false WHERE id = %(worker)s::bigint AND is_solo
