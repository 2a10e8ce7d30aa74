-- For decisions about times that lie outside of the partitions that upkeep makes.
SELECT rota.ensure_ledger(%(instants)s::timestamptz[])
