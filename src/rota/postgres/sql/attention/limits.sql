-- Sequences that stand still because a run has failed, and counters that differed from the runs within a day.
SELECT l.name, l.tenant, 'blocked' AS what, count(*)::integer AS keys, min(s.blocked_by) AS run, 0 AS counted, 0 AS held, max(s.used_at) AS since
FROM rota.limits l JOIN rota.limit_slots s ON s.tenant = l.tenant AND s.blocked_by IS NOT NULL AND s.key >= rota.first_key(l) AND s.key < rota.last_key(l)
GROUP BY l.tenant, l.name
UNION ALL
SELECT a.object_id, a.tenant, 'mended', count(*)::integer, NULL, max((a.before ->> 'in_use')::integer),
       max((a.after ->> 'in_use')::integer), max(a.at)
FROM rota.audit a WHERE a.action = 'limit.mended' AND a.at > rota.now() - interval '1 day' GROUP BY 1, 2
ORDER BY 3, 1
