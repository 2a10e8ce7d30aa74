-- The last decisions of some schedules, the oldest first, for a picture of each. A span of many times is one of them. Looks back
-- a month: whoever runs more rarely has few to show.
SELECT s.id, array_agg(l.decision ORDER BY l.nominal_at) AS decisions, array_agg(l.reason ORDER BY l.nominal_at) AS reasons,
       array_agg(l.state ORDER BY l.nominal_at) AS states
FROM unnest(%(ids)s::bigint[]) AS s (id)
CROSS JOIN LATERAL (
    SELECT l.nominal_at, l.decision, l.reason, l.state FROM rota.ledger l
    WHERE l.schedule_id = s.id AND l.nominal_at > %(since)s::timestamptz AND l.nominal_at <= %(until)s::timestamptz
    ORDER BY l.nominal_at DESC LIMIT %(limit)s::integer) l
GROUP BY s.id
