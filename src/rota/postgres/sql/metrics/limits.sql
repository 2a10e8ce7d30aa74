-- How limits stand, those with most in use or waiting first; those of tenants under their own names.
SELECT CASE WHEN l.tenant = '' THEN l.name ELSE l.tenant || '/' || l.name END AS name, coalesce(s.in_use, 0)::bigint AS in_use, w.waiting
FROM rota.limits l
CROSS JOIN LATERAL (SELECT sum(u.in_use) AS in_use FROM rota.limit_slots u
                    WHERE u.tenant = l.tenant AND u.key >= rota.first_key(l) AND u.key < rota.last_key(l)) s
CROSS JOIN LATERAL (SELECT count(*) AS waiting FROM (
    SELECT FROM rota.open_runs o WHERE o.held_by = 'limit' AND o.limit_key >= rota.first_key(l) AND o.limit_key < rota.last_key(l) LIMIT 10000) o) w
ORDER BY w.waiting DESC, 2 DESC, 1 LIMIT %(most)s::integer
