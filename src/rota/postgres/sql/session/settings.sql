SELECT name, setting FROM pg_catalog.pg_settings WHERE name = ANY(%(names)s)
