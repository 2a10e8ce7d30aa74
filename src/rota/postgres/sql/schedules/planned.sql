-- What a simulation of the coming load needs of each schedule that has times to come: thin, as it reads all of them. Durations are added up once for
-- all, and the day is asked for once: what the view has for one schedule would be ten times as slow for ten thousand.
SELECT s.tenant, s.name, v.state, s.cron, s.interval_seconds, s.run_at, s.has_seconds, s.timezone, s.gap, s.fold, s.start_at, s.end_at,
       CASE WHEN s.interval_seconds IS NOT NULL THEN s.anchor_at END AS anchor_at, s.jitter_seconds, s.calendar, s.on_closed,
       d.duration_ms / nullif(d.timed, 0)::double precision AS avg_duration_ms, d.longest_ms AS max_duration_ms, d.longest_ms_7d AS max_duration_ms_7d
FROM rota.schedules s JOIN rota.schedule_status v ON v.schedule_id = s.id
LEFT JOIN (
    SELECT c.schedule_id, sum(c.timed) AS timed, sum(c.duration_ms) AS duration_ms, max(c.longest_ms) FILTER (WHERE c.timed > 0) AS longest_ms,
           max(c.longest_ms) FILTER (WHERE c.timed > 0 AND c.day > (SELECT (rota.now() AT TIME ZONE 'UTC')::date - 7)) AS longest_ms_7d
    FROM rota.schedule_days c GROUP BY c.schedule_id
) d ON d.schedule_id = s.id
{schedules/fitting}
  AND s.init IS NULL AND v.state IN ('active', 'pending')
ORDER BY s.tenant, s.name
