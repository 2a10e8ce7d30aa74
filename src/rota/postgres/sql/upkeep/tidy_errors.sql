SELECT rota.tidy_errors()
