-- Who the audit names for what follows in this transaction, and why.
SELECT rota.act_as(%(actor)s::text), set_config('rota' || '.reason', coalesce(%(reason)s::text, ''), true)
