SELECT to_regclass('rota.migrations') IS NOT NULL
