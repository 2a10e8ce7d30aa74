SELECT rota.fail_refused_runs(after_seconds => %(seconds)s::double precision, max_runs => %(limit)s::integer)
