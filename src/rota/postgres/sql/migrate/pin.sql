SELECT rota.pin_functions()
