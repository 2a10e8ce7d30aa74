SELECT rota.add_counts(
    names => %(names)s::text[], labels => %(labels)s::text[], amounts => %(amounts)s::bigint[],
    totals => %(totals)s::double precision[], all_buckets => %(buckets)s::text[])
