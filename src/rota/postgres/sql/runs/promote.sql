SELECT promoted, next_due_seconds FROM rota.promote_runs(max_runs => %(limit)s::integer)
