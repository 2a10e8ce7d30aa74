-- A call to itself shows whether calls arrive.
SELECT pg_notify(%(channel)s::text, '')
