SELECT rota.delete_tenant_traces(%(name)s::text, %(from_at)s::timestamptz, %(to_at)s::timestamptz) AS removed
