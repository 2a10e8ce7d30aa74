SELECT rota.beat(
    for_worker => %(worker)s::bigint, stuck => %(stuck)s::boolean, claimed_seconds => %(claimed)s::double precision,
    finished_seconds => %(finished)s::double precision, errors => %(errors)s::integer, trouble => %(trouble)s::text)
