-- Workers that are not as they should be, or were lost in the last hour.
SELECT w.id, w.name, w.host, w.pid, w.state, w.trouble, w.errors, w.is_stuck, w.heartbeat_at, w.ended_at,
       w.state IN ('live', 'stopping') AND w.lease_expires_at <= clock_timestamp() AS is_silent
FROM rota.workers w
WHERE (w.state IN ('live', 'stopping') AND (w.lease_expires_at <= clock_timestamp() OR w.is_stuck OR w.trouble IS NOT NULL))
   OR (w.state = 'lost' AND w.ended_at > clock_timestamp() - interval '1 hour')
ORDER BY coalesce(w.ended_at, w.heartbeat_at) DESC, w.id LIMIT 1000
