-- What waits and runs, by queue: of few runs the exact count, of many as it was counted last. The first row says how old that is.
WITH counted AS MATERIALIZED (
    SELECT * FROM rota.read_depths()
), wanted AS (
    SELECT * FROM counted
    WHERE (%(job)s::text IS NULL OR job = %(job)s::text) AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
)
SELECT NULL AS queue, 0 AS blocked, 0 AS scheduled, 0 AS queued, 0 AS held, 0 AS running, 0 AS expired,
       extract(epoch FROM clock_timestamp() - coalesce(min(counted_at), clock_timestamp()))::double precision AS oldest_seconds
FROM counted
UNION ALL
(SELECT queue, sum(blocked)::bigint, sum(scheduled)::bigint, sum(queued)::bigint, sum(held)::bigint, sum(running)::bigint, sum(expired)::bigint,
        extract(epoch FROM clock_timestamp() - min(oldest_at))::double precision
 FROM wanted GROUP BY queue ORDER BY queue)
