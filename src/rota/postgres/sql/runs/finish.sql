SELECT count(*) FROM rota.finish_runs(
    for_worker => %(worker)s::bigint,
    ids => %(ids)s::bigint[],
    attempts => %(attempts)s::integer[],
    durations_ms => %(durations)s::real[],
    results => %(results)s::text[]::jsonb[])
