-- Which of these open runs another transaction has locked; the others are locked by this one from now on.
SELECT o.id FROM rota.open_runs o
WHERE o.id = ANY (%(ids)s::bigint[])
  AND o.id NOT IN (SELECT f.id FROM rota.open_runs f WHERE f.id = ANY (%(ids)s::bigint[]) FOR UPDATE SKIP LOCKED)
