-- For as long as somebody holds the row, a second and no longer: claims go over the same connection.
UPDATE rota.workers SET jobs = %(jobs)s::text[], intakes = %(intakes)s::integer[]
FROM (SELECT set_config('lock_timeout', '1s', true)) bound
WHERE id = %(worker)s::bigint AND (jobs <> %(jobs)s::text[] OR intakes <> %(intakes)s::integer[])
