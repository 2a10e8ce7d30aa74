SELECT rota.add_tallies(
    for_worker => %(worker)s::bigint, jobs => %(jobs)s::text[], queues => %(queues)s::text[], outcomes => %(outcomes)s::text[],
    attempts => %(attempts)s::integer[], durations_ms => %(durations)s::double precision[], longests_ms => %(longests)s::real[],
    histograms => %(histograms)s::numeric[])
