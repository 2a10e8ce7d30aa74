-- As list, without what is large.
SELECT id, job, state
FROM rota.run_rows r
{runs/fitting}
ORDER BY id DESC
LIMIT %(limit)s::integer
