-- The tenants that have most open, then those that did most today, so many of them; the others as one. Kept counts, nothing is counted here.
WITH named AS (
    SELECT d.tenant FROM rota.tenant_depths d UNION SELECT y.tenant FROM rota.tenant_days y WHERE y.day = (rota.now() AT TIME ZONE 'UTC')::date
), ranked AS (
    SELECT n.tenant, d.blocked, d.scheduled, d.queued, d.held, d.running, y.succeeded, y.failed,
           row_number() OVER (ORDER BY coalesce(d.blocked + d.scheduled + d.queued + d.running, 0) DESC, coalesce(y.succeeded + y.failed, 0) DESC, n.tenant) AS place
    FROM named n LEFT JOIN rota.tenant_depths d ON d.tenant = n.tenant
    LEFT JOIN rota.tenant_days y ON y.tenant = n.tenant AND y.day = (rota.now() AT TIME ZONE 'UTC')::date
)
SELECT CASE WHEN r.place <= %(most)s::integer THEN r.tenant END AS tenant, coalesce(sum(r.blocked), 0)::bigint AS blocked,
       coalesce(sum(r.scheduled), 0)::bigint AS scheduled, coalesce(sum(r.queued - r.held), 0)::bigint AS queued, coalesce(sum(r.held), 0)::bigint AS held,
       coalesce(sum(r.running), 0)::bigint AS running, coalesce(sum(r.succeeded), 0)::bigint AS succeeded, coalesce(sum(r.failed), 0)::bigint AS failed
FROM ranked r GROUP BY 1 ORDER BY min(r.place)
