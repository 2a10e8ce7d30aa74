-- Who the audit names for what follows in this transaction.
SELECT rota.act_as(%(actor)s::text)
