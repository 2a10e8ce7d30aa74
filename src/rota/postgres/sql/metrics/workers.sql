-- Workers that live, or ended a little while ago.
SELECT w.id, w.name, CASE WHEN w.state <> 'live' THEN w.state WHEN w.is_stuck THEN 'stuck'
                         WHEN w.trouble IS NOT NULL THEN 'failing' ELSE w.state END AS state
FROM rota.workers w
WHERE w.state IN ('live', 'stopping') OR w.ended_at > clock_timestamp() - interval '2 minutes'
ORDER BY w.id
