-- Workers that are not as they should be, or were lost in the last hour. A blocked event loop neither claims nor stores results, so it
-- has been blocked since it last did either; the attempt that started last is the one that blocks it, or was the last to start.
SELECT w.id, w.name, w.host, w.pid, w.state, w.trouble, w.errors, w.is_stuck, w.heartbeat_at, w.ended_at,
       w.state IN ('live', 'stopping') AND w.lease_expires_at <= clock_timestamp() AS is_silent,
       date_trunc('second', greatest(w.started_at, w.claimed_at, w.finished_at)) AS acted_at, r.id AS run, r.job
FROM rota.workers w
LEFT JOIN LATERAL (SELECT r.id, r.job FROM rota.running_runs() r
                   WHERE w.is_stuck AND r.worker = w.id ORDER BY r.started_at DESC, r.id DESC LIMIT 1) r ON true
WHERE (w.state IN ('live', 'stopping') AND (w.lease_expires_at <= clock_timestamp() OR w.is_stuck OR w.trouble IS NOT NULL))
   OR (w.state = 'lost' AND w.ended_at > clock_timestamp() - interval '1 hour')
ORDER BY coalesce(w.ended_at, w.heartbeat_at) DESC, w.id LIMIT 1000
