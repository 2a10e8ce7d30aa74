SELECT rota.report_progress(
    for_worker => %(worker)s::bigint, ids => %(ids)s::bigint[], attempts => %(attempts)s::integer[],
    fractions => %(fractions)s::real[], messages => %(messages)s::text[])
