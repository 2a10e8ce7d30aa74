-- How the attempts of the last days were shared among tenants: those with most, and all others as one row without a name; by day, the oldest
-- first, from the sums that are kept, with what was not folded yet.
WITH days AS MATERIALIZED (
    SELECT c.tenant, c.day, sum(c.ended)::bigint AS ended
    FROM (SELECT y.tenant, y.day, y.succeeded + y.failed + y.other AS ended FROM rota.tenant_days y
          WHERE y.day > (rota.now() AT TIME ZONE 'UTC')::date - %(days)s::integer
          UNION ALL SELECT h.tenant, h.day, h.succeeded + h.failed + h.other FROM rota.tenant_changes h) c
    WHERE c.tenant <> '' GROUP BY c.tenant, c.day
), ranked AS MATERIALIZED (
    SELECT d.tenant, sum(d.ended) AS ended, least(row_number() OVER (ORDER BY sum(d.ended) DESC, d.tenant), %(most)s::integer + 1) AS place
    FROM days d GROUP BY d.tenant HAVING sum(d.ended) > 0
), by_day AS MATERIALIZED (
    SELECT r.place, d.day, sum(d.ended)::bigint AS ended FROM days d JOIN ranked r ON r.tenant = d.tenant GROUP BY r.place, d.day
)
SELECT CASE WHEN r.place <= %(most)s::integer THEN min(r.tenant) END AS name, count(*) AS tenants,
       CASE WHEN r.place <= %(most)s::integer THEN rota.tenant_weight(min(r.tenant))::double precision END AS weight, sum(r.ended)::bigint AS ended,
       ARRAY(SELECT coalesce(b.ended, 0) FROM generate_series(%(days)s::integer - 1, 0, -1) AS n
             LEFT JOIN by_day b ON b.place = r.place AND b.day = (rota.now() AT TIME ZONE 'UTC')::date - n ORDER BY n DESC) AS counts
FROM ranked r GROUP BY r.place ORDER BY r.place
