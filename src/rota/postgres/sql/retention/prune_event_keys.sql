SELECT rota.prune_event_keys(%(before_at)s::timestamptz, %(limit)s::integer) AS removed
