-- How attempts of tenants have ended, since the last time.
INSERT INTO rota.tenant_changes (tenant, succeeded, failed, other, seconds)
SELECT t.tenant, t.succeeded, t.failed, t.other, t.seconds
FROM unnest(%(tenants)s::text[], %(succeeded)s::bigint[], %(failed)s::bigint[], %(others)s::bigint[], %(seconds)s::double precision[])
     AS t (tenant, succeeded, failed, other, seconds)
