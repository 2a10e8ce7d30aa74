SELECT rota.prune_rows(%(table)s::text, %(before_at)s::timestamptz, %(limit)s::integer) AS removed
