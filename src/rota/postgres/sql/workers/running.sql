-- What one worker runs, the longest first.
SELECT id, job, queue, worker, attempt, started_at, progress, message
FROM rota.running_runs() WHERE worker = %(worker)s::bigint ORDER BY started_at, id LIMIT %(limit)s::integer
