SELECT name, query, created_by, created_at FROM rota.run_views
WHERE %(name)s::text IS NULL OR name = %(name)s::text ORDER BY name LIMIT 500
