-- Where a schedule stands in the order of names.
SELECT tenant, name FROM rota.schedules WHERE id = %(id)s::bigint
