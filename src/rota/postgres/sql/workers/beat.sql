-- For as long as somebody holds the worker's row it waits no longer than this, and says so: time is left to ask who it is.
SELECT set_config('lock_timeout', %(wait)s::integer::text, true), rota.beat(
    for_worker => %(worker)s::bigint, stuck => %(stuck)s::boolean, claimed_seconds => %(claimed)s::double precision,
    finished_seconds => %(finished)s::double precision, errors => %(errors)s::integer, trouble => %(trouble)s::text,
    memory_bytes => %(memory_bytes)s::bigint, cpu_seconds => %(cpu_seconds)s::double precision)
