-- Durations and results have a place for each id from the first on; a duration below 0: it goes on.
SELECT rota.finish_span(
    for_worker => %(worker)s::bigint,
    first_id => %(first_id)s::bigint,
    of_attempt => %(attempt)s::integer,
    durations_us => %(durations)s::bigint[],
    results => %(results)s::text[]::jsonb[])
