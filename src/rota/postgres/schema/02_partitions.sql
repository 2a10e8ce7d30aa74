-- History lies in tables by time, so that old rows go by dropping a table. `partitioned` lists them;
-- `ensure_partitions` makes what is missing, `detach_part` and `drop_part` take it away. `id_marks` says when ids
-- were given (`mark_id`, `created_after`), so that finding an ended run by its id does not probe every partition.
-- `sequences_behind` and `raise_sequences` are for servers that got their rows by logical replication.

-- What upkeep keeps partitions for.
CREATE TABLE rota.partitioned (
    parent text PRIMARY KEY,
    days   integer NOT NULL CHECK (days >= 1)
);

-- Makes the partitions that hold the instants between the two, at most some years; idempotent. LIKE and ATTACH,
-- because PARTITION OF locks the parent against every finish. It runs as the owner: only tables of the schema that are
-- partitioned get any, and bounds are written in one style: as a caller's style writes a zone, the server may read
-- another one.
-- Called by: many.
-- Locks: "partitions".
CREATE FUNCTION rota.ensure_partitions(from_at timestamptz, to_at timestamptz) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET jit = off SET search_path = pg_catalog, pg_temp
SET DateStyle = 'ISO' SET TimeZone = 'UTC' AS $$
DECLARE
    rule   record;
    first  date;
    child  text;
    made   integer := 0;
    -- Weeks start on a Monday.
    origin constant date := '2001-01-01';
BEGIN
    IF (from_at >= '0001-01-02 00:00Z' AND to_at < '9999-12-31 00:00Z' AND to_at - from_at <= interval '800 days')
       IS NOT TRUE THEN
        RAISE EXCEPTION 'there are no partitions from % to %', from_at, to_at
            USING ERRCODE = 'RO002', HINT = 'Name two instants that are at most 800 days apart.';
    END IF;
    PERFORM rota.take_lock('partitions');
    FOR rule IN SELECT p.parent, p.days FROM rota.partitioned p
                JOIN pg_class own ON own.oid = 'rota.jobs'::regclass
                JOIN pg_class c ON c.relnamespace = own.relnamespace AND c.relname = p.parent AND c.relkind = 'p'
                ORDER BY p.parent LOOP
        first := (from_at AT TIME ZONE 'UTC')::date;
        first := first - (((first - origin) % rule.days) + rule.days) % rule.days;
        WHILE first <= (to_at AT TIME ZONE 'UTC')::date LOOP
            child := format('%s_%s', rule.parent, to_char(first, 'YYYYMMDD'));
            IF to_regclass(format('rota.%I', child)) IS NULL THEN
                EXECUTE format(
                    'CREATE TABLE rota.%I (LIKE rota.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE)',
                               child, rule.parent);
                -- LIKE leaves this out, and a key comes with the attachment.
                IF EXISTS (SELECT FROM pg_class c WHERE c.oid = format('rota.%I', rule.parent)::regclass
                           AND c.relreplident = 'f') THEN
                    EXECUTE format('ALTER TABLE rota.%I REPLICA IDENTITY FULL', child);
                END IF;
                EXECUTE format('ALTER TABLE rota.%I ATTACH PARTITION rota.%I FOR VALUES FROM (%L) TO (%L)',
                               rule.parent, child,
                               first::timestamp AT TIME ZONE 'UTC',
                               (first + rule.days)::timestamp AT TIME ZONE 'UTC');
                made := made + 1;
            END IF;
            first := first + rule.days;
        END LOOP;
    END LOOP;
    RETURN made;
END $$;

REVOKE ALL ON FUNCTION rota.ensure_partitions(timestamptz, timestamptz) FROM PUBLIC;

-- The rows of a partition of which the server has no figure yet, counted in at most so many of its pages: of a larger
-- one an estimate. 0 for a role that may not read it, and of one that somebody has dropped meanwhile.
-- Called by: postgres/retention/parts.py.
CREATE FUNCTION rota.count_part(name text, pages bigint DEFAULT 25000) RETURNS bigint LANGUAGE plpgsql STABLE
SET jit = off AS $$
DECLARE
    relation text := format('rota.%I', count_part.name);
    share    double precision;
    counted  bigint := 0;
BEGIN
    IF has_table_privilege(relation, 'SELECT') THEN
        share := least(1, pages / greatest(pg_relation_size(relation::regclass) / 8192.0, 1));
        EXECUTE format('SELECT (count(*) / $1)::bigint FROM %s TABLESAMPLE SYSTEM (100 * $1) REPEATABLE (0)', relation)
        INTO counted USING share;
    END IF;
    RETURN counted;
EXCEPTION WHEN undefined_table THEN
    RETURN 0;
END $$;

-- Detaches a partition of the history whose time is over, for roles that do not own it; any other name is left alone.
-- Its time is over by the server's clock too: workers may set the business time.
-- Without CONCURRENTLY, which no function can say: it takes the lock at once, or leaves the partition to the next pass.
-- Called by: sql/retention/parts.sql.
CREATE FUNCTION rota.detach_part(name text) RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET jit = off
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
    part record;
BEGIN
    SELECT p.parent, p.state INTO part FROM rota.history_parts() p
    WHERE p.partition = detach_part.name AND p.to_at <= least(rota.now(), statement_timestamp());
    IF part.state IN ('attached', 'detaching') THEN
        EXECUTE format('ALTER TABLE rota.%I DETACH PARTITION rota.%I %s', part.parent, detach_part.name,
                       CASE part.state WHEN 'detaching' THEN 'FINALIZE' ELSE '' END);
    END IF;
