-- One worker at a time makes room for suspects; two that do so at once do no harm.
UPDATE rota.workers w SET is_solo = true
WHERE w.id = %(worker)s::bigint AND w.state = 'live'
  AND NOT EXISTS (SELECT FROM rota.workers o WHERE o.is_solo AND o.state = 'live' AND o.id <> w.id)
RETURNING w.id
