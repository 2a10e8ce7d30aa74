-- Said by a supervisor that saw the process end: nobody has to wait for the lease to run out.
UPDATE rota.workers w
SET state = 'lost', ended_at = clock_timestamp(), is_waiting = false, isolating_run = rota.isolating_of(w)
FROM (SELECT set_config('lock_timeout', '500ms', true)) bound
WHERE w.id = %(worker)s::bigint AND w.state IN ('live', 'stopping')
RETURNING w.id
