-- Overlap policy cancel_running: what has not ended makes room for the run that waits.
SELECT rota.cancel_run(o.id, 'the next run of its schedule is due', 'rota')
FROM rota.open_runs o WHERE o.schedule_id = ANY (%(ids)s::bigint[]) AND o.held_by IS DISTINCT FROM 'overlap'
