SELECT rota.count_depths(max_age_seconds => %(seconds)s::double precision)
