SELECT run_id, attempt, requested_by, reason FROM rota.cancel_requests WHERE worker = %(worker)s::bigint
