SELECT rota.prune_refusals(%(before_at)s::timestamptz, %(limit)s::integer) AS removed
