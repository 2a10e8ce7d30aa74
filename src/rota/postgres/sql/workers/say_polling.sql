UPDATE rota.workers SET is_polling = true WHERE id = %(worker)s::bigint
