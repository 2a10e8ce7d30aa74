SELECT rota.fail_unknown_runs(after_seconds => %(seconds)s::double precision, max_runs => %(limit)s::integer)
