-- The latest instant at which this id had certainly not been given out yet.
SELECT max(at) AS since FROM rota.id_marks WHERE id < %(id)s::bigint
