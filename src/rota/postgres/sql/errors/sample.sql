-- The last runs that ended with an error of this group, without what is large.
SELECT e.id, e.job, coalesce(w.name, e.worker::text) AS worker,
       CASE WHEN pg_column_size(e.payload) <= 4000 THEN e.payload END AS payload
FROM (SELECT r.id, r.job, r.worker, r.payload FROM rota.ended_runs r WHERE r.error_group = %(id)s::text ORDER BY r.id DESC LIMIT %(limit)s::integer) e
LEFT JOIN rota.workers w ON w.id = e.worker ORDER BY e.id DESC
