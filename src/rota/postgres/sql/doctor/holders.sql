-- Whose open transactions hold rows that work waits for, the oldest first, and which. Only what is known to wait, and tables that stay small, are
-- looked at. A transaction of a moment is nobody's concern.
WITH held (what, xmax) AS (
    SELECT format('the end of run %%s', k.run_id), o.xmax FROM (SELECT run_id FROM rota.kept_ends LIMIT 1000) k JOIN rota.open_runs o ON o.id = k.run_id
    UNION ALL
    SELECT format('the key %%s of run %%s', to_json(left(r.key, 60)), r.run_id), k.xmax FROM (SELECT * FROM rota.key_releases LIMIT 1000) r
    JOIN rota.keys k ON k.tenant = r.tenant AND k.job = r.job AND k.key = r.key AND k.run_id = r.run_id
    UNION ALL
    SELECT format('worker %%s', w.id), w.xmax FROM rota.workers w WHERE w.state IN ('live', 'stopping')
    UNION ALL
    SELECT format('schedule %%s', s.name), x.xmax FROM rota.schedules s JOIN rota.schedule_state t ON t.schedule_id = s.id
    CROSS JOIN LATERAL (VALUES (s.xmax), (t.xmax)) AS x (xmax)
    UNION ALL
    SELECT format('job %%s', j.name), j.xmax FROM rota.jobs j
    UNION ALL
    SELECT format('queue %%s', q.name), q.xmax FROM rota.queues q
    UNION ALL
    SELECT format('limit %%s', l.name), l.xmax FROM rota.limits l
    UNION ALL
    SELECT format('limit %%s', s.key), s.xmax FROM (SELECT key, xmax FROM rota.limit_slots LIMIT 10000) s
    UNION ALL
    SELECT format('the lock %%s', l.name), l.xmax FROM rota.locks l
)
SELECT a.pid, a.usename::text AS owner, a.application_name AS program, a.state AS doing, left(a.query, 200) AS query,
       extract(epoch FROM clock_timestamp() - a.xact_start)::double precision AS seconds, count(*) AS rows,
       (array_agg(DISTINCT h.what))[1:5] AS examples
FROM held h
JOIN pg_locks l ON l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted AND l.transactionid = h.xmax
JOIN pg_stat_activity a ON a.pid = l.pid
WHERE h.xmax <> '0' AND a.pid <> pg_backend_pid()
GROUP BY a.pid, a.usename, a.application_name, a.state, a.query, a.xact_start ORDER BY a.xact_start LIMIT 3
