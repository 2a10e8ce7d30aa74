-- A transaction below this id (of 32 bits, compared as the server does) that has changed runs and is still open: found
-- by its locks, because the snapshot counts every transaction of the server.
SELECT 1
FROM pg_locks r
JOIN pg_locks t ON t.virtualtransaction = r.virtualtransaction AND t.locktype = 'transactionid'
    AND t.mode = 'ExclusiveLock'
WHERE r.locktype = 'relation' AND r.relation = 'rota.open_runs'::regclass AND r.mode = 'RowExclusiveLock'
  AND r.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  AND (t.transactionid::text::bigint - %(xid)s::bigint + 4294967296) %% 4294967296 >= 2147483648
LIMIT 1
