SELECT rota.add_rollups(
    for_worker => %(worker)s::bigint, jobs => %(jobs)s::text[], queues => %(queues)s::text[], outcomes => %(outcomes)s::text[],
    attempts => %(attempts)s::integer[], durations_ms => %(durations)s::double precision[], longests_ms => %(longests)s::real[],
    all_buckets => %(buckets)s::text[])
