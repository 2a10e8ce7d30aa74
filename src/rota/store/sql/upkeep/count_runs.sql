SELECT rota.count_ended_runs()
