-- What waits and runs in one queue, by job, the longest line first.
SELECT job, blocked, scheduled, queued, held, running,
       extract(epoch FROM clock_timestamp() - oldest_at)::double precision AS oldest_seconds
FROM rota.read_depths() WHERE queue = %(name)s::text ORDER BY queued DESC, job
