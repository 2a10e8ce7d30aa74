SELECT pg_catalog.set_config('statement_timeout', %(timeout)s, %(is_local)s)
