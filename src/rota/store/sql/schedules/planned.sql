-- What a simulation of the coming load needs of each schedule that has times to come: thin, as it reads all of them.
SELECT s.tenant, s.name, v.state, s.cron, s.interval_seconds, s.run_at, s.has_seconds, s.timezone, s.gap, s.fold, s.start_at, s.end_at,
       CASE WHEN s.interval_seconds IS NOT NULL THEN s.anchor_at END AS anchor_at, s.jitter_seconds, s.calendar, s.on_closed,
       v.avg_duration_ms, v.max_duration_ms, v.max_duration_ms_7d
FROM rota.schedules s JOIN rota.schedule_status v ON v.schedule_id = s.id
{schedules/fitting}
  AND s.init IS NULL AND v.state IN ('active', 'pending')
ORDER BY s.tenant, s.name
