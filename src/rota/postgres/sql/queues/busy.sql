SELECT rota.busy_queues()
