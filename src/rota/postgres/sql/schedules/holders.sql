-- Who holds these schedules in a transaction that is not over, and whether that has gone on for long.
SELECT s.id, s.name, h.pid, h.since, h.query, coalesce(h.since < clock_timestamp() - interval '1 second', true) AS is_long
FROM rota.schedules s JOIN rota.schedule_state t ON t.schedule_id = s.id
CROSS JOIN LATERAL (SELECT * FROM unnest(ARRAY[t.xmax, s.xmax]) x CROSS JOIN LATERAL rota.row_holder(x) LIMIT 1) h
WHERE s.id = ANY (%(ids)s::bigint[])
