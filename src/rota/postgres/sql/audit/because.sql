-- Why: for everything that is written to the audit in this transaction and gives no reason of its own.
SELECT set_config('rota' || '.reason', %(reason)s::text, true)
