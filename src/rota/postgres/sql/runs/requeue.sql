SELECT count(*) FROM rota.requeue_runs(
    for_worker => %(worker)s::bigint,
    ids => %(ids)s::bigint[],
    attempts => %(attempts)s::integer[],
    durations_ms => %(durations)s::real[],
    attempt_states => %(attempt_states)s::text[],
    delays => %(delays)s::double precision[],
    spent => %(spent)s::boolean[],
    messages => %(messages)s::text[],
    error_types => %(error_types)s::text[],
    errors => %(errors)s::text[],
    tracebacks => %(tracebacks)s::text[],
    details => %(details)s::text[]::jsonb[])
