-- The ground that everything stands on: `settings` (one row), the clock (`now`, `set_clock`), and `locks`, which say
-- what one process at a time may do (`take_lock`, `try_lock`). The files of this directory are read in their order;
-- 07_runs to 12_upkeep are the life of a run.

-- Functions name tables and functions of later files.
SET LOCAL check_function_bodies = off;

-- One row. The offset is in a table, not in a setting, because every process must see
-- the same clock; tests move it, production leaves it at zero.
CREATE TABLE rota.settings (
    is_only_row   boolean PRIMARY KEY DEFAULT true CHECK (is_only_row),
    clock_offset  interval NOT NULL DEFAULT '0',
    payload_bytes integer NOT NULL DEFAULT 1048576 CHECK (payload_bytes >= 1024),
    -- Retention. What the configuration says is kept here, so that a job's policy can be judged by plain SQL too.
    retention     jsonb NOT NULL DEFAULT
        '{"short_days": 7, "run_days": 30, "failed_run_days": null, "long_days": 365, "log_days": 7, '
        '"occurrence_days": 90, "rollup_days": 400, "audit_days": null}',
    -- An enqueue reads this row anyway, and looks for limits only where there are any.
    has_limits    boolean NOT NULL DEFAULT false,
    capped_queues text[] COLLATE "C" NOT NULL DEFAULT '{}',
    -- Where all workers hear calls. Channels have no rights: whoever knows the name can call. So it cannot be guessed,
    -- and two schemas of one database have two.
    channel       text NOT NULL DEFAULT 'rota_' || replace(gen_random_uuid()::text, '-', ''),
    -- Whether runs may still commit that were enqueued before a limit: a claim reads this row anyway, and leaves them.
    is_adopting   boolean NOT NULL DEFAULT false
);
INSERT INTO rota.settings DEFAULT VALUES;

-- Business time: due, expiry, backoff, history. Leases and heartbeats use the server's
-- real clock, so that a test which jumps a day does not rescue every live worker.
-- statement_timestamp(), because in a long transaction now() is the past.
-- Called by: many.
CREATE FUNCTION rota.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT statement_timestamp() + (SELECT clock_offset FROM rota.settings)
$$;

-- Moves business time, for tests; NULL sets it back to the real clock. A clock that stands at no instant would stop
-- everything, so that is refused. Ids are marked before and after, because ids of both times lie side by side.
-- Called by: operations/reports/checks/server.py, sql/testing/advance_clock.sql, sql/testing/reset.sql,
-- sql/testing/set_clock.sql, users.
CREATE FUNCTION rota.set_clock(at timestamptz) RETURNS timestamptz LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    clock timestamptz;
BEGIN
    IF NOT rota.is_instant(at) THEN
        RAISE EXCEPTION 'the clock cannot be set to %', at
            USING ERRCODE = 'RO002', HINT = 'A time must be in the years 1 to 9999 (0001-01-02 to 9999-12-30, UTC).';
    END IF;
    PERFORM rota.mark_clock();
    UPDATE rota.settings SET clock_offset = coalesce(at - statement_timestamp(), '0')
    RETURNING statement_timestamp() + clock_offset INTO clock;
    PERFORM rota.mark_clock();
    RETURN clock;
END $$;
COMMENT ON FUNCTION rota.set_clock IS 'Sets the business time (for tests); NULL returns to the real clock.';

-- Locks of one's own. An advisory lock can be taken by everybody who may connect; to lock one of these rows takes the
-- right to change Rota's tables. Nobody waits for ever, and who waited says for whom.
CREATE TABLE rota.locks (
    name text COLLATE "C" PRIMARY KEY
);
COMMENT ON TABLE rota.locks IS 'Tasks that only one worker at a time performs, one row each.';
INSERT INTO rota.locks (name) VALUES ('admission'), ('caps'), ('counts'), ('definitions'), ('depths'), ('errors'),
    ('fleet'), ('hold_due'), ('isolation'), ('partitions'), ('requirements'), ('rescue'), ('rollups'), ('samples'),
    ('tenants');

