INSERT INTO rota.migrations (number, name, oldest_code, objects)
VALUES (%(number)s, %(name)s, %(oldest_code)s, %(objects)s)
