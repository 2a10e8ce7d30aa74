-- How the last runs of a tenant went. By the index that holds only runs of tenants.
SELECT count(*) AS recent, count(*) FILTER (WHERE r.state = 'failed') AS recent_failed,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY r.duration_ms) / 1000 AS median_seconds,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY r.duration_ms) / 1000 AS p95_seconds
FROM (SELECT e.state, e.duration_ms FROM rota.ended_runs e WHERE e.tenant = %(name)s::text AND e.tenant <> ''
      ORDER BY e.id DESC LIMIT 1000) r
