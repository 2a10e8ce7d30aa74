-- What a run has asked for, the first one first. Nothing of it ended before the run was created.
SELECT id, job, queue, state, created_at, finished_at FROM (
    (SELECT o.id, o.job, o.queue, o.state, o.created_at, NULL::timestamptz AS finished_at FROM rota.open_runs o
     WHERE o.triggered_by ? 'run' AND o.triggered_by ->> 'run' = %(id)s::bigint::text ORDER BY o.id LIMIT %(limit)s::integer)
    UNION ALL
    (SELECT e.id, e.job, e.queue, e.state, e.created_at, e.finished_at FROM rota.ended_runs e
     WHERE e.triggered_by ? 'run' AND e.triggered_by ->> 'run' = %(id)s::bigint::text AND e.finished_at >= %(since)s::timestamptz
     ORDER BY e.id LIMIT %(limit)s::integer)
) c ORDER BY id LIMIT %(limit)s::integer
