-- Limits with how they stand: what has a place, who waits (counted up to ten thousand), and how many counters are full. `place` is
-- where each stands in the order: the next page begins after it.
SELECT l.name, l.tenant, l.kind, l.cap, l.period_seconds, l.burst, l.cost, l.next_after, l.on_full, l.queue, l.jobs, l.schedule, l.key,
       coalesce(s.in_use, 0)::bigint AS in_use, w.waiting, coalesce(s.keys, 0)::bigint AS keys, coalesce(s.full, 0)::bigint AS full,
       coalesce(s.admitted, 0)::bigint AS admitted, l.code <> '{}' AS is_declared, l.is_edited, l.updated_at, l.updated_by,
       jsonb_build_array(p.place, l.tenant, l.name) AS place
FROM rota.limits l
LEFT JOIN LATERAL (
    SELECT sum(greatest(c.in_use - coalesce(c.freed, 0), 0)) AS in_use, count(*) AS keys, sum(c.admitted) AS admitted,
           count(*) FILTER (WHERE CASE WHEN l.kind = 'rate' THEN c.wait_until > rota.now()
                                       ELSE c.in_use - coalesce(c.freed, 0) >= l.cap OR c.blocked_by IS NOT NULL END) AS full
    FROM (SELECT u.*, (SELECT sum(r.amount) FROM rota.limit_releases r WHERE r.key = u.key) AS freed
          FROM rota.limit_slots u WHERE u.tenant = l.tenant AND u.key >= rota.first_key(l) AND u.key < rota.last_key(l)) c
) s ON true
CROSS JOIN LATERAL (
    SELECT count(*) AS waiting
    FROM (SELECT FROM rota.open_runs o WHERE o.held_by = 'limit' AND o.limit_key >= rota.first_key(l) AND o.limit_key < rota.last_key(l) LIMIT 10000) o
) w
CROSS JOIN LATERAL (
    SELECT CASE %(order)s::text WHEN 'fullest' THEN -(coalesce(s.in_use, 0)::double precision / greatest(l.cap * greatest(s.keys, 1), 1))
                WHEN 'longest' THEN -w.waiting ELSE 0 END::double precision AS place) p
WHERE (%(name)s::text IS NULL OR l.name = %(name)s::text) AND (%(tenant)s::text IS NULL OR l.tenant = %(tenant)s::text)
  AND (%(kind)s::text IS NULL OR l.kind = %(kind)s::text) AND (%(job)s::text IS NULL OR %(job)s::text = ANY (l.jobs))
  AND (%(queue)s::text IS NULL OR l.queue = %(queue)s::text)
  AND (%(after)s::jsonb IS NULL OR (p.place, l.tenant, l.name) >
       ((%(after)s::jsonb ->> 0)::double precision, %(after)s::jsonb ->> 1, %(after)s::jsonb ->> 2))
ORDER BY p.place, l.tenant, l.name LIMIT %(limit)s::integer
