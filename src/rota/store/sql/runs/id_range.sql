-- Ids that runs created between the two instants can have: above low, up to high. A minute off, because a mark takes
-- its time and its id one after the other.
SELECT greatest((SELECT max(id) FROM rota.id_marks WHERE at <= %(since)s::timestamptz - interval '1 minute'), (
           SELECT least((SELECT min(id) FROM rota.open_runs), (SELECT min(id) FROM rota.ended_runs)) - 1), 0) AS low,
       coalesce((SELECT min(id) FROM rota.id_marks WHERE at >= %(until)s::timestamptz + interval '1 minute'), s.last_value) AS high
FROM rota.run_ids s
