-- The counters of a limit: those that somebody waits for first, then the fullest.
SELECT substr(s.key, length(rota.first_key(l)) + 1) AS value, greatest(s.in_use - coalesce(r.freed, 0), 0)::integer AS in_use, w.waiting,
       CASE WHEN s.wait_until > rota.now() AND s.wait_until < 'infinity' THEN s.wait_until END AS wait_until, s.blocked_by
FROM rota.limits l
JOIN rota.limit_slots s ON s.tenant = l.tenant AND s.key >= rota.first_key(l) AND s.key < rota.last_key(l)
LEFT JOIN LATERAL (SELECT sum(f.amount) AS freed FROM rota.limit_releases f WHERE f.key = s.key) r ON true
CROSS JOIN LATERAL (SELECT count(*) AS waiting FROM (SELECT FROM rota.open_runs o WHERE o.held_by = 'limit' AND o.limit_key = s.key LIMIT 1000) o) w
WHERE l.tenant = %(tenant)s::text AND l.name = %(name)s::text
ORDER BY w.waiting = 0, s.blocked_by IS NULL, 2 DESC, w.waiting DESC, s.key LIMIT 100
