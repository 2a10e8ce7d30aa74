-- Who holds a worker's row in a transaction that is not over.
SELECT h.pid, h.since, h.query FROM rota.workers w CROSS JOIN LATERAL rota.row_holder(w.xmax) h WHERE w.id = %(worker)s::bigint
