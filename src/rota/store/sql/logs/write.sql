-- The age of a line comes from the worker's monotonic clock; the instant is the database's.
INSERT INTO rota.logs (at, run_id, worker, attempt, seq, level, job, tenant, message, fields)
SELECT (SELECT rota.now()) - make_interval(secs => l.age), l.run_id, l.worker, l.attempt, l.seq, l.level, l.job, l.tenant, l.message, l.fields::jsonb
FROM unnest(%(ages)s::double precision[], %(run_ids)s::bigint[], %(workers)s::bigint[], %(attempts)s::integer[], %(seqs)s::integer[],
            %(levels)s::text[], %(jobs)s::text[], %(tenants)s::text[], %(messages)s::text[], %(fields)s::text[])
     AS l (age, run_id, worker, attempt, seq, level, job, tenant, message, fields)
