SELECT name, retention_days, failed_retention_days FROM rota.tenants WHERE num_nonnulls(retention_days, failed_retention_days) > 0 ORDER BY name
