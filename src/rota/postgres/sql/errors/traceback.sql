-- Of the last failure: of a run that ended so, else of the attempts of the run that had it last.
SELECT t.traceback FROM (
    (SELECT r.traceback, 1 AS place, r.id AS number FROM rota.ended_runs r
     WHERE r.error_group = %(id)s::text AND r.traceback IS NOT NULL ORDER BY r.id DESC LIMIT 1)
    UNION ALL
    (SELECT p.traceback, 2, p.attempt FROM rota.past_attempts p
     WHERE p.run_id = %(run_id)s::bigint AND p.error_type = %(error_type)s::text AND p.traceback IS NOT NULL ORDER BY p.attempt DESC LIMIT 1)
) t ORDER BY t.place, t.number DESC LIMIT 1
