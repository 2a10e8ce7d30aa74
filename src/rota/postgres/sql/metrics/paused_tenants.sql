SELECT count(*) AS paused FROM rota.tenants t WHERE t.is_paused AND rota.tenant_is_paused(t)
