-- Tenants that are paused and have something to do. What waits is what workers counted last; where they counted nothing, up to a thousand
-- are counted now, so that a pause is seen although no worker lives.
SELECT t.name, t.paused_at, t.paused_by, t.pause_reason, t.paused_until, w.waiting, count(*) OVER () AS total
FROM rota.tenants t LEFT JOIN rota.tenant_depths d ON d.tenant = t.name
CROSS JOIN LATERAL (SELECT CASE WHEN d.waiting > 0 THEN d.waiting ELSE (
    SELECT count(*) FROM (SELECT FROM rota.open_runs o WHERE o.tenant <> '' AND o.tenant = t.name AND o.state <> 'running' LIMIT 1000) few) END AS waiting) w
WHERE t.is_paused AND rota.tenant_is_paused(t) AND w.waiting > 0
ORDER BY w.waiting DESC, t.name LIMIT %(limit)s::integer
