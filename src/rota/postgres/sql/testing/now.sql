SELECT rota.now() AS now
