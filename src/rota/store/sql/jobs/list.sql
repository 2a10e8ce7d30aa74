SELECT j.name, j.description, j.queue, j.priority, j.max_attempts, j.timeout_seconds, j.backoff, j.executor, j.payload_schema,
       j.tags, j.metadata, j.source, j.created_at, j.updated_at,
       (SELECT count(*) FROM rota.workers w
        WHERE w.state = 'live' AND w.lease_expires_at > clock_timestamp() AND j.name = ANY (w.jobs)) AS workers
FROM rota.jobs j
WHERE %(name)s::text IS NULL OR j.name = %(name)s::text
ORDER BY j.name
