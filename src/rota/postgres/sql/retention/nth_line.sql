SELECT l.at + interval '1 microsecond' AS at FROM rota.logs l WHERE l.job = %(job)s::text ORDER BY l.at DESC OFFSET %(count)s::integer LIMIT 1
