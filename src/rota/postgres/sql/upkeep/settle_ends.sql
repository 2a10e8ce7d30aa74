SELECT rota.settle_schedule_ends(most => %(limit)s::integer)
