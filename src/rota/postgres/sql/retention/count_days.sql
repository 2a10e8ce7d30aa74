SELECT count(*) AS rows FROM rota.tenant_days WHERE day < (%(before_at)s::timestamptz AT TIME ZONE 'UTC')::date
