SELECT leftover, statement, analysis FROM rota.next_log_index(%(least_bytes)s::bigint)