-- Who holds a row, by its xmax: the transaction that has locked or changed it and is not over.
-- Called by: sql/schedules/holders.sql, sql/schedules/lock_holder.sql, sql/workers/holder.sql, take_lock.
CREATE FUNCTION rota.row_holder(row_xmax xid) RETURNS TABLE (pid integer, since timestamptz, query text)
LANGUAGE sql STABLE SET jit = off AS $$
    SELECT l.pid, a.xact_start, left(a.query, 300)
    FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted AND l.transactionid = row_xmax
$$;

-- Takes a lock of rota.locks until the end of the transaction. An error (55P03) names the holder if that takes too
-- long.
-- Called by: check_requirements, ensure_ledger, ensure_partitions, hold_due, note_skipped_inits, register_jobs,
-- rename_job, start_worker.
-- Locks: rows.
CREATE FUNCTION rota.take_lock(name text, patience_ms integer DEFAULT 5000) RETURNS void
LANGUAGE plpgsql VOLATILE SET lock_timeout = '5s' SET jit = off AS $$
DECLARE
    holder record;
BEGIN
    PERFORM set_config('lock_timeout', patience_ms::text, true);
    PERFORM FROM rota.locks l WHERE l.name = take_lock.name FOR UPDATE;
EXCEPTION WHEN lock_not_available THEN
    SELECT h.* INTO holder FROM rota.locks l CROSS JOIN LATERAL rota.row_holder(l.xmax) h WHERE l.name = take_lock.name;
    IF holder.pid IS NULL THEN
        -- Whoever took it here did so in a subtransaction, which names nobody: the oldest that has locked a row.
        SELECT l.pid, a.xact_start AS since, left(a.query, 300) AS query INTO holder
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        WHERE l.relation = 'rota.locks'::regclass AND l.mode = 'RowShareLock' AND l.pid <> pg_backend_pid()
        ORDER BY a.xact_start LIMIT 1;
    END IF;
    RAISE EXCEPTION 'the lock "%" is held by %', take_lock.name,
        CASE WHEN holder.pid IS NULL THEN 'another transaction'
            ELSE format('pid %s since %s, last seen with: %s', holder.pid, holder.since, holder.query) END
        USING ERRCODE = 'lock_not_available', HINT = 'End that transaction.';
END $$;

-- Takes a lock of rota.locks until the end of the transaction if nobody has it; returns whether it did.
-- Called by: many.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.try_lock(name text) RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    PERFORM FROM rota.locks l WHERE l.name = try_lock.name FOR UPDATE SKIP LOCKED;
    RETURN FOUND;
END $$;

-- The version of a row that people edit, after one more write: it grows with every change outside the listed columns,
-- so that an edit can say which state it was made from (expect_version).
-- Called by: before_calendar, before_job, before_queue, before_template.
CREATE FUNCTION rota.next_version(version bigint, was jsonb, given jsonb, hidden text[]) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT version + (was - hidden IS DISTINCT FROM given - hidden)::integer
$$;

-- A value as lists show it: one of more than `most` bytes is replaced by an object that says so, and at which address
-- of the API the whole is, as a page of large payloads would fill the memory of whoever reads it. As it is if `most` is
-- NULL. What is stored without compression is measured without being read.
-- Called by: many.
CREATE FUNCTION rota.listed(value jsonb, most integer, whole text) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT CASE WHEN most IS NULL OR value IS NULL THEN value
        WHEN pg_column_size(value) > most
            OR pg_column_compression(value) IS NOT NULL AND octet_length(value::text) > most
            THEN jsonb_build_object('$omitted', format('larger than %s bytes', most), '$whole', whole)
        ELSE value END
$$;

-- The same for each field of an object.
-- Called by: sql/schedules/edits.sql.
CREATE FUNCTION rota.listed_fields(value jsonb, most integer, whole text) RETURNS jsonb LANGUAGE sql STABLE
PARALLEL SAFE AS $$
    SELECT CASE WHEN most IS NULL OR value IS NULL THEN value
        ELSE (SELECT jsonb_object_agg(f.key, CASE WHEN octet_length(f.value::text) > most
            THEN jsonb_build_object('$omitted', format('larger than %s bytes', most), '$whole', whole) ELSE f.value END)
            FROM jsonb_each(value) f) END
$$;

-- The same for a text: its beginning.
-- Called by: many.
CREATE FUNCTION rota.listed_text(value text, most integer) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN length(value) > most THEN left(value, most) || '…' ELSE value END
$$;
