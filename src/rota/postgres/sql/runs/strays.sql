-- All that the database believes this worker to hold. Read after a broken connection: a claim whose answer was lost left
-- runs that nobody would start. What it isolates is claimed over another connection, which tells of it again by itself;
-- what has a kept end has ended.
SELECT o.id, o.attempt FROM rota.open_runs o
WHERE o.is_ready AND o.worker = %(worker)s::bigint
  AND o.id IS DISTINCT FROM (SELECT rota.isolating_of(w) FROM rota.workers w WHERE w.id = %(worker)s::bigint)
  AND NOT EXISTS (SELECT FROM rota.kept_ends k WHERE k.run_id = o.id AND k.attempt = o.attempt AND k.worker = o.worker)
