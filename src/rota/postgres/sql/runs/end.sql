SELECT count(*) FROM rota.finish_runs(
    for_worker => %(worker)s::bigint,
    ids => %(ids)s::bigint[],
    attempts => %(attempts)s::integer[],
    durations_ms => %(durations)s::real[],
    results => %(results)s::text[]::jsonb[],
    states => %(states)s::text[],
    attempt_states => %(attempt_states)s::text[],
    end_reasons => %(end_reasons)s::text[],
    messages => %(messages)s::text[],
    error_types => %(error_types)s::text[],
    errors => %(errors)s::text[],
    tracebacks => %(tracebacks)s::text[],
    details => %(details)s::text[]::jsonb[])
