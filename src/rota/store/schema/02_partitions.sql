-- History lies in tables by time, so that old rows go by dropping a table. `partitioned` lists them;
-- `ensure_partitions` makes what is missing, `detach_part` and `drop_part` take it away. `id_marks` says when ids
-- were given (`mark_id`, `created_after`), so that finding an ended run by its id does not probe every partition.

-- What upkeep keeps partitions for.
CREATE TABLE rota.partitioned (
    parent text PRIMARY KEY,
    days   integer NOT NULL CHECK (days >= 1)
);

-- Makes the partitions that hold the instants between the two; idempotent. LIKE and ATTACH,
-- because PARTITION OF locks the parent against every finish.
-- Called by: many.
-- Locks: "partitions".
CREATE FUNCTION rota.ensure_partitions(from_at timestamptz, to_at timestamptz) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET jit = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    rule   record;
    first  date;
    child  text;
    made   integer := 0;
    -- Weeks start on a Monday.
    origin constant date := '2001-01-01';
BEGIN
    PERFORM rota.take_lock('partitions');
    FOR rule IN SELECT * FROM rota.partitioned ORDER BY parent LOOP
        first := (from_at AT TIME ZONE 'UTC')::date;
        first := first - (((first - origin) % rule.days) + rule.days) % rule.days;
        WHILE first <= (to_at AT TIME ZONE 'UTC')::date LOOP
            child := format('%s_%s', rule.parent, to_char(first, 'YYYYMMDD'));
            IF to_regclass(format('rota.%I', child)) IS NULL THEN
                EXECUTE format(
                    'CREATE TABLE rota.%I (LIKE rota.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE)',
                               child, rule.parent);
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

-- Detaches a partition of the history, for roles that do not own it. Without CONCURRENTLY, which no function can
-- say: it takes the lock at once, or leaves the partition to the next pass.
-- Called by: sql/retention/parts.sql.
CREATE FUNCTION rota.detach_part(name text) RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET jit = off
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
    part record;
BEGIN
    SELECT p.parent, p.state INTO part FROM rota.history_parts() p WHERE p.partition = detach_part.name;
    IF part.state IN ('attached', 'detaching') THEN
        EXECUTE format('ALTER TABLE rota.%I DETACH PARTITION rota.%I %s', part.parent, detach_part.name,
                       CASE part.state WHEN 'detaching' THEN 'FINALIZE' ELSE '' END);
    END IF;
END $$;
REVOKE ALL ON FUNCTION rota.detach_part(text) FROM PUBLIC;

-- Drops a partition of the history that was detached, for roles that do not own it. Any other name is left alone.
-- Called by: sql/retention/parts.sql.
CREATE FUNCTION rota.drop_part(name text) RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET jit = off
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
BEGIN
    IF EXISTS (SELECT FROM rota.history_parts() p WHERE p.partition = drop_part.name AND p.state = 'detached') THEN
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
-- Called by: sql/upkeep/mark_id.sql.
CREATE FUNCTION rota.mark_id() RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
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
-- Called by: delete_run, delete_tenant_part, prune_tenant, sql/runs/created_after.sql, why_last_attempt.
CREATE FUNCTION rota.created_after(run_id bigint) RETURNS timestamptz LANGUAGE sql STABLE SET jit = off AS $$
    SELECT least(m.at, rota.now()) FROM rota.id_marks m WHERE m.id < run_id ORDER BY m.id DESC LIMIT 1
$$;
