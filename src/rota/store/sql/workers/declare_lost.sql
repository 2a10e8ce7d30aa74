-- Said by a supervisor that saw the process end: nobody has to wait for the lease to run out.
UPDATE rota.workers
SET state = 'lost', ended_at = clock_timestamp(), is_waiting = false, is_solo = false
WHERE id = %(worker)s::bigint AND state IN ('live', 'stopping')
RETURNING id
