SELECT name FROM rota.jobs ORDER BY name
