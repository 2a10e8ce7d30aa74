SELECT name, timeout_seconds, backoff, log_level FROM rota.jobs WHERE kind = 'sql' ORDER BY name
