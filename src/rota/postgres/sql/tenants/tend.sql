-- One turn of a worker for tenants and for queues that have a cap.
SELECT t.moved + c.moved, least(t.next_seconds, c.next_seconds)
FROM rota.tend_tenants(max_runs => %(limit)s::integer) t, rota.tend_caps() c
