-- The newest of those that are too many.
SELECT r.finished_at AS at, r.id FROM rota.ended_runs r
WHERE r.job = %(job)s::text AND r.state = ANY (%(states)s::text[])
ORDER BY r.finished_at DESC, r.id DESC OFFSET %(count)s::integer LIMIT 1
