-- All that the database believes this worker to hold. Read after a broken connection: a claim whose answer was lost left
-- runs that nobody would start. What it isolates is claimed over another connection, which tells of it again by itself.
SELECT id, attempt FROM rota.open_runs
WHERE is_ready AND worker = %(worker)s::bigint
  AND id IS DISTINCT FROM (SELECT rota.isolating_of(w) FROM rota.workers w WHERE w.id = %(worker)s::bigint)
