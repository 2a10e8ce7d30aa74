-- Whether an open run waits to be isolated, or where that is done.
SELECT CASE WHEN o.held_by = 'suspect' THEN 'waiting'
            WHEN rota.is_isolated(o) THEN CASE WHEN w.is_isolating_inline THEN 'inline' ELSE 'process' END END AS isolation
FROM rota.open_runs o LEFT JOIN rota.workers w ON w.id = o.worker
WHERE o.id = %(id)s::bigint
