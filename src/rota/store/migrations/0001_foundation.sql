-- The ground that everything stands on: the clock, what is known of jobs, queues and
-- workers, the audit trail, and the upkeep of partitions.

-- One row. The offset is in a table, not in a setting, because every process must see
-- the same clock; tests move it, production leaves it at zero.
CREATE TABLE rota.settings (
    is_only_row   boolean PRIMARY KEY DEFAULT true CHECK (is_only_row),
    clock_offset  interval NOT NULL DEFAULT '0',
    payload_bytes integer NOT NULL DEFAULT 1048576 CHECK (payload_bytes >= 1024)
);
INSERT INTO rota.settings DEFAULT VALUES;

-- Business time: due, expiry, backoff, history. Leases and heartbeats use the server's
-- real clock, so that a test which jumps a day does not rescue every live worker.
-- statement_timestamp(), because in a long transaction now() is the past.
CREATE FUNCTION rota.now() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT statement_timestamp() + (SELECT clock_offset FROM rota.settings)
$$;

CREATE FUNCTION rota.set_clock(at timestamptz) RETURNS timestamptz
LANGUAGE sql VOLATILE AS $$
    UPDATE rota.settings SET clock_offset = coalesce(at - statement_timestamp(), '0')
    RETURNING statement_timestamp() + clock_offset
$$;
COMMENT ON FUNCTION rota.set_clock IS 'Moves business time (for tests); NULL sets it back to the real clock.';

CREATE TABLE rota.jobs (
    name            text COLLATE "C" PRIMARY KEY CHECK (name <> '' AND length(name) <= 200),
    description     text NOT NULL DEFAULT '',
    queue           text COLLATE "C" NOT NULL DEFAULT 'default' CHECK (queue <> '' AND length(queue) <= 100),
    priority        smallint NOT NULL DEFAULT 5 CHECK (priority BETWEEN 0 AND 9),
    max_attempts    smallint NOT NULL DEFAULT 3 CHECK (max_attempts BETWEEN 1 AND 100),
    timeout_seconds real CHECK (timeout_seconds > 0),
    backoff         jsonb CHECK (jsonb_typeof(backoff) = 'object'),
    executor        text NOT NULL DEFAULT 'async',
    payload_schema  jsonb NOT NULL DEFAULT '{}',
    tags            text[] NOT NULL DEFAULT '{}',
    metadata        jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    source          text NOT NULL DEFAULT '',
    is_enabled      boolean NOT NULL DEFAULT true,   -- false: its runs wait
    created_at      timestamptz NOT NULL DEFAULT rota.now(),
    updated_at      timestamptz NOT NULL DEFAULT rota.now()
);
CREATE INDEX jobs_disabled ON rota.jobs (name) WHERE NOT is_enabled;
COMMENT ON TABLE rota.jobs IS 'Every job that some process has declared.';

-- A queue needs no row to exist; a row holds what an operator said about it.
CREATE TABLE rota.queues (
    name         text COLLATE "C" PRIMARY KEY CHECK (name <> '' AND length(name) <= 100),
    is_paused    boolean NOT NULL DEFAULT false,
    paused_at    timestamptz,
    paused_by    text,
    pause_reason text,
    CHECK (is_paused = (paused_at IS NOT NULL))
);

-- Ids are never reused: an old worker under a new name must not pass a fence.
CREATE SEQUENCE rota.worker_ids;
CREATE TABLE rota.workers (
    id               bigint PRIMARY KEY DEFAULT nextval('rota.worker_ids'),
    name             text NOT NULL,
    host             text NOT NULL,
    pid              integer NOT NULL,
    version          text NOT NULL DEFAULT '',
    queues           text[] NOT NULL DEFAULT '{}',   -- empty: all
    jobs             text[] NOT NULL DEFAULT '{}',
    concurrency      integer NOT NULL CHECK (concurrency >= 1),
    state            text NOT NULL DEFAULT 'live' CHECK (state IN ('live', 'stopping', 'gone', 'lost')),
    is_stuck         boolean NOT NULL DEFAULT false, -- its event loop stands still
    is_waiting       boolean NOT NULL DEFAULT false, -- enqueuers shall call it
    is_solo          boolean NOT NULL DEFAULT false, -- makes room for a run that was lost once
    lease_seconds    double precision NOT NULL CHECK (lease_seconds > 0),
    started_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_expires_at timestamptz NOT NULL,
    ended_at         timestamptz,
    CHECK ((state IN ('gone', 'lost')) = (ended_at IS NOT NULL)),
    CHECK (NOT (is_waiting AND state IN ('gone', 'lost')))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
CREATE INDEX workers_waiting ON rota.workers (id) WHERE is_waiting;

-- A batch that was claimed ahead counts as started from the moment its row is here:
-- append-only, because a counter updated in place grows a chain of dead versions that
-- every claim would walk while an old snapshot is held.
CREATE TABLE rota.batch_starts (
    worker bigint NOT NULL,
    batch  bigint NOT NULL,
    PRIMARY KEY (worker, batch)
);

CREATE TABLE rota.audit (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          timestamptz NOT NULL DEFAULT rota.now(),
    actor       text NOT NULL,
    db_user     text NOT NULL DEFAULT session_user,
    action      text NOT NULL,
    object_type text NOT NULL,
    object_id   text NOT NULL,
    tenant      text NOT NULL DEFAULT '',
    before      jsonb,
    after       jsonb,
    reason      text
);
CREATE INDEX audit_object ON rota.audit (object_type, object_id, id);

CREATE FUNCTION rota.write_audit(
    actor text, action text, object_type text, object_id text,
    before jsonb DEFAULT NULL, after jsonb DEFAULT NULL, reason text DEFAULT NULL, tenant text DEFAULT ''
) RETURNS void LANGUAGE sql VOLATILE AS $$
    INSERT INTO rota.audit (actor, action, object_type, object_id, before, after, reason, tenant)
    VALUES (coalesce(write_audit.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user),
            write_audit.action, write_audit.object_type, write_audit.object_id,
            write_audit.before, write_audit.after, write_audit.reason, write_audit.tenant)
$$;

-- An id alone gives a lower bound of its creation by these marks, so that finding an
-- ended run does not probe every partition.
CREATE TABLE rota.id_marks (
    id bigint NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (id, at)
);

-- What upkeep keeps partitions for.
CREATE TABLE rota.partitioned (
    parent text PRIMARY KEY,
    days   integer NOT NULL CHECK (days >= 1)
);

-- Makes the partitions that hold the instants between the two; idempotent. LIKE and ATTACH,
-- because PARTITION OF locks the parent against every finish.
CREATE FUNCTION rota.ensure_partitions(from_at timestamptz, to_at timestamptz) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    rule   record;
    first  date;
    child  text;
    made   integer := 0;
    -- Weeks start on a Monday.
    origin constant date := '2001-01-01';
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('rota.partitions', 0));
    FOR rule IN SELECT * FROM rota.partitioned ORDER BY parent LOOP
        first := (from_at AT TIME ZONE 'UTC')::date;
        first := first - (((first - origin) % rule.days) + rule.days) % rule.days;
        WHILE first <= (to_at AT TIME ZONE 'UTC')::date LOOP
            child := format('%s_%s', rule.parent, to_char(first, 'YYYYMMDD'));
            IF to_regclass(format('rota.%I', child)) IS NULL THEN
                EXECUTE format('CREATE TABLE rota.%I (LIKE rota.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE)',
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
