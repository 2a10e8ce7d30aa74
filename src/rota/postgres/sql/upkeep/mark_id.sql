SELECT rota.mark_id()
