-- As text, which every driver hands over as it is; by the caller's connection, which sees its own transaction.
SELECT to_jsonb(r)::text FROM rota.runs r WHERE r.job = %(job)s::text ORDER BY r.id
