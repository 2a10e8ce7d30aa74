SELECT rota.register_worker(
    name => %(name)s::text, host => %(host)s::text, pid => %(pid)s::integer, version => %(version)s::text,
    queues => %(queues)s::text[], jobs => %(jobs)s::text[], concurrency => %(concurrency)s::integer,
    lease_seconds => %(lease_seconds)s::double precision, intakes => %(intakes)s::integer[])
