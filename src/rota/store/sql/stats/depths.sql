-- What waits and runs, by queue, as it was counted last; see counted_at.
SELECT d.queue, sum(d.blocked)::bigint AS blocked, sum(d.scheduled)::bigint AS scheduled, sum(d.queued)::bigint AS queued,
       sum(d.held)::bigint AS held, sum(d.running)::bigint AS running,
       extract(epoch FROM clock_timestamp() - min(d.oldest_at))::double precision AS oldest_seconds
FROM rota.depths d
WHERE (%(job)s::text IS NULL OR d.job = %(job)s::text) AND (%(queue)s::text IS NULL OR d.queue = %(queue)s::text)
GROUP BY d.queue ORDER BY d.queue
