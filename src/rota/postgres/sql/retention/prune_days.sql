WITH gone AS (
    DELETE FROM rota.tenant_days WHERE (tenant, day) IN (
        SELECT d.tenant, d.day FROM rota.tenant_days d WHERE d.day < (%(before_at)s::timestamptz AT TIME ZONE 'UTC')::date
        ORDER BY d.day LIMIT %(limit)s::integer FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) AS removed FROM gone
