-- Who waits for a limit becomes ready as far as there is room. is_waiting: NULL where there are no limits at all.
SELECT admitted, next_seconds, last_key, is_waiting FROM rota.admit_runs(max_runs => %(limit)s::integer, after_key => %(after)s::text)
