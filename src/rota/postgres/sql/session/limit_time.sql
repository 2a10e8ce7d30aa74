-- For the transaction that it stands at the beginning of.
SELECT set_config('statement_timeout', %(milliseconds)s::text, true)
