SELECT max(m.number) AS number, max(m.oldest_code) AS oldest_code FROM rota.migrations m
