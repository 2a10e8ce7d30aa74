SELECT rota.next_schedule_seconds()
