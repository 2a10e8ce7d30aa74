-- What has run longest.
SELECT id, job, queue, worker, attempt, started_at, progress, message
FROM rota.running_runs() ORDER BY started_at, id LIMIT %(limit)s::integer
