-- Which of these runs still belong to this worker: locked by somebody, not lost.
SELECT id FROM rota.open_runs WHERE id = ANY (%(ids)s::bigint[]) AND worker = %(worker)s::bigint
