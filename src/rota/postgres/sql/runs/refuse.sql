SELECT count(*) FROM rota.refuse_runs(
    for_worker => %(worker)s::bigint,
    ids => %(ids)s::bigint[],
    attempts => %(attempts)s::integer[],
    durations_ms => %(durations)s::real[],
    intakes => %(intakes)s::integer[],
    signatures => %(signatures)s::integer[],
    error_types => %(error_types)s::text[],
    errors => %(errors)s::text[],
    tracebacks => %(tracebacks)s::text[])
