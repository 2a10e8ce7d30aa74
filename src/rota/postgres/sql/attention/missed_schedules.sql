-- Schedules of which times were missed, by a decision of the last day that no backfill has made good.
SELECT s.name, s.tenant, sum(l.count)::bigint AS times, min(l.nominal_at) AS since, max(l.through_at) AS last_at,
       (array_agg(l.reason ORDER BY l.nominal_at DESC))[1] AS why, count(*) OVER () AS total
FROM rota.ledger l JOIN rota.schedules s ON s.id = l.schedule_id
WHERE l.decision = 'missed' AND l.decided_at > rota.now() - interval '1 day' AND NOT s.is_shadow AND NOT s.is_system
  AND NOT EXISTS (SELECT FROM rota.backfill_times b WHERE b.schedule_id = l.schedule_id AND b.nominal_at BETWEEN l.nominal_at AND l.through_at)
GROUP BY s.id ORDER BY max(l.decided_at) DESC, s.id LIMIT %(limit)s::integer
