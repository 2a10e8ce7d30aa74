-- What waits and runs by job; of one, or of all that have any.
SELECT job, sum(blocked)::bigint AS blocked, sum(scheduled)::bigint AS scheduled, sum(queued)::bigint AS queued, sum(held)::bigint AS held,
       sum(running)::bigint AS running, extract(epoch FROM clock_timestamp() - min(oldest_at))::double precision AS oldest_seconds
FROM rota.read_depths() WHERE %(job)s::text IS NULL OR job = %(job)s::text GROUP BY job
