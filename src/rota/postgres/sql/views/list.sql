SELECT name, query, created_by, created_at FROM rota.run_views ORDER BY name LIMIT 500
