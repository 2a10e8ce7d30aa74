UPDATE rota.workers SET jobs = %(jobs)s::text[] WHERE id = %(worker)s::bigint AND jobs <> %(jobs)s::text[]
