-- Who holds these schedules in a transaction that is not over, and whether that has gone on for long.
SELECT s.id, s.name, h.pid, h.since, h.query, coalesce(h.since < clock_timestamp() - interval '1 second', true) AS is_long
FROM rota.schedules s CROSS JOIN LATERAL rota.row_holder(s.xmax) h WHERE s.id = ANY (%(ids)s::bigint[])
