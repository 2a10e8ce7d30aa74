-- Locks of one's own. An advisory lock can be taken by everybody who may connect; to lock one of these rows takes the right to
-- change Rota's tables. Nobody waits for ever, and who waited says for whom.
CREATE TABLE rota.locks (
    name text COLLATE "C" PRIMARY KEY
);
COMMENT ON TABLE rota.locks IS 'What one worker at a time does, a row each.';
INSERT INTO rota.locks (name) VALUES
    ('counts'), ('definitions'), ('depths'), ('fleet'), ('hold_due'), ('job_counts'), ('partitions'), ('rescue'), ('rollups');

-- Who holds a row, by its xmax: the transaction that has locked or changed it and is not over.
CREATE FUNCTION rota.row_holder(row_xmax xid) RETURNS TABLE (pid integer, since timestamptz, query text)
LANGUAGE sql STABLE SET jit = off AS $$
    SELECT l.pid, a.xact_start, left(a.query, 300)
    FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted AND l.transactionid = row_xmax
$$;

-- Until the end of the transaction; an error (55P03) that names the holder if that takes too long.
CREATE FUNCTION rota.take_lock(name text, patience_ms integer DEFAULT 5000) RETURNS void LANGUAGE plpgsql VOLATILE
SET lock_timeout = '5s' SET jit = off AS $$
DECLARE
    holder record;
BEGIN
    PERFORM set_config('lock_timeout', patience_ms::text, true);
    PERFORM FROM rota.locks l WHERE l.name = take_lock.name FOR UPDATE;
EXCEPTION WHEN lock_not_available THEN
    SELECT h.* INTO holder FROM rota.locks l CROSS JOIN LATERAL rota.row_holder(l.xmax) h WHERE l.name = take_lock.name;
    RAISE EXCEPTION 'the lock "%" is held by %', take_lock.name,
        coalesce(format('pid %s since %s, last seen with: %s', holder.pid, holder.since, holder.query), 'somebody')
        USING ERRCODE = 'lock_not_available', HINT = 'End that transaction.';
END $$;

-- Until the end of the transaction, if nobody has it.
CREATE FUNCTION rota.try_lock(name text) RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    PERFORM FROM rota.locks l WHERE l.name = try_lock.name FOR UPDATE SKIP LOCKED;
    RETURN FOUND;
END $$;

-- Every function that took such a lock by its name, as it is defined now.
DO $$
DECLARE
    found record;
    named constant text := 'advisory_xact_lock\(hashtextextended\(''[^'']*\.(\w+)'', 0\)\)';
BEGIN
    FOR found IN SELECT p.oid FROM pg_proc p JOIN pg_class c ON c.relnamespace = p.pronamespace
                 WHERE c.oid = 'rota.locks'::regclass AND p.prosrc ~ named LOOP
        EXECUTE regexp_replace(regexp_replace(pg_get_functiondef(found.oid), 'pg_try_' || named, 'rota.try_lock(''\1'')', 'g'),
                               'pg_' || named, 'rota.take_lock(''\1'')', 'g');
    END LOOP;
END $$;

-- A pass of retention is many transactions: it holds one of these from a transaction of its own, which changes nothing.
CREATE TABLE rota.pruning_runs ();
CREATE TABLE rota.pruning_logs ();
