-- The latest instant at which this id had certainly not been given out yet.
SELECT rota.created_after(%(id)s::bigint) AS since
