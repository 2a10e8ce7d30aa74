-- At the beginning of a transaction on a user's own connection; gone with it. Rescue ends the backend of a lost worker by its name, and where it
-- may not, the server itself ends what a stopped process left open. The last column says which transaction this is.
SELECT pg_catalog.set_config('application_name', %(name)s::text, true),
       pg_catalog.set_config('idle_in_transaction_session_timeout', %(idle)s::text, true),
       pg_catalog.date_part('epoch', pg_catalog.transaction_timestamp())
