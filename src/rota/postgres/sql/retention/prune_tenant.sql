SELECT rota.prune_tenant(%(tenant)s::text, %(states)s::text[], %(before_at)s::timestamptz, %(limit)s::integer) AS removed
