SELECT worker, name FROM rota.mark_lost_workers()
