SELECT rota.delete_tenant_part(%(name)s::text, %(part)s::text, %(limit)s::integer) AS removed
