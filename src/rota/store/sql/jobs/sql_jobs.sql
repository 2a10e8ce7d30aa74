SELECT name, timeout_seconds, backoff FROM rota.jobs WHERE kind = 'sql' ORDER BY name
