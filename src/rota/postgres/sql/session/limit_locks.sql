-- For the transaction that it stands at the beginning of.
SELECT set_config('lock_timeout', %(milliseconds)s::text, true)
