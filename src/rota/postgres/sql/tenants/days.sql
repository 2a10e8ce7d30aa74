-- With what was not folded yet.
SELECT c.day, sum(c.enqueued)::bigint AS enqueued, sum(c.bytes)::bigint AS bytes, sum(c.succeeded)::bigint AS succeeded,
       sum(c.failed)::bigint AS failed, sum(c.other)::bigint AS other, sum(c.seconds)::double precision AS seconds
FROM (SELECT day, enqueued, bytes, succeeded, failed, other, seconds FROM rota.tenant_days
      WHERE tenant = %(name)s::text AND day > (rota.now() AT TIME ZONE 'UTC')::date - %(days)s::integer
      UNION ALL SELECT day, enqueued, bytes, succeeded, failed, other, seconds FROM rota.tenant_changes WHERE tenant = %(name)s::text) c
GROUP BY c.day ORDER BY c.day DESC
