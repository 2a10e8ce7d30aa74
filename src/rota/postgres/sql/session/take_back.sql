-- After users' code, in its transaction: nothing that it set reaches the statements that end the run. It returns which transaction this is.
RESET SESSION AUTHORIZATION;
RESET ROLE;
RESET ALL;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL jit = off;
SET LOCAL statement_timeout = 0;
SET LOCAL idle_in_transaction_session_timeout = %(idle)s;
SELECT pg_catalog.date_part('epoch', pg_catalog.transaction_timestamp())
