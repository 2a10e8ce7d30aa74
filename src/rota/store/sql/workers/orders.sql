SELECT drain_requested_at IS NOT NULL, is_to_stop FROM rota.workers WHERE id = %(worker)s::bigint
