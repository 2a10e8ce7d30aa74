SELECT number, objects FROM rota.migrations ORDER BY number DESC LIMIT 1
