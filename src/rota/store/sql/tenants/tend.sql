SELECT moved, next_seconds FROM rota.tend_tenants(max_runs => %(limit)s::integer)
