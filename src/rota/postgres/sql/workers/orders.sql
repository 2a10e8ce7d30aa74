SELECT drain_requested_at IS NOT NULL, is_to_stop, is_to_hurry FROM rota.workers WHERE id = %(worker)s::bigint
