SELECT rota.prune_runs(%(job)s::text, %(states)s::text[], %(at)s::timestamptz, %(id)s::bigint, %(spared_class)s::text, %(limit)s::integer) AS removed
