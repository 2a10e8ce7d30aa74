-- What a deletion would find, but for log lines, which nobody counts by tenant.
SELECT (SELECT count(*) FROM rota.schedules s WHERE s.tenant = %(name)s::text) AS schedules,
       (SELECT count(*) FROM rota.open_runs o WHERE o.tenant = %(name)s::text AND o.tenant <> '' AND o.state <> 'running') AS open_runs,
       (SELECT count(*) FROM rota.open_runs o WHERE o.tenant = %(name)s::text AND o.tenant <> '' AND o.state = 'running') AS running,
       (SELECT count(*) FROM rota.ended_runs e WHERE e.tenant = %(name)s::text AND e.tenant <> '') AS ended_runs,
       (SELECT count(*) FROM rota.keys k WHERE k.tenant = %(name)s::text) AS keys
