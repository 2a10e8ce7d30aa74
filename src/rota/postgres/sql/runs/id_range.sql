-- Ids that runs created between the two instants can have: above low, up to high. A minute off, because a mark takes
-- its time and its id one after the other. What comes next has no higher time than now has: the clock may have been put back.
SELECT greatest((SELECT max(id) FROM rota.id_marks WHERE coalesce(latest_at, at) <= %(since)s::timestamptz - interval '1 minute'),
                greatest(least((SELECT min(id) FROM rota.open_runs), (SELECT min(id) FROM rota.ended_runs)), 1) - 1) AS low,
       coalesce((SELECT min(id) FROM rota.id_marks WHERE least(at, rota.now()) >= %(until)s::timestamptz + interval '1 minute'),
                s.last_value) AS high
FROM rota.run_ids s
