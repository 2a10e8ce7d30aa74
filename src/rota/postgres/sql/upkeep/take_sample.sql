SELECT rota.take_sample()
