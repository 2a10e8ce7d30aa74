-- Whether a run that was lost once waits to be claimed alone by a worker like this.
SELECT EXISTS (
    SELECT FROM rota.open_runs o
    WHERE o.held_by = 'suspect' AND o.job = ANY (%(jobs)s::text[])
      AND (%(queues)s::text[] = '{}' OR o.queue = ANY (%(queues)s::text[]))
      AND NOT EXISTS (SELECT FROM rota.queues s WHERE s.name = o.queue AND s.is_paused))
