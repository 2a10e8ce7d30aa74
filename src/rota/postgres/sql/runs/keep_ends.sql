-- Ends that could not be written now: only appended, so that it waits for nobody.
SELECT rota.keep_ends(
    for_worker => %(worker)s::bigint,
    ids => %(ids)s::bigint[],
    attempts => %(attempts)s::integer[],
    durations_ms => %(durations)s::real[],
    attempt_states => %(attempt_states)s::text[],
    states => %(states)s::text[],
    end_reasons => %(end_reasons)s::text[],
    results => %(results)s::text[]::jsonb[],
    messages => %(messages)s::text[],
    error_types => %(error_types)s::text[],
    errors => %(errors)s::text[],
    tracebacks => %(tracebacks)s::text[],
    details => %(details)s::text[]::jsonb[],
    delays => %(delays)s::double precision[],
    spent => %(spent)s::boolean[],
    intakes => %(intakes)s::integer[],
    signatures => %(signatures)s::integer[])