END $$;
REVOKE ALL ON FUNCTION rota.detach_part(text) FROM PUBLIC;

-- Drops a partition of the history that was detached, for roles that do not own it, by the same clocks. Any other name
-- is left alone.
-- Called by: sql/retention/parts.sql.
CREATE FUNCTION rota.drop_part(name text) RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET jit = off
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
BEGIN
    IF EXISTS (SELECT FROM rota.history_parts() p WHERE p.partition = drop_part.name AND p.state = 'detached'
               AND p.to_at <= least(rota.now(), statement_timestamp())) THEN
        EXECUTE format('DROP TABLE rota.%I', drop_part.name);
    END IF;
END $$;
REVOKE ALL ON FUNCTION rota.drop_part(text) FROM PUBLIC;

-- An id alone gives a lower bound of its creation by these marks, so that finding an
-- ended run does not probe every partition.
CREATE TABLE rota.id_marks (
    id        bigint NOT NULL,
    at        timestamptz NOT NULL,
    latest_at timestamptz,
    PRIMARY KEY (id)
);

-- Marks where ids stand, every few minutes, and at once when the clock was put back.
-- Called by: postgres/upkeep.py.
CREATE FUNCTION rota.mark_id() RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off SET lock_timeout = '5s' AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM (SELECT m.at FROM rota.id_marks m ORDER BY m.id DESC LIMIT 1) newest
                   WHERE newest.at BETWEEN rota.now() - interval '4 minutes' AND rota.now()) THEN
        PERFORM rota.mark_clock();
    END IF;
END $$;

-- Writes where the sequence of ids stands at this moment of the clock; called when the clock is set.
-- Called by: mark_id, set_clock.
CREATE FUNCTION rota.mark_clock() RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    clock timestamptz := rota.now();
BEGIN
    UPDATE rota.id_marks m SET at = clock WHERE m.at > clock;
    INSERT INTO rota.id_marks AS m (id, at, latest_at)
    SELECT s.last_value, clock, greatest(clock, (SELECT coalesce(n.latest_at, n.at) FROM rota.id_marks n
        ORDER BY n.id DESC LIMIT 1)) FROM rota.run_ids s
    ON CONFLICT (id) DO UPDATE SET at = least(m.at, excluded.at), latest_at = greatest(m.latest_at, excluded.latest_at);
END $$;

-- The latest instant at which this id had certainly not been given out yet; nothing about its run is older. NULL:
-- unknown.
-- Called by: delete_run, delete_tenant_part, prune_tenant, sql/runs/created_after.sql.
CREATE FUNCTION rota.created_after(run_id bigint) RETURNS timestamptz LANGUAGE sql STABLE SET jit = off AS $$
    SELECT least(m.at, rota.now()) FROM rota.id_marks m WHERE m.id < run_id ORDER BY m.id DESC LIMIT 1
$$;

-- Sequences that would give a number which is taken. Logical replication copies rows and not sequences, so after a
-- switch-over to the copy they begin anew. Places in the line (open_runs.seq) are not read, as no index has them: the
-- marks say where the sequence stood a few minutes before.
-- Called by: raise_sequences, sql/doctor/sequences.sql.
CREATE FUNCTION rota.sequences_behind() RETURNS TABLE (sequence text, next_value bigint, highest bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET jit = off AS $$
DECLARE
    greatest_ones text;
BEGIN
    FOR sequence, greatest_ones IN
        SELECT s.relname, string_agg(format('(SELECT max(%I) FROM rota.%I)', u.column_name, u.table_name), ', ')
        FROM (SELECT d.objid, c.relname AS table_name, a.attname AS column_name
              FROM pg_depend d JOIN pg_class c ON c.oid = d.refobjid
              JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid
              WHERE d.classid = 'pg_class'::regclass AND d.refclassid = d.classid AND d.deptype IN ('a', 'i')
              UNION ALL VALUES
                ('rota.run_ids'::regclass, 'open_runs', 'id'), ('rota.run_ids', 'ended_runs', 'id'),
                ('rota.run_ids', 'id_marks', 'id'), ('rota.worker_ids', 'workers', 'id'),
                ('rota.event_ids', 'events', 'id'), ('rota.watch_ids', 'table_watches', 'id'),
                ('rota.schedules_id_seq', 'ledger', 'schedule_id')) u
        JOIN pg_class s ON s.oid = u.objid AND s.relkind = 'S'
        JOIN pg_class own ON own.oid = 'rota.jobs'::regclass AND own.relnamespace = s.relnamespace
        GROUP BY s.relname ORDER BY s.relname
    LOOP
        EXECUTE format('SELECT greatest(%s), last_value + is_called::integer FROM rota.%I', greatest_ones, sequence)
            INTO highest, next_value;
        IF highest >= next_value THEN
            RETURN NEXT;
        END IF;
    END LOOP;
END $$;

-- Lets every sequence go on after the numbers that are taken; returns those that it has moved. To be called once after
-- a switch-over to a logical copy, before the first worker starts there.
-- Called by: operations/reports/checks/replication.py, users.
CREATE FUNCTION rota.raise_sequences() RETURNS TABLE (sequence text, highest bigint) LANGUAGE sql VOLATILE
SET jit = off AS $$
    SELECT b.sequence, setval(format('rota.%I', b.sequence)::regclass, b.highest) FROM rota.sequences_behind() b
$$;
COMMENT ON FUNCTION rota.raise_sequences
    IS 'Moves sequences behind the ids that exist, after a switch-over by logical replication.';
