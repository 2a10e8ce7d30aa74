-- Every tenant that has settings, schedules or open runs, or that did something in the last week; or one, whatever is known of it.
-- `place` is where each stands in the order: the next page begins after it.
WITH named AS (
    SELECT t.name FROM rota.tenants t WHERE %(name)s::text IS NULL OR t.name = %(name)s::text
    UNION SELECT d.tenant FROM rota.tenant_depths d WHERE (d.waiting + d.running > 0) AND (%(name)s::text IS NULL OR d.tenant = %(name)s::text)
    UNION SELECT s.tenant FROM rota.schedules s WHERE s.tenant <> '' AND (%(name)s::text IS NULL OR s.tenant = %(name)s::text)
    UNION SELECT y.tenant FROM rota.tenant_days y
    WHERE y.day > (rota.now() AT TIME ZONE 'UTC')::date - 7 AND (%(name)s::text IS NULL OR y.tenant = %(name)s::text)
    UNION SELECT o.tenant FROM rota.open_runs o WHERE o.tenant <> '' AND o.tenant = %(name)s::text
    UNION SELECT r.tenant FROM (SELECT e.tenant FROM rota.ended_runs e WHERE e.tenant <> '' AND e.tenant = %(name)s::text LIMIT 1) r
)
SELECT n.name, t.name IS NOT NULL AS has_settings, coalesce(t.weight, 1)::double precision AS weight, t.max_waiting, t.max_runs_per_day,
       t.max_bytes_per_day, t.retention_days, t.failed_retention_days, coalesce(rota.tenant_is_paused(t), false) AS is_paused,
       -- A pause that is over is none, whoever has written that down.
       CASE WHEN rota.tenant_is_paused(t) THEN t.paused_at END AS paused_at, CASE WHEN rota.tenant_is_paused(t) THEN t.paused_by END AS paused_by,
       CASE WHEN rota.tenant_is_paused(t) THEN t.pause_reason END AS pause_reason,
       CASE WHEN rota.tenant_is_paused(t) THEN t.paused_until END AS paused_until,
       coalesce(t.description, '') AS description, coalesce(t.metadata, '{}') AS metadata, coalesce(t.version, 1) AS version,
       (SELECT count(*) FROM rota.schedules s WHERE s.tenant = n.name) AS schedules,
       coalesce(d.blocked, 0) AS blocked, coalesce(d.scheduled, 0) AS scheduled, coalesce(d.queued, 0) AS queued, coalesce(d.held, 0) AS held,
       coalesce(d.running, 0) AS running, extract(epoch FROM clock_timestamp() - d.oldest_at)::double precision AS oldest_seconds,
       greatest(extract(epoch FROM clock_timestamp() - m.counted_at), 0)::double precision AS counted_seconds,
       coalesce(y.enqueued, 0) AS enqueued_today, coalesce(y.bytes, 0) AS bytes_today,
       coalesce(y.succeeded, 0) AS succeeded_today, coalesce(y.failed, 0) AS failed_today,
       jsonb_build_array(p.place, n.name) AS place
FROM named n
JOIN rota.count_marks m ON m.name = 'tenants'
LEFT JOIN rota.tenants t ON t.name = n.name
LEFT JOIN rota.tenant_depths d ON d.tenant = n.name
LEFT JOIN rota.tenant_days y ON y.tenant = n.name AND y.day = (rota.now() AT TIME ZONE 'UTC')::date
CROSS JOIN LATERAL (
    SELECT CASE %(order)s::text WHEN 'waiting' THEN -(coalesce(d.blocked + d.scheduled + d.queued, 0)) WHEN 'failed' THEN -coalesce(y.failed, 0)
                ELSE 0 END::double precision AS place) p
WHERE (%(paused)s::boolean IS NULL OR coalesce(rota.tenant_is_paused(t), false) = %(paused)s::boolean)
  AND (%(text)s::text IS NULL OR n.name ILIKE %(text)s::text OR t.description ILIKE %(text)s::text)
  AND (%(after)s::jsonb IS NULL OR (p.place, n.name) > ((%(after)s::jsonb ->> 0)::double precision, (%(after)s::jsonb ->> 1) COLLATE "C"))
ORDER BY p.place, n.name LIMIT %(limit)s::integer
