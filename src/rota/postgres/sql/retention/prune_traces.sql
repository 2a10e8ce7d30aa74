SELECT last_id, removed FROM rota.prune_traces(%(partition)s::text, %(after_id)s::bigint, %(with_logs)s::boolean, %(limit)s::integer)
