-- Written by the watchdog of a process that is about to end.
SELECT rota.time_out_run(for_worker => %(worker)s::bigint, of_run => %(id)s::bigint, of_attempt => %(attempt)s::integer, timeout => %(timeout)s::real)
