-- The schema of 0.1.0 in one file: what store/schema/*.sql said then, one after the other. It is frozen. Read and change
-- those files; what changes after 0.1.0 comes by further migrations (CONTRIBUTING.md).

-- Functions name tables and functions of later files.
SET LOCAL check_function_bodies = off;

-- 01_core.sql

-- The ground that everything stands on: `settings` (one row), the clock (`now`, `set_clock`), and `locks`, which say
-- what one process at a time may do (`take_lock`, `try_lock`). The files of this directory are read in their order;
-- 07_runs to 12_upkeep are the life of a run.

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
    capped_queues text[] COLLATE "C" NOT NULL DEFAULT '{}'
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
-- Called by: admin/reports/checks/server.py, sql/testing/advance_clock.sql, sql/testing/reset.sql,
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
    ('fleet'), ('hold_due'), ('isolation'), ('job_counts'), ('partitions'), ('rescue'), ('rollups'), ('samples'),
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
-- Called by: ensure_ledger, ensure_partitions, hold_due, note_skipped_inits, register_jobs, start_worker.
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
    RAISE EXCEPTION 'the lock "%" is held by %', take_lock.name,
        coalesce(format('pid %s since %s, last seen with: %s', holder.pid, holder.since, holder.query),
            'another transaction')
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

-- Trigger on what people edit: the version grows with every change outside the listed columns, so that an edit can
-- say which state it was made from (expect_version).
CREATE FUNCTION rota.raise_version() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    hidden constant text[] := TG_ARGV[0]::text[];
BEGIN
    NEW.version := OLD.version + (to_jsonb(OLD) - hidden IS DISTINCT FROM to_jsonb(NEW) - hidden)::integer;
    RETURN NEW;
END $$;

-- 02_partitions.sql

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

-- 03_audit.sql

-- Who did what, to what, and why: `audit`, one row for each change, written in the transaction of the change by
-- `write_audit`. `act_as` names the person for the rest of a transaction, `say_why` the person and the reason until
-- `unsay`. `api_responses` keeps what the API answered to a request with an idempotency key.

-- One row for each change that somebody made, and who, why, before and after. Kept for ever unless retention says
-- otherwise.
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
CREATE INDEX audit_at ON rota.audit (at);
CREATE INDEX audit_actor ON rota.audit (actor, id);
-- The audit is kept for ever, and people look for what is rare in it: each of its filters finds the last entries by
-- itself.
CREATE INDEX audit_action ON rota.audit (action, id);
CREATE INDEX audit_noun ON rota.audit (object_type, id);
CREATE INDEX audit_name ON rota.audit (object_id, id);

-- Says who acts, for the rest of the transaction: the triggers of the audit read it from a setting that is local to
-- it. NULL changes nothing.
-- Called by: prune_rows, say_why, settle_schedule_ends, sql/audit/act_as.sql, sql/jobs/act_as.sql, write_ticks.
CREATE FUNCTION rota.act_as(actor text) RETURNS void LANGUAGE sql VOLATILE AS $$
    SELECT set_config('rota' || '.actor', actor, true) WHERE actor IS NOT NULL
$$;

-- Who acts in this transaction: the name that was given by act_as, else the role of the session.
-- Called by: drop_schedule, follow_limit, follow_limits, note_edits, pause_queue, pause_schedule, set_limit.
CREATE FUNCTION rota.who() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(current_setting('rota' || '.actor', true), ''), session_user)
$$;

-- Says who acts and why, for the audit of what one function does: NULL leaves what was said. Returns the actor and the
-- reason that held before, for `unsay`: what the caller's transaction does next is its own again.
-- Called by: many.
CREATE FUNCTION rota.say_why(actor text, reason text) RETURNS text[] LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    was text[] := ARRAY[coalesce(current_setting('rota' || '.actor', true), ''),
                        coalesce(current_setting('rota' || '.reason', true), '')];
BEGIN
    PERFORM rota.act_as(actor), set_config('rota' || '.reason', coalesce(reason, was[2]), true);
    RETURN was;
END $$;

-- Puts back the actor and the reason that `say_why` returned.
-- Called by: many.
CREATE FUNCTION rota.unsay(was text[]) RETURNS void LANGUAGE sql VOLATILE AS $$
    SELECT set_config('rota' || '.actor', was[1], true), set_config('rota' || '.reason', was[2], true)
$$;

-- Writes one entry of the audit, in the transaction of what it tells about. Actor and reason are those given, else
-- what the transaction has said (act_as, say_why), else the role of the session.
-- Called by: many.
CREATE FUNCTION rota.write_audit(
    actor text, action text, object_type text, object_id text,
    before jsonb DEFAULT NULL, after jsonb DEFAULT NULL, reason text DEFAULT NULL, tenant text DEFAULT ''
) RETURNS void LANGUAGE sql VOLATILE SET jit = off AS $$
    INSERT INTO rota.audit (actor, action, object_type, object_id, before, after, reason, tenant)
    VALUES (coalesce(write_audit.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user),
            write_audit.action, write_audit.object_type, write_audit.object_id, write_audit.before, write_audit.after,
            coalesce(write_audit.reason, nullif(current_setting('rota' || '.reason', true), '')), write_audit.tenant)
$$;

-- Trigger: writes to the audit what was created, changed or deleted of a table that people edit. Its arguments: the
-- noun, the words for the three, and the columns that are no change by themselves.
CREATE FUNCTION rota.audit_row() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    hidden constant text[] := TG_ARGV[4]::text[];
    before jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) - 'name' - hidden END;
    after  jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) - 'name' - hidden END;
BEGIN
    IF before IS DISTINCT FROM after THEN
        PERFORM rota.write_audit(NULL, TG_ARGV[0] || '.' || CASE TG_OP WHEN 'INSERT' THEN TG_ARGV[1]
            WHEN 'UPDATE' THEN TG_ARGV[2] ELSE TG_ARGV[3] END, TG_ARGV[0], coalesce(NEW.name, OLD.name), before, after);
    END IF;
    RETURN NULL;
END $$;

-- Who last did one of these actions to an object, when and why; only its latest 200 entries are looked at.
-- Called by: why_ended_run, why_job_off, why_schedule.
CREATE FUNCTION rota.last_audit(of_type text, of_id text, of_tenant text, of_actions text[], OUT at timestamptz,
    OUT actor text, OUT reason text)
LANGUAGE sql STABLE SET enable_seqscan = off SET jit = off AS $$
    SELECT a.at, a.actor, a.reason
    FROM (SELECT * FROM rota.audit l WHERE l.object_type = of_type AND l.object_id = of_id ORDER BY l.id DESC
        LIMIT 200) a
    WHERE a.action = ANY (of_actions) AND a.tenant = of_tenant ORDER BY a.id DESC LIMIT 1
$$;

-- What the API answered to a request with an idempotency key: the same key gets the same answer.
CREATE TABLE rota.api_responses (
    key_hash     bytea PRIMARY KEY,  -- of the caller and the key
    request_hash bytea NOT NULL,     -- of method, path and body
    claim        uuid NOT NULL,      -- who carries it out: only that one writes here
    claimed_at   timestamptz NOT NULL DEFAULT rota.now(),
    expires_at   timestamptz NOT NULL,
    status       smallint CHECK (status BETWEEN 200 AND 299),
    headers      jsonb CHECK (jsonb_typeof(headers) = 'object'),
    body         bytea,
    CHECK (num_nulls(status, headers, body) IN (0, 3))
);
CREATE INDEX api_responses_expired ON rota.api_responses (expires_at);
COMMENT ON TABLE rota.api_responses IS 'Responses of the API by idempotency key, kept for a day.';

-- 04_jobs.sql

-- `jobs`: one row for each job that some process has declared, or that somebody inserted. Triggers check what is
-- written, note what a person has edited, and write the audit. Verbs: `set_job_enabled`, `delete_job`. What code
-- says of jobs comes by 18_definitions.

-- One row for each job. What code declares comes by register_jobs; `code` is what it said, `edited` what a person
-- changed since.
CREATE TABLE rota.jobs (
    name                 text COLLATE "C" PRIMARY KEY CHECK (name <> '' AND length(name) <= 200),
    description          text NOT NULL DEFAULT '',
    queue                text COLLATE "C" NOT NULL DEFAULT 'default' CHECK (queue <> '' AND length(queue) <= 100),
    priority             smallint NOT NULL DEFAULT 5 CHECK (priority BETWEEN 0 AND 9),
    max_attempts         smallint NOT NULL DEFAULT 3 CHECK (max_attempts BETWEEN 1 AND 100),
    timeout_seconds      real CHECK (timeout_seconds > 0),
    backoff              jsonb CHECK (jsonb_typeof(backoff) = 'object'),
    executor             text NOT NULL DEFAULT 'async',
    payload_schema       jsonb NOT NULL DEFAULT '{}',
    tags                 text[] NOT NULL DEFAULT '{}',
    metadata             jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    source               text NOT NULL DEFAULT '',
    is_enabled           boolean NOT NULL DEFAULT true,         -- false: its runs wait
    created_at           timestamptz NOT NULL DEFAULT rota.now(),
    updated_at           timestamptz NOT NULL DEFAULT rota.now(),
    default_payload      jsonb CHECK (jsonb_typeof(default_payload) = 'object'),
    application          text COLLATE "C" NOT NULL DEFAULT '',  -- whose code it follows
    definition_hash      text,
    code                 jsonb CHECK (jsonb_typeof(code) = 'object'),
    edited               jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(edited) = 'object'),
    deleted_from_code_at timestamptz,
    kind                 text COLLATE "C" NOT NULL DEFAULT 'python' CHECK (kind IN ('python', 'sql', 'flow')),
    function_name        text,
    run_as               text,
    transaction_mode     text COLLATE "C" NOT NULL DEFAULT 'whole' CHECK (transaction_mode IN ('whole', 'none')),
    is_system            boolean NOT NULL DEFAULT false,
    version              bigint NOT NULL DEFAULT 1,
    events               text[] NOT NULL DEFAULT '{}' CHECK (array_position(events, NULL) IS NULL),
    -- The least level that is stored of a job's lines; NULL: as the worker's configuration says. It follows the code by
    -- a trigger of its own.
    log_level            text
        CONSTRAINT jobs_log_level CHECK (log_level IN ('debug', 'info', 'warning', 'error', 'critical')),
    -- {"days", "count", "failed_days", "failed_count", "log_days", "log_count", "failed_log_days"}; NULL: as the
    -- configuration says.
    retention            jsonb CONSTRAINT jobs_retention CHECK (jsonb_typeof(retention) = 'object'),
    event_filters        jsonb NOT NULL DEFAULT '{}'
        CONSTRAINT jobs_event_filters CHECK (jsonb_typeof(event_filters) = 'object'),
    limits               jsonb,                                 -- what the code declares; rota.limits is what holds
    -- Which of many events are delivered: the last of a burst (debounce) or the first of each period (throttle), by its
    -- own key. The rule belongs to the job and not to a binding: `order.updated` continues a burst that `order.created`
    -- began.
    event_delivery       jsonb,                                 -- NULL: each event, as it comes
    -- Defaults of its runs: a delay, a time after which they are cancelled if they have not started (counted from the
    -- time at which they may), a key made from the payload (invoice:{invoice_id}), a tenant.
    delay_seconds        double precision,
    expires_in_seconds   double precision,
    key                  text COLLATE "C",
    tenant               text COLLATE "C",
    CONSTRAINT jobs_function CHECK ((kind = 'sql') = (function_name IS NOT NULL)),
    CONSTRAINT jobs_sql_only CHECK (kind = 'sql' OR (run_as IS NULL AND transaction_mode = 'whole')),
    -- A function that runs as another role cannot commit.
    CONSTRAINT jobs_run_as CHECK (run_as IS NULL OR transaction_mode = 'whole'),
    CONSTRAINT jobs_delay CHECK (delay_seconds >= 0),
    CONSTRAINT jobs_expires_in CHECK (expires_in_seconds > 0)
);
CREATE INDEX jobs_disabled ON rota.jobs (name) WHERE NOT is_enabled;
CREATE INDEX jobs_sql ON rota.jobs (name) WHERE kind = 'sql';
COMMENT ON TABLE rota.jobs IS 'Every job that a process has declared.';
-- Their names come last: they see what the other triggers made of the row.
CREATE TRIGGER jobs_version BEFORE UPDATE ON rota.jobs FOR EACH ROW
EXECUTE FUNCTION rota.raise_version('{version,created_at,updated_at,code,edited,definition_hash,source,application}');

-- Refuses a job (RO002), in words that name it.
-- Called by: many.
CREATE FUNCTION rota.bad_job(name text, what text, hint text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
BEGIN
    IF hint IS NULL THEN
        RAISE EXCEPTION 'job "%": %', name, what USING ERRCODE = 'RO002';
    END IF;
    RAISE EXCEPTION 'job "%": %', name, what USING ERRCODE = 'RO002', HINT = hint;
END $$;

-- Trigger: says in words what the constraints would refuse, and what they cannot see.
CREATE FUNCTION rota.check_job() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    part record;
BEGIN
    IF TG_OP = 'INSERT' THEN
        NULL;  -- the constraints do
    ELSIF NEW.name <> OLD.name THEN
        PERFORM rota.bad_job(OLD.name, 'a job cannot be renamed',
            'Declare it under its new name; the old one is marked deleted.');
    ELSIF NEW.priority NOT BETWEEN 0 AND 9 THEN
        PERFORM rota.bad_job(NEW.name, format('priority %s is not between 0 (first) and 9 (last)', NEW.priority));
    ELSIF NEW.max_attempts NOT BETWEEN 1 AND 100 THEN
        PERFORM rota.bad_job(NEW.name, format('max_attempts %s is not between 1 and 100', NEW.max_attempts));
    ELSIF jsonb_typeof(NEW.backoff) <> 'object' THEN
        PERFORM rota.bad_job(NEW.name, 'backoff must be a JSON object');
    END IF;
    -- One from before this rule may be edited otherwise.
    IF NEW.timeout_seconds < real '0.001' AND (TG_OP = 'INSERT'
        OR NEW.timeout_seconds IS DISTINCT FROM OLD.timeout_seconds) THEN
        PERFORM rota.bad_job(NEW.name, format('timeout_seconds %s is less than 0.001 (a millisecond)',
            NEW.timeout_seconds));
    END IF;
    IF coalesce(NEW.backoff ->> 'kind', 'fixed') NOT IN ('exponential', 'linear', 'fixed') THEN
        PERFORM rota.bad_job(NEW.name, format('backoff kind must be one of exponential, linear, fixed, not "%s"',
            NEW.backoff ->> 'kind'));
    END IF;
    FOR part IN SELECT * FROM jsonb_each(CASE WHEN jsonb_typeof(NEW.backoff) = 'object'
        THEN NEW.backoff - 'kind' END) LOOP
        IF part.key NOT IN ('base_seconds', 'factor', 'cap_seconds', 'jitter_seconds')
            OR jsonb_typeof(part.value) <> 'number'
           OR part.value::numeric < (CASE part.key WHEN 'factor' THEN 1 ELSE 0 END) THEN
            PERFORM rota.bad_job(NEW.name, format('backoff has an invalid option "%s": %s', part.key, part.value),
                'Use kind, base_seconds, factor (at least 1), cap_seconds and jitter_seconds (at least 0).');
        END IF;
    END LOOP;
    PERFORM rota.check_event(e) FROM unnest(NEW.events) e;
    NEW.updated_at := CASE WHEN TG_OP = 'UPDATE' THEN rota.now() ELSE NEW.updated_at END;
    RETURN NEW;
END $$;
CREATE TRIGGER jobs_check BEFORE INSERT OR UPDATE ON rota.jobs FOR EACH ROW EXECUTE FUNCTION rota.check_job();

-- What is wrong with the template of a key, in words; NULL: nothing.
-- Called by: check_run_defaults.
CREATE FUNCTION rota.key_fault(template text) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT CASE
        WHEN template !~ '^[^[:cntrl:]]{1,200}$' THEN 'must have 1 to 200 characters'
        WHEN regexp_replace(template, '\{[A-Za-z_][A-Za-z0-9_.]*\}', '', 'g') ~ '[{}]'
            THEN 'has a brace that does not enclose the name of an argument' END
$$;

-- Trigger: checks the defaults of a job's runs. Every nominal time of a schedule has its own run, so a job with a
-- schedule cannot have a key; bursts of events have their own keys. If the code declares a key and a person has set
-- something that excludes it, or the other way round, the key is left out with a warning: the worker must start.
CREATE FUNCTION rota.check_run_defaults() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found   text := (SELECT min(s.name) FROM rota.schedules s WHERE s.job = NEW.name);
    unknown text := (SELECT min(m[1]) FROM regexp_matches(NEW.key, '\{([A-Za-z_][A-Za-z0-9_]*)', 'g') m
        WHERE jsonb_typeof(NEW.payload_schema -> 'properties') = 'object'
          AND NOT NEW.payload_schema -> 'properties' ? m[1]);
BEGIN
    IF rota.is_syncing() AND NEW.key IS NOT NULL AND num_nonnulls(NEW.event_delivery, found, unknown) > 0 THEN
        RAISE WARNING 'job "%" is registered without its key "%": %', NEW.name, NEW.key, CASE
            WHEN NEW.event_delivery IS NOT NULL THEN 'it has an event_delivery'
            WHEN found IS NOT NULL THEN format('it has a schedule, "%s"', found)
            ELSE format('%s is not an argument', unknown) END;
        NEW.key := NULL;
    END IF;
    NEW.tenant := nullif(NEW.tenant, '');
    IF NEW.delay_seconds NOT BETWEEN 0 AND 3153600000 OR NEW.delay_seconds = 'NaN' THEN
        PERFORM rota.bad_job(NEW.name, format('delay_seconds %s is not between 0 and 3153600000 (100 years)',
            NEW.delay_seconds));
    ELSIF NEW.expires_in_seconds NOT BETWEEN 0.001 AND 3153600000 OR NEW.expires_in_seconds = 'NaN' THEN
        PERFORM rota.bad_job(NEW.name, format('expires_in_seconds %s is not between 0.001 and 3153600000 (100 years)',
            NEW.expires_in_seconds));
    ELSIF rota.key_fault(NEW.key) IS NOT NULL THEN
        PERFORM rota.bad_job(NEW.name, format('its key "%s" %s', left(NEW.key, 60), rota.key_fault(NEW.key)),
            'Write for example invoice:{invoice_id}.');
    ELSIF unknown IS NOT NULL AND NEW.key IS NOT NULL THEN
        PERFORM rota.bad_job(NEW.name, format('its key "%s" names %s, which is not an argument', NEW.key, unknown));
    ELSIF NEW.key IS NOT NULL AND NEW.event_delivery IS NOT NULL THEN
        PERFORM rota.bad_job(NEW.name, 'key and event_delivery cannot be combined',
            'Set the key in event_delivery instead.');
    ELSIF NEW.key IS NOT NULL AND found IS NOT NULL THEN
        PERFORM rota.bad_job(NEW.name, format('it has a schedule, "%s", so it cannot have a key', found),
            'Use the overlap policy of the schedule, which decides what happens while the previous run has not ended.');
    ELSIF rota.tenant_fault(NEW.tenant) IS NOT NULL THEN
        PERFORM rota.bad_job(NEW.name, format('its tenant %s', rota.tenant_fault(NEW.tenant)));
    END IF;
    RETURN NEW;
END $$;
-- Its name comes after jobs_event_delivery: that one has taken the rule from the code.
CREATE TRIGGER jobs_run_defaults BEFORE INSERT OR UPDATE ON rota.jobs FOR EACH ROW
    WHEN (num_nonnulls(NEW.delay_seconds, NEW.expires_in_seconds, NEW.key, NEW.tenant) > 0)
    EXECUTE FUNCTION rota.check_run_defaults();

-- Trigger: refuses a default payload that the job would not take, where it is written. What code declares is checked
-- by the process that declares it.
CREATE FUNCTION rota.check_default_payload() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    problem text;
BEGIN
    IF NOT rota.is_syncing() AND (TG_OP = 'INSERT' OR NEW.default_payload IS DISTINCT FROM OLD.default_payload) THEN
        problem := rota.payload_problem(NEW.payload_schema, NEW.default_payload);
    END IF;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'job "%": its default payload is not valid: %', NEW.name, problem
            USING ERRCODE = 'RO018', HINT = 'rota.jobs.payload_schema describes its arguments.';
    END IF;
    RETURN NEW;
END $$;
-- One that is no object is refused by its constraint.
CREATE TRIGGER jobs_default_payload BEFORE INSERT OR UPDATE OF default_payload ON rota.jobs FOR EACH ROW
    WHEN (jsonb_typeof(NEW.default_payload) = 'object') EXECUTE FUNCTION rota.check_default_payload();

-- Whether this transaction writes what code declares (register_jobs), and not what a person says.
-- Called by: many.
CREATE FUNCTION rota.is_syncing() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce(current_setting('rota' || '.syncing', true) = 'on', false)
$$;

-- Trigger: notes who touched which field of what code declares. A field set back to what the code says follows the
-- code again.
CREATE FUNCTION rota.note_edits() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    was   jsonb := to_jsonb(OLD);
    given jsonb := to_jsonb(NEW);
    field text;
BEGIN
    IF rota.is_syncing() OR NEW.code IS NULL THEN
        RETURN NEW;
    END IF;
    FOR field IN SELECT jsonb_object_keys(NEW.code) LOOP
        IF given -> field IS DISTINCT FROM was -> field THEN
            NEW.edited := CASE WHEN given -> field = NEW.code -> field THEN NEW.edited - field
                ELSE NEW.edited || jsonb_build_object(field, jsonb_build_object('by', rota.who(), 'at', rota.now()))
                    END;
        END IF;
    END LOOP;
    RETURN NEW;
END $$;
CREATE TRIGGER jobs_edits BEFORE UPDATE ON rota.jobs FOR EACH ROW EXECUTE FUNCTION rota.note_edits();

-- Trigger: writes to the audit what an edit or a delete changed of a job, without the columns that only code writes.
CREATE FUNCTION rota.audit_job() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    hidden constant text[] :=
        '{version,updated_at,created_at,code,edited,definition_hash,source,payload_schema,executor,application}';
    was    jsonb := to_jsonb(OLD) - hidden;
    given  jsonb := CASE WHEN TG_OP = 'UPDATE' THEN to_jsonb(NEW) - hidden ELSE '{}' END;
    before jsonb := (SELECT jsonb_object_agg(o.key, o.value) FROM jsonb_each(was) o
        WHERE o.value IS DISTINCT FROM given -> o.key);
    after  jsonb := (SELECT jsonb_object_agg(n.key, n.value) FROM jsonb_each(given) n
        WHERE n.value IS DISTINCT FROM was -> n.key);
BEGIN
    IF TG_OP = 'DELETE' OR before IS NOT NULL THEN
        PERFORM rota.write_audit(NULL, CASE
            WHEN TG_OP = 'DELETE' THEN 'job.deleted'
            WHEN OLD.deleted_from_code_at IS NULL AND NEW.deleted_from_code_at IS NOT NULL THEN 'job.deleted_from_code'
            WHEN OLD.deleted_from_code_at IS NOT NULL AND NEW.deleted_from_code_at IS NULL THEN 'job.revived'
            WHEN rota.is_syncing() THEN 'job.synced'
            WHEN before = '{"is_enabled": true}' THEN 'job.disabled'
            WHEN before = '{"is_enabled": false}' THEN 'job.enabled'
            ELSE 'job.updated' END,
            'job', OLD.name, before, after, nullif(current_setting('rota' || '.reason', true), ''));
    END IF;
    IF TG_OP = 'DELETE' THEN
        DELETE FROM rota.job_applications a WHERE a.job = OLD.name;
        RETURN NULL;
    ELSIF NEW.is_enabled AND NOT OLD.is_enabled THEN
        PERFORM rota.wake(ARRAY[NEW.queue]);
    END IF;
    IF NEW.edited <> OLD.edited OR (NEW.edited <> '{}' AND before IS NOT NULL) THEN
        PERFORM pg_notify('rota', 'jobs');              -- workers look at what was changed
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_audit AFTER UPDATE OR DELETE ON rota.jobs FOR EACH ROW EXECUTE FUNCTION rota.audit_job();

-- Trigger: writes to the audit that somebody has made a job by SQL, and what it calls.
CREATE FUNCTION rota.audit_new_job() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    PERFORM rota.write_audit(NULL, 'job.created', 'job', NEW.name, NULL, jsonb_strip_nulls(jsonb_build_object(
        'kind', NEW.kind, 'function_name', NEW.function_name, 'run_as', NEW.run_as, 'queue', NEW.queue)));
    RETURN NULL;
END $$;
-- What code declares is its release's doing, and nobody's.
CREATE TRIGGER jobs_audit_new AFTER INSERT ON rota.jobs FOR EACH ROW WHEN (NEW.code IS NULL AND NOT NEW.is_system)
    EXECUTE FUNCTION rota.audit_new_job();

-- Trigger: a job with schedules or open runs is not deleted. A run that is over does not keep its job.
CREATE FUNCTION rota.keep_job() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found bigint;
BEGIN
    IF OLD.is_system THEN
        RAISE EXCEPTION 'job "%" belongs to Rota and cannot be deleted', OLD.name
            USING ERRCODE = 'RO005', HINT = 'Disable it instead.';
    END IF;
    SELECT count(*) INTO found FROM rota.schedules s WHERE s.job = OLD.name;
    IF found > 0 THEN
        RAISE EXCEPTION 'job "%" has schedules: %', OLD.name, found
            USING ERRCODE = 'RO005',
                HINT = 'Delete the schedules first, or with the job: delete_job(…, cascade => true).';
    END IF;
    SELECT count(*) INTO found FROM rota.open_runs o
    WHERE o.job = OLD.name AND NOT rota.is_over(o.state, o.expires_at)
      AND current_setting('rota' || '.deleting_job', true) IS DISTINCT FROM OLD.name;
    IF found > 0 THEN
        RAISE EXCEPTION 'job "%" has runs that have not ended: %', OLD.name, found
            USING ERRCODE = 'RO005',
                HINT = 'Wait until they end, or cancel them: delete_job(…, cancel_open => true).';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER jobs_keep BEFORE DELETE ON rota.jobs FOR EACH ROW EXECUTE FUNCTION rota.keep_job();

-- Trigger: what belongs to Rota can be disabled, and not deleted.
CREATE FUNCTION rota.keep_system() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    RAISE EXCEPTION '% "%" belongs to Rota and cannot be deleted', rtrim(TG_TABLE_NAME, 's'), OLD.name
        USING ERRCODE = 'RO005', HINT = 'Disable it instead.';
END $$;
CREATE TRIGGER jobs_guard_system BEFORE DELETE ON rota.jobs FOR EACH ROW WHEN (OLD.is_system)
    EXECUTE FUNCTION rota.keep_system();

-- Enables or disables a job: its runs wait and its schedules skip their times while it is disabled. The trigger
-- writes the audit. Returns whether it wrote: false if it was so already.
-- Called by: sql/jobs/set_enabled.sql, users.
CREATE FUNCTION rota.set_job_enabled(job text, enabled boolean, reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    was    text[] := rota.say_why(set_job_enabled.actor, set_job_enabled.reason);
    is_new boolean;
BEGIN
    UPDATE rota.jobs j SET is_enabled = enabled WHERE j.name = set_job_enabled.job AND j.is_enabled <> enabled;
    is_new := FOUND;
    IF NOT is_new AND NOT EXISTS (SELECT FROM rota.jobs j WHERE j.name = set_job_enabled.job) THEN
        PERFORM rota.unknown_job(set_job_enabled.job);
    END IF;
    PERFORM rota.unsay(was);
    RETURN is_new;
END $$;

-- Deletes a job. With cascade its schedules go too; with cancel_open its waiting runs are cancelled and its running
-- ones asked to stop. Returns how many that were. What it did stays in history, ledger and audit.
-- Called by: sql/jobs/delete.sql, users.
-- Locks: rows.
CREATE FUNCTION rota.delete_job(name text, cascade boolean DEFAULT false, cancel_open boolean DEFAULT false,
    reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS integer LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found     rota.jobs;
    was       text[];
    cancelled integer := 0;
    stopped   integer := 0;
BEGIN
    SELECT j.* INTO found FROM rota.jobs j WHERE j.name = delete_job.name FOR UPDATE;
    IF found.name IS NULL THEN
        PERFORM rota.unknown_job(delete_job.name);
    END IF;
    was := rota.say_why(delete_job.actor, delete_job.reason);
    PERFORM rota.delete_schedule(s.name, tenant => s.tenant) FROM rota.schedules s
    WHERE s.job = found.name AND delete_job.cascade;
    IF delete_job.cancel_open AND NOT found.is_system THEN
        SELECT count(*) INTO cancelled FROM rota.end_waiting_runs(
            ARRAY(SELECT o.id FROM rota.open_runs o WHERE o.job = found.name AND o.state <> 'running'), 'cancelled',
            'its job was deleted');
        SELECT count(rota.cancel_run(o.id, 'its job was deleted')) INTO stopped
        FROM rota.open_runs o WHERE o.job = found.name;
        PERFORM set_config('rota' || '.deleting_job', found.name, true);
    END IF;
    DELETE FROM rota.jobs j WHERE j.name = found.name;
    PERFORM set_config('rota' || '.deleting_job', '', true), rota.unsay(was);
    RETURN cancelled + stopped;
END $$;

-- Refuses a job that nobody has declared (RO001).
-- Called by: many.
CREATE FUNCTION rota.unknown_job(job text) RETURNS void LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
BEGIN
    RAISE EXCEPTION 'no job is named "%"', job
        USING ERRCODE = 'RO001',
            HINT = 'Jobs are registered when an application that declares them starts; rota.jobs lists them.';
END $$;

-- Locks a job and the schedules that it declares, if nobody holds one of them; returns whether it did.
-- Called by: register_jobs.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.lock_definition(job text) RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    locked integer;
BEGIN
    PERFORM FROM rota.jobs j WHERE j.name = lock_definition.job FOR UPDATE SKIP LOCKED;
    IF NOT FOUND AND EXISTS (SELECT FROM rota.jobs j WHERE j.name = lock_definition.job) THEN
        RETURN false;
    END IF;
    PERFORM FROM rota.schedules s WHERE s.job = lock_definition.job AND s.origin = 'definition' FOR UPDATE SKIP LOCKED;
    GET DIAGNOSTICS locked = ROW_COUNT;
    RETURN locked = (SELECT count(*) FROM rota.schedules s
        WHERE s.job = lock_definition.job AND s.origin = 'definition');
END $$;

-- 05_queues.sql

-- `queues`: what somebody said about a queue. A queue needs no row to exist. Verbs: `pause_queue`, `resume_queue`;
-- `end_pauses` ends those whose time is over.

-- A queue needs no row to exist; a row holds what an operator said about it.
CREATE TABLE rota.queues (
    name                 text COLLATE "C" PRIMARY KEY CHECK (name <> '' AND length(name) <= 100),
    is_paused            boolean NOT NULL DEFAULT false,
    paused_at            timestamptz,
    paused_by            text,
    pause_reason         text,
    version              bigint NOT NULL DEFAULT 1,
    paused_until         timestamptz,
    -- How many runs may wait in a queue, and what happens when more come: they are refused, or those with the lowest
    -- priority are dropped. Queues without a cap cost one look at a short list per enqueue (settings.capped_queues).
    -- Workers count the waiting runs about every second; the cap is compared with that count.
    max_waiting          bigint CONSTRAINT queues_max_waiting CHECK (max_waiting BETWEEN 0 AND 1000000000),
    when_full            text COLLATE "C" NOT NULL DEFAULT 'refuse' CONSTRAINT queues_when_full
    CHECK (when_full IN ('refuse', 'drop_lowest')), declared_max_waiting bigint,            -- as the code said last
    declared_when_full   text COLLATE "C",  -- NULL: no code says anything
    is_edited            boolean NOT NULL DEFAULT false,
    CHECK (is_paused = (paused_at IS NOT NULL))
);
CREATE INDEX queues_paused_until ON rota.queues (paused_until) WHERE paused_until IS NOT NULL;
COMMENT ON COLUMN rota.queues.paused_until IS 'when it resumes automatically; NULL: when somebody resumes it';
CREATE TRIGGER queues_version BEFORE UPDATE ON rota.queues FOR EACH ROW
    EXECUTE FUNCTION rota.raise_version('{version}');

-- No run of the queue is claimed until it is resumed, or until that time; running attempts continue. If the queue is
-- paused already, a new end or reason replaces the old one. Returns whether it wrote: false if nothing differs.
-- Called by: sql/queues/pause.sql, users.
CREATE FUNCTION rota.pause_queue(queue text, reason text DEFAULT NULL, actor text DEFAULT NULL,
    until timestamptz DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    clock timestamptz := rota.now();
    was   text[];
    is_changed boolean;
BEGIN
    IF pause_queue.until <= clock THEN
        RAISE EXCEPTION 'queue "%": the end of a pause must be in the future, not %', pause_queue.queue,
            pause_queue.until USING ERRCODE = 'RO002';
    END IF;
    was := rota.say_why(pause_queue.actor, pause_queue.reason);
    INSERT INTO rota.queues AS q (name, is_paused, paused_at, paused_by, pause_reason, paused_until)
    VALUES (pause_queue.queue, true, clock, rota.who(), pause_queue.reason, pause_queue.until)
    ON CONFLICT (name) DO UPDATE SET is_paused = true, paused_by = excluded.paused_by,
        paused_until = excluded.paused_until,
        paused_at = CASE WHEN rota.queue_is_paused(q) THEN q.paused_at ELSE excluded.paused_at END,
        pause_reason = CASE WHEN rota.queue_is_paused(q) THEN coalesce(excluded.pause_reason, q.pause_reason)
            ELSE excluded.pause_reason END
    WHERE NOT rota.queue_is_paused(q) OR q.paused_until IS DISTINCT FROM excluded.paused_until
       OR q.pause_reason IS DISTINCT FROM coalesce(excluded.pause_reason, q.pause_reason);
    is_changed := FOUND;
    PERFORM rota.unsay(was);
    RETURN is_changed;
END $$;

-- A pause whose time is over counts as none, before anybody has ended it.
-- Called by: many.
CREATE FUNCTION rota.queue_is_paused(q rota.queues) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT q.is_paused AND (q.paused_until IS NULL OR q.paused_until > rota.now())
$$;

-- Trigger: writes to the audit who paused or resumed a queue, and calls those who wait, now or when the pause ends.
CREATE FUNCTION rota.note_queue_pause() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    before jsonb := CASE WHEN TG_OP <> 'INSERT' AND OLD.is_paused
        THEN jsonb_strip_nulls(jsonb_build_object('is_paused', true, 'paused_until', OLD.paused_until)) END;
    after  jsonb := CASE WHEN TG_OP <> 'DELETE' AND NEW.is_paused
        THEN jsonb_strip_nulls(jsonb_build_object('is_paused', true, 'paused_until', NEW.paused_until)) END;
BEGIN
    IF after IS NOT NULL THEN
        -- An older pause whose time is over was none.
        PERFORM rota.write_audit(NULL, 'queue.paused', 'queue', NEW.name,
            CASE WHEN rota.queue_is_paused(OLD) THEN before END, after,
            CASE WHEN TG_OP = 'INSERT' OR NEW.pause_reason IS DISTINCT FROM OLD.pause_reason THEN NEW.pause_reason END)
        WHERE TG_OP = 'INSERT' OR (NEW.paused_at, NEW.paused_until, NEW.pause_reason)
            IS DISTINCT FROM (OLD.paused_at, OLD.paused_until, OLD.pause_reason);
        PERFORM rota.wake_later(NEW.paused_until - rota.now()) WHERE NEW.paused_until IS NOT NULL;
    ELSIF before IS NOT NULL THEN
        PERFORM rota.write_audit(NULL, 'queue.resumed', 'queue', OLD.name, before, '{"is_paused": false}');
        PERFORM rota.wake(ARRAY[OLD.name]);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER queues_pause AFTER INSERT OR DELETE OR UPDATE OF is_paused, paused_at, paused_until, pause_reason
    ON rota.queues FOR EACH ROW EXECUTE FUNCTION rota.note_queue_pause();

-- The queue goes on, and whoever waits for work is called. Returns whether it wrote: false if it was not paused.
-- Called by: sql/queues/resume.sql, users.
CREATE FUNCTION rota.resume_queue(queue text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    was        text[] := rota.say_why(resume_queue.actor, resume_queue.reason);
    is_changed boolean;
BEGIN
    UPDATE rota.queues q SET is_paused = false, paused_at = NULL, paused_by = NULL, pause_reason = NULL,
        paused_until = NULL
    WHERE q.name = resume_queue.queue AND rota.queue_is_paused(q);
    is_changed := FOUND;
    PERFORM rota.unsay(was);
    RETURN is_changed;
END $$;

-- Ends pauses of queues whose time is over, and calls those who wait. Returns the seconds until the next one ends.
-- Called by: promote_runs.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.end_pauses(clock timestamptz) RETURNS double precision LANGUAGE plpgsql VOLATILE
SET jit = off AS $$
DECLARE
    over text[] := ARRAY(SELECT q.name FROM rota.queues q WHERE q.is_paused AND q.paused_until <= clock
                         ORDER BY q.name FOR UPDATE SKIP LOCKED);
    was  text[];
BEGIN
    IF over <> '{}' THEN
        was := rota.say_why('rota', 'the pause ended');
        UPDATE rota.queues q SET is_paused = false, paused_at = NULL, paused_by = NULL, pause_reason = NULL,
            paused_until = NULL
        WHERE q.name = ANY (over);
        PERFORM rota.unsay(was);
    END IF;
    RETURN (SELECT extract(epoch FROM min(q.paused_until) - clock) FROM rota.queues q
        WHERE q.is_paused AND q.paused_until > clock);
END $$;

-- Of queues that have a cap: what waits in them, apart from what people edit, which has versions.
CREATE TABLE rota.queue_caps (
    queue      text COLLATE "C" PRIMARY KEY,
    waiting    bigint NOT NULL DEFAULT 0,
    counted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    took_ms    double precision NOT NULL DEFAULT 0,
    full_since timestamptz,
    adopted_id bigint DEFAULT 0   -- runs of before the cap are marked up to this number; NULL: all are
) WITH (fillfactor = 50);
COMMENT ON TABLE rota.queue_caps IS 'The last count of waiting runs in queues that have a cap.';

-- Not undone by the transaction that is refused.
CREATE SEQUENCE rota.queue_refusals;

-- Trigger: says in words what is wrong with the cap of a queue.
CREATE FUNCTION rota.check_queue() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF NOT coalesce(NEW.max_waiting BETWEEN 0 AND 1000000000, true) THEN
        RAISE EXCEPTION 'queue "%": max_waiting must be a whole number from 0 to 1000000000, not %', NEW.name,
            NEW.max_waiting
            USING ERRCODE = 'RO002', HINT = 'null removes the cap.';
    ELSIF NEW.when_full IS NULL OR NEW.when_full NOT IN ('refuse', 'drop_lowest') THEN
        RAISE EXCEPTION 'queue "%": when_full must be refuse or drop_lowest, not %', NEW.name,
            coalesce(NEW.when_full, 'NULL') USING ERRCODE = 'RO002';
    END IF;
    IF NEW.name = 'rota' || '.system' AND NEW.max_waiting IS NOT NULL THEN
        RAISE EXCEPTION 'queue "%" belongs to Rota and cannot have a cap', NEW.name USING ERRCODE = 'RO002';
    END IF;
    -- What an operator changes about a cap that the code declares stays theirs.
    IF NEW.declared_when_full IS NULL THEN
        NEW.is_edited := false;
    ELSIF NOT rota.is_syncing() THEN
        NEW.is_edited := (NEW.max_waiting, NEW.when_full) IS DISTINCT FROM (NEW.declared_max_waiting,
            NEW.declared_when_full);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER queues_check BEFORE INSERT OR UPDATE OF max_waiting, when_full, declared_max_waiting, declared_when_full
    ON rota.queues
    FOR EACH ROW EXECUTE FUNCTION rota.check_queue();

-- Trigger: a queue that gets a cap, or loses it, has its row of rota.queue_caps and its entry of the audit.
CREATE FUNCTION rota.note_queue_cap() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    whose  text := CASE TG_OP WHEN 'DELETE' THEN OLD.name ELSE NEW.name END;
    before jsonb := CASE WHEN TG_OP <> 'INSERT'
        THEN jsonb_build_object('max_waiting', OLD.max_waiting, 'when_full', OLD.when_full)
                    ELSE '{"max_waiting": null, "when_full": "refuse"}' END;
    after  jsonb := CASE WHEN TG_OP <> 'DELETE'
        THEN jsonb_build_object('max_waiting', NEW.max_waiting, 'when_full', NEW.when_full)
                    ELSE '{"max_waiting": null, "when_full": "refuse"}' END;
BEGIN
    IF before = after THEN
        RETURN NULL;
    END IF;
    PERFORM rota.write_audit(NULL, 'queue.updated', 'queue', whose,
        (SELECT jsonb_object_agg(o.key, o.value) FROM jsonb_each(before) o
            WHERE o.value IS DISTINCT FROM after -> o.key),
        (SELECT jsonb_object_agg(n.key, n.value) FROM jsonb_each(after) n
            WHERE n.value IS DISTINCT FROM before -> n.key));
    IF after -> 'max_waiting' = 'null' THEN
        DELETE FROM rota.queue_caps c WHERE c.queue = whose;
        UPDATE rota.settings s SET capped_queues = array_remove(s.capped_queues, whose)
        WHERE whose = ANY (s.capped_queues);
    ELSE
        -- What is known now, so that the cap holds at once; counted_at: somebody counts soon.
        INSERT INTO rota.queue_caps (queue, waiting, counted_at)
        SELECT whose, coalesce(sum(d.blocked + d.scheduled + d.queued), 0), clock_timestamp() - interval '1 minute'
        FROM rota.kept_depths() d WHERE d.queue = whose
        ON CONFLICT (queue) DO NOTHING;
        -- From the rows as they are now: two concurrent changes see each other.
        UPDATE rota.settings s SET capped_queues = array_append(s.capped_queues, whose)
        WHERE whose <> ALL (s.capped_queues);
    END IF;
    PERFORM pg_notify('rota', 'tenants');
    RETURN NULL;
END $$;
CREATE TRIGGER queues_cap AFTER INSERT OR DELETE OR UPDATE OF max_waiting, when_full ON rota.queues
    FOR EACH ROW EXECUTE FUNCTION rota.note_queue_cap();

-- Sets the cap of a queue, for operators: {"max_waiting": 1000, "when_full": "drop_lowest"}; null removes the cap.
-- Called by: sql/queues/set.sql, users.
CREATE FUNCTION rota.set_queue(queue text, settings jsonb, reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    known constant text[] := '{max_waiting,when_full}';
    odd   text;
    was   text[];
BEGIN
    IF set_queue.queue IS NULL OR length(set_queue.queue) NOT BETWEEN 1 AND 100 THEN
        RAISE EXCEPTION 'the name of a queue must have 1 to 100 characters' USING ERRCODE = 'RO002';
    ELSIF set_queue.settings IS NULL OR jsonb_typeof(set_queue.settings) <> 'object' THEN
        RAISE EXCEPTION 'the settings of queue "%" must be a JSON object', set_queue.queue USING ERRCODE = 'RO002';
    END IF;
    SELECT k INTO odd FROM jsonb_object_keys(set_queue.settings) k WHERE k <> ALL (known) LIMIT 1;
    IF odd IS NOT NULL THEN
        RAISE EXCEPTION 'unknown queue setting "%"', odd
            USING ERRCODE = 'RO002', HINT = 'Choose from ' || array_to_string(known, ', ') || '.';
    ELSIF jsonb_typeof(set_queue.settings -> 'max_waiting') NOT IN ('number', 'null')
        OR (set_queue.settings ->> 'max_waiting')::numeric % 1 <> 0
          OR NOT (set_queue.settings ->> 'max_waiting')::numeric BETWEEN 0 AND 1000000000 THEN
        RAISE EXCEPTION 'queue "%": max_waiting must be a whole number from 0 to 1000000000, not %', set_queue.queue,
            left((set_queue.settings -> 'max_waiting')::text, 60)
                USING ERRCODE = 'RO002', HINT = 'null removes the cap.';
    END IF;
    was := rota.say_why(set_queue.actor, set_queue.reason);
    INSERT INTO rota.queues (name) VALUES (set_queue.queue) ON CONFLICT (name) DO NOTHING;
    UPDATE rota.queues q
    SET max_waiting = CASE WHEN set_queue.settings ? 'max_waiting' THEN (set_queue.settings ->> 'max_waiting')::bigint
        ELSE q.max_waiting END,
        when_full = CASE WHEN set_queue.settings ? 'when_full'
            THEN coalesce(set_queue.settings ->> 'when_full', 'refuse') ELSE q.when_full END
    WHERE q.name = set_queue.queue AND (
        set_queue.settings ? 'max_waiting' AND q.max_waiting
            IS DISTINCT FROM (set_queue.settings ->> 'max_waiting')::bigint
        OR set_queue.settings ? 'when_full' AND q.when_full <> coalesce(set_queue.settings ->> 'when_full', 'refuse'));
    PERFORM rota.unsay(was);
END $$;

-- Sets what code declares about a queue; what an operator has changed stays.
-- Called by: sql/queues/put.sql, users.
CREATE FUNCTION rota.put_queue(queue text, max_waiting bigint, when_full text DEFAULT 'refuse', actor text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off SET lock_timeout = '5s' AS $$
#variable_conflict use_column
DECLARE
    was    text[];
BEGIN
    IF EXISTS (SELECT FROM rota.queues q WHERE q.name = put_queue.queue
               AND (q.declared_max_waiting, q.declared_when_full) IS NOT DISTINCT FROM (put_queue.max_waiting,
                   put_queue.when_full)) THEN
        RETURN false;
    END IF;
    was := rota.say_why(put_queue.actor, NULL);
    PERFORM set_config('rota' || '.syncing', 'on', true);
    INSERT INTO rota.queues (name) VALUES (put_queue.queue) ON CONFLICT (name) DO NOTHING;
    -- A cap that somebody has set before any code spoke of it is theirs too.
    UPDATE rota.queues q
    SET declared_max_waiting = put_queue.max_waiting, declared_when_full = put_queue.when_full,
        is_edited = q.is_edited OR (q.declared_when_full IS NULL AND q.max_waiting IS NOT NULL
                                    AND (q.max_waiting, q.when_full) IS DISTINCT FROM (put_queue.max_waiting,
                                        put_queue.when_full)),
        max_waiting = CASE WHEN q.is_edited OR (q.declared_when_full IS NULL AND q.max_waiting IS NOT NULL)
            THEN q.max_waiting ELSE put_queue.max_waiting END,
        when_full = CASE WHEN q.is_edited OR (q.declared_when_full IS NULL AND q.max_waiting IS NOT NULL)
            THEN q.when_full ELSE put_queue.when_full END
    WHERE q.name = put_queue.queue;
    PERFORM set_config('rota' || '.syncing', '', true), rota.unsay(was);
    RETURN true;
END $$;

-- Sets a queue back to what the code says; no cap, if it says nothing.
-- Called by: sql/queues/reset.sql, users.
CREATE FUNCTION rota.reset_queue(queue text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    was text[] := rota.say_why(reset_queue.actor, reset_queue.reason);
BEGIN
    UPDATE rota.queues q SET max_waiting = q.declared_max_waiting, when_full = coalesce(q.declared_when_full, 'refuse')
    WHERE q.name = reset_queue.queue AND (q.max_waiting, q.when_full) IS DISTINCT FROM (q.declared_max_waiting,
        coalesce(q.declared_when_full, 'refuse'));
    PERFORM rota.unsay(was);
END $$;

-- Counts the waiting runs of a capped queue up to a maximum: beyond it the queue is full anyway.
-- Called by: check_cap, tend_caps.
CREATE FUNCTION rota.count_capped(of_queue text, most bigint) RETURNS bigint LANGUAGE sql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    SELECT count(*) FROM (SELECT FROM rota.open_runs o WHERE o.is_capped AND o.queue = of_queue AND o.state <> 'running'
        LIMIT most) w
$$;

-- Cancels the waiting runs beyond the cap: those with the lowest priority, newest first. A run that has been claimed
-- before stays.
-- Called by: check_cap, tend_caps.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.drop_lowest(of_queue text, most bigint) RETURNS integer LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_sort = off SET jit = off AS $$
DECLARE
    gone bigint[] := ARRAY(
        SELECT o.id FROM rota.open_runs o
        WHERE o.is_capped AND o.queue = of_queue AND o.state IN ('queued', 'scheduled') AND o.attempt = 0
        ORDER BY o.queue DESC, o.priority DESC, o.seq DESC LIMIT most FOR UPDATE SKIP LOCKED);
BEGIN
    IF gone = '{}' THEN
        RETURN 0;
    END IF;
    UPDATE rota.ledger g SET decision = 'skipped', reason = 'queue_full', run_id = NULL, enqueued_at = NULL,
        state = NULL,
        details = coalesce(g.details, '{}') || jsonb_build_object('queue', of_queue, 'run', o.id)
    -- One by one and by id, not over all that schedules have open.
    FROM unnest(gone) AS u (id) CROSS JOIN LATERAL (SELECT r.id, r.schedule_id, r.scheduled_for FROM rota.open_runs r
        WHERE r.id = u.id OFFSET 0) o
    WHERE o.schedule_id IS NOT NULL AND g.schedule_id = o.schedule_id AND g.nominal_at = o.scheduled_for
      AND g.run_id = o.id;
    PERFORM rota.end_waiting_runs(gone, 'cancelled', 'queue full');
    INSERT INTO rota.count_changes (name, labels, amount)
    VALUES ('runs_dropped', jsonb_build_object('queue', of_queue), cardinality(gone));
    RETURN cardinality(gone);
END $$;

-- Whether the queue has a cap. RO032 if so many more runs do not fit and it refuses. It compares with what a worker
-- counted about a second ago; where no worker has for a while, it counts itself.
-- Called by: enqueue_batch, enqueue_many, enqueue_run, retry_run, users.
CREATE FUNCTION rota.check_cap(queue text, runs bigint DEFAULT 1) RETURNS boolean LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    q record;
BEGIN
    SELECT k.max_waiting, k.when_full, c.waiting, c.adopted_id IS NULL AS is_read,
        c.counted_at < clock_timestamp() - make_interval(secs => 5 + c.took_ms / 50) AS is_old INTO q
    FROM rota.queues k JOIN rota.queue_caps c ON c.queue = k.name
    WHERE k.name = check_cap.queue AND k.max_waiting IS NOT NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF q.is_old THEN
        q.waiting := greatest(rota.count_capped(check_cap.queue, q.max_waiting + check_cap.runs + 100),
            CASE WHEN NOT q.is_read THEN q.waiting END);
        IF q.when_full = 'drop_lowest' AND q.waiting > q.max_waiting THEN
            PERFORM rota.drop_lowest(check_cap.queue, q.waiting - q.max_waiting);
        END IF;
    END IF;
    IF q.when_full = 'refuse' AND q.waiting + check_cap.runs > q.max_waiting THEN
        PERFORM nextval('rota.queue_refusals');
        RAISE EXCEPTION 'queue "%" is full: %, and its cap is %', check_cap.queue,
            CASE q.waiting WHEN 1 THEN '1 run waits' ELSE rota.plural_words(q.waiting, 'run') || ' wait' END,
            rota.number_words(q.max_waiting) || CASE WHEN check_cap.runs > 1
                THEN format('; %s more do not fit', rota.number_words(check_cap.runs)) ELSE '' END
            USING ERRCODE = 'RO032',
                HINT = 'Retry when some have started, raise max_waiting of the queue, or set its when_full to '
                'drop_lowest, which drops the runs with the lowest priority.';
    END IF;
    RETURN true;
END $$;

-- Whether the runs of a schedule would be refused: its times are skipped.
-- Called by: note_skipped_inits, run_inits, sql/schedules/read_due.sql.
CREATE FUNCTION rota.has_full_queue(of_schedule bigint) RETURNS boolean LANGUAGE sql STABLE
SET enable_seqscan = off SET jit = off AS $$
    SELECT EXISTS (
        SELECT FROM rota.schedules s JOIN rota.jobs j ON j.name = s.job
        JOIN rota.queues q ON q.name = coalesce(s.queue, j.queue) AND q.max_waiting IS NOT NULL
            AND q.when_full = 'refuse'
        JOIN rota.queue_caps c ON c.queue = q.name AND c.waiting >= q.max_waiting
        WHERE s.id = of_schedule)
$$;

-- One turn of a worker: counts what waits in capped queues, drops what is too much, marks runs from before a cap.
-- Returns how much it did and after how many seconds somebody should look again; NULL: there is no cap.
-- Called by: sql/tenants/tend.sql.
-- Locks: "caps" if it is free, rows that nobody else has locked.
CREATE FUNCTION rota.tend_caps(max_runs integer DEFAULT 5000, OUT moved integer, OUT next_seconds double precision)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET lock_timeout = '5s' AS $$
DECLARE
    turn    timestamptz := clock_timestamp();
    began   timestamptz;
    one     record;
    found   bigint;
    seen    integer;
    last_id bigint;
    is_read boolean;
BEGIN
    moved := 0;
    IF NOT EXISTS (SELECT FROM rota.queue_caps) THEN
        RETURN;
    END IF;
    next_seconds := 1;
    IF NOT rota.try_lock('caps') THEN
        RETURN;
    END IF;
    FOR one IN SELECT q.name, q.max_waiting, q.when_full, c.waiting, c.adopted_id FROM rota.queue_caps c
        JOIN rota.queues q ON q.name = c.queue
               WHERE q.max_waiting IS NOT NULL ORDER BY q.name LOOP
        began := clock_timestamp();
        is_read := one.adopted_id IS NULL;
        IF NOT is_read THEN
            SELECT max(r.id), count(*) INTO last_id, seen
            FROM (SELECT o.id FROM rota.open_runs o WHERE o.id > one.adopted_id ORDER BY o.id LIMIT max_runs) r;
            UPDATE rota.open_runs o SET is_capped = true
            WHERE o.id = ANY (ARRAY(SELECT w.id FROM rota.open_runs w WHERE w.id > one.adopted_id AND w.id <= last_id
                AND w.queue = one.name
                                    AND NOT w.is_capped ORDER BY w.id FOR UPDATE SKIP LOCKED));
            is_read := seen < max_runs;
            moved := moved + seen;
        END IF;
        -- Until all are marked, what was known when the cap was set. Beyond the cap, as many as are dropped in one
        -- turn: a long queue takes longer to be counted than to lose some.
        found := CASE WHEN is_read THEN rota.count_capped(one.name, one.max_waiting + 4 * max_runs)
            ELSE one.waiting END;
        IF is_read AND one.when_full = 'drop_lowest' AND found > one.max_waiting THEN
            seen := rota.drop_lowest(one.name, found - one.max_waiting);
            moved := moved + seen;
            found := found - seen;
        END IF;
        UPDATE rota.queue_caps c SET waiting = found, counted_at = clock_timestamp(), took_ms = extract(epoch
            FROM clock_timestamp() - began) * 1000,
            full_since = CASE WHEN found >= one.max_waiting THEN coalesce(c.full_since, rota.now()) END,
            adopted_id = CASE WHEN NOT is_read THEN last_id END
        WHERE c.queue = one.name;
    END LOOP;
    -- At most a tenth of somebody's time goes into it.
    next_seconds := greatest(next_seconds, 10 * extract(epoch FROM clock_timestamp() - turn));
END $$;

-- 06_workers.sql

-- `workers`: one row for each process that runs jobs, with its lease. Its life: `register_worker`, `start_worker`,
-- `beat` until it ends; `drain_worker` and `resume_worker` are what people tell it, `fall_asleep` is what it does
-- where nothing is to be done. `batch_starts`, `fleets` and `builds` say what started when. How a worker is called
-- is in 08_enqueue, what happens when it is lost in 11_rescue.

-- Ids are never reused: an old worker under a new name must not pass a fence.
CREATE SEQUENCE rota.worker_ids;

-- The same number for the same jobs: what one worker of them cannot serve, none of them can.
-- Called by: workers.
CREATE FUNCTION rota.job_set(jobs text[]) RETURNS bigint LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT hashtextextended(array_to_string(jobs, chr(31)), 0)
$$;

-- One row for each process that runs jobs. A worker lives as long as its lease; who is declared lost passes no fence
-- any more. Many small updates: half of each page is kept free for them.
CREATE TABLE rota.workers (
    id                  bigint PRIMARY KEY DEFAULT nextval('rota.worker_ids'),
    name                text NOT NULL,
    host                text NOT NULL,
    pid                 integer NOT NULL,
    version             text NOT NULL DEFAULT '',
    queues              text[] NOT NULL DEFAULT '{}',    -- empty: all
    jobs                text[] NOT NULL DEFAULT '{}',
    concurrency         integer NOT NULL CHECK (concurrency >= 1),
    state               text NOT NULL DEFAULT 'live' CHECK (state IN ('live', 'stopping', 'gone', 'lost')),
    is_stuck            boolean NOT NULL DEFAULT false,  -- its event loop is blocked
    is_waiting          boolean NOT NULL DEFAULT false,  -- enqueuers shall call it
    lease_seconds       double precision NOT NULL CHECK (lease_seconds > 0),
    started_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_expires_at    timestamptz NOT NULL,
    ended_at            timestamptz,
    application         text COLLATE "C",
    build               text,
    drain_requested_at  timestamptz,                     -- real clock; NULL: it claims
    drain_requested_by  text,
    drain_reason        text,
    drain_seen_at       timestamptz,                     -- since when the worker knows
    is_to_stop          boolean NOT NULL DEFAULT false,
    is_start            boolean NOT NULL DEFAULT false,  -- not one that came back after it lost its lease
    isolating_run       bigint,
    isolating_attempt   integer,
    is_isolating_inline boolean NOT NULL DEFAULT false,
    -- What a worker says of itself with each beat: when the database last answered its asking for work, when it last
    -- wrote an end, its errors in a row, and what does not get done. A worker with a trouble is live but failing.
    claimed_at          timestamptz,
    finished_at         timestamptz,
    errors              integer NOT NULL DEFAULT 0,
    trouble             text,
    -- With each beat a worker says how much memory its process and those that it started hold, and how much processor
    -- time they have used; what it used since the beat before is kept beside it, so that one look tells how busy it is.
    memory_bytes        bigint,
    cpu_seconds         double precision,
    cpu_cores           real,
    is_to_hurry         boolean NOT NULL DEFAULT false,
    -- A worker behind a pooler that lends sessions for a transaction only hears no calls: it polls, and says so.
    is_polling          boolean NOT NULL DEFAULT false,
    channel             text,                            -- where it hears calls for itself; NULL: it hears all of them
    is_looking          boolean NOT NULL DEFAULT false,  -- it looks every few milliseconds: nobody has to be called
    job_set             bigint GENERATED ALWAYS AS (rota.job_set(jobs)) STORED,
    -- Sleep, for databases that are paid by activity: a worker that has nothing to do signs off, lets go of its
    -- connections, and comes back under a new number. Its row says until when it sleeps at most.
    asleep_until        timestamptz,
    release             text,
    CHECK ((state IN ('gone', 'lost')) = (ended_at IS NOT NULL)),
    CHECK (NOT (is_waiting AND state IN ('gone', 'lost'))),
    -- A worker that does not wait does not look either.
    CONSTRAINT workers_looking CHECK (is_waiting OR NOT is_looking)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
CREATE INDEX workers_waiting ON rota.workers (job_set, is_looking DESC, id) WHERE is_waiting;
COMMENT ON COLUMN rota.workers.claimed_at IS 'when it last claimed successfully, with or without getting runs';
COMMENT ON COLUMN rota.workers.finished_at IS 'when it last recorded the end of attempts';
COMMENT ON COLUMN rota.workers.errors IS 'consecutive errors of the loop that has the most';
COMMENT ON COLUMN rota.workers.trouble IS 'which of its loops keeps failing, and why';
COMMENT ON COLUMN rota.workers.memory_bytes IS 'resident memory of its process and its children; NULL: not measured';
COMMENT ON COLUMN rota.workers.cpu_seconds IS 'processor time of its process and its children since they started';
COMMENT ON COLUMN rota.workers.cpu_cores IS 'cores in use between its last two heartbeats';
COMMENT ON COLUMN rota.workers.is_to_hurry
    IS 'told to stop within its shutdown_seconds and to interrupt attempts that run longer';
COMMENT ON COLUMN rota.workers.is_polling
    IS 'cannot receive NOTIFY, for lack of a session of its own; it finds runs within worker.poll_seconds';
COMMENT ON COLUMN rota.workers.asleep_until
    IS 'it sleeps without a connection, until this time at the latest; NULL: it does not sleep';
COMMENT ON COLUMN rota.workers.release IS 'the release of its application; NULL: none was given';

-- A batch that was claimed ahead counts as started from the moment its row is here:
-- append-only, because a counter updated in place grows a chain of dead versions that
-- every claim would walk while an old snapshot is held.
CREATE TABLE rota.batch_starts (
    worker bigint NOT NULL,
    batch  bigint NOT NULL,
    PRIMARY KEY (worker, batch)
);

-- Enters a new worker, live from now on, and returns its id.
-- Called by: sql/workers/register.sql.
CREATE FUNCTION rota.register_worker(
    name text, host text, pid integer, version text, queues text[], jobs text[],
    concurrency integer, lease_seconds double precision
) RETURNS bigint LANGUAGE sql VOLATILE SET jit = off AS $$
    INSERT INTO rota.workers (name, host, pid, version, queues, jobs, concurrency, lease_seconds, lease_expires_at)
    VALUES (register_worker.name, register_worker.host, register_worker.pid, register_worker.version,
            register_worker.queues, register_worker.jobs, register_worker.concurrency, register_worker.lease_seconds,
            clock_timestamp() + make_interval(secs => register_worker.lease_seconds))
    RETURNING id
$$;

-- Workers start one after the other here (lock "fleet"): one that finds nobody live opens the next fleet. One that
-- comes back after it lost its lease starts nothing.
-- Called by: sql/workers/start.sql.
-- Locks: "fleet".
CREATE FUNCTION rota.start_worker(for_worker bigint, of_application text, of_build text, is_new boolean,
    of_release text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off SET lock_timeout = '1s' AS $$
BEGIN
    PERFORM rota.take_lock('fleet');
    INSERT INTO rota.fleets AS f (application, number)
    SELECT a, 1 FROM unnest(ARRAY['', of_application]) a
    WHERE NOT EXISTS (SELECT FROM rota.workers w WHERE w.application IS NOT NULL AND a IN ('', w.application)
                      AND w.state IN ('live', 'stopping') AND w.lease_expires_at > clock_timestamp()
                      AND w.id <> for_worker)
    ORDER BY a
    ON CONFLICT (application) DO UPDATE SET number = f.number + 1, started_at = rota.now() WHERE is_new;
    UPDATE rota.workers SET application = of_application, build = of_build, is_start = is_start OR is_new,
        release = of_release
    WHERE id = for_worker;
END $$;

-- Renews the lease and returns false to a worker that was declared lost. A lease that ran out while nobody rescued
-- is still its own: rescue marks the worker before it takes a row. What the worker says about itself (its last claim
-- and finish, errors, trouble, memory, processor time) is written with it.
-- Called by: sql/workers/beat.sql.
CREATE FUNCTION rota.beat(
    for_worker bigint, stuck boolean DEFAULT false, claimed_seconds double precision DEFAULT NULL,
    finished_seconds double precision DEFAULT NULL, errors integer DEFAULT 0, trouble text DEFAULT NULL,
    memory_bytes bigint DEFAULT NULL, cpu_seconds double precision DEFAULT NULL
) RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    UPDATE rota.workers w
    SET heartbeat_at = clock_timestamp(), lease_expires_at = clock_timestamp() + make_interval(secs => w.lease_seconds),
        is_stuck = stuck,
        claimed_at = coalesce(clock_timestamp() - make_interval(secs => claimed_seconds), w.claimed_at),
        finished_at = coalesce(clock_timestamp() - make_interval(secs => finished_seconds), w.finished_at),
        errors = beat.errors, trouble = beat.trouble, memory_bytes = beat.memory_bytes, cpu_seconds = beat.cpu_seconds,
        -- Less than before: a child has gone with what it had used.
        cpu_cores = CASE WHEN beat.cpu_seconds >= w.cpu_seconds
                         THEN (beat.cpu_seconds - w.cpu_seconds) / greatest(extract(epoch
                             FROM clock_timestamp() - w.heartbeat_at), 0.1) END
    WHERE w.id = for_worker AND w.state IN ('live', 'stopping');
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM rota.batch_starts b
    WHERE b.worker = for_worker AND b.batch < (SELECT max(n.batch) FROM rota.batch_starts n
        WHERE n.worker = for_worker);
    RETURN true;
END $$;

-- Refuses a worker that is not live, or whose lease has run out (RO006).
-- Called by: claim_runs, claim_suspect.
CREATE FUNCTION rota.check_worker(for_worker bigint) RETURNS void LANGUAGE plpgsql STABLE SET jit = off AS $$
BEGIN
    PERFORM FROM rota.workers w WHERE w.id = for_worker AND w.state = 'live' AND w.lease_expires_at > clock_timestamp();
    IF NOT FOUND THEN
        RAISE EXCEPTION 'worker % is not live', for_worker USING ERRCODE = 'RO006';
    END IF;
END $$;

-- How often each application's workers started from none: the number that init schedules of kind start go by.
CREATE TABLE rota.fleets (
    application text COLLATE "C" PRIMARY KEY,  -- '': all workers together
    number      bigint NOT NULL,
    started_at  timestamptz NOT NULL DEFAULT rota.now()
);

-- All that an application declares, as one digest. The highest number is the newest code.
CREATE TABLE rota.builds (
    application   text COLLATE "C" NOT NULL,
    build         text COLLATE "C" NOT NULL,
    number        bigint NOT NULL,
    has_worked    boolean NOT NULL DEFAULT false,  -- some worker has run it
    first_seen_at timestamptz NOT NULL DEFAULT rota.now(),
    PRIMARY KEY (application, build)
);

-- The workers of an application whose lease runs.
-- Called by: gone_jobs, may_follow, may_speak.
CREATE FUNCTION rota.live_workers(of_application text) RETURNS SETOF rota.workers LANGUAGE sql STABLE AS $$
    SELECT w.* FROM rota.workers w
    WHERE w.application = of_application AND w.state IN ('live', 'stopping') AND w.lease_expires_at > clock_timestamp()
$$;

-- What the workers of an application have: those that live, sleep, or ended less than a minute ago, as a restart
-- takes its time, and the one that started last, until its row is swept.
-- Called by: gone_jobs.
CREATE FUNCTION rota.kept_jobs(of_application text) RETURNS SETOF text LANGUAGE sql STABLE SET jit = off AS $$
    SELECT unnest(w.jobs) FROM rota.workers w
    WHERE w.application = of_application AND (
        coalesce(w.ended_at, w.lease_expires_at) > clock_timestamp() - interval '1 minute' OR rota.is_asleep(w)
        OR w.id = (SELECT max(s.id) FROM rota.workers s WHERE s.application = of_application AND s.is_start))
$$;

-- Asks a worker to finish what it runs and to take nothing new; stop: to end then; at_once: to end within its
-- shutdown_seconds. It learns of it by a call, or with its next heartbeat at the latest. One that drains already can
-- still be told to stop. Returns whether it wrote: false if it was asked for that, or for more, already.
-- Called by: sql/workers/drain.sql, users.
CREATE FUNCTION rota.drain_worker(
    worker bigint, stop boolean DEFAULT false, reason text DEFAULT NULL, actor text DEFAULT NULL,
    at_once boolean DEFAULT false
) RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    who text := coalesce(drain_worker.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    found rota.workers := rota.lock_live_worker(drain_worker.worker);
    was_draining boolean := found.drain_requested_at IS NOT NULL;
    is_stopping boolean := drain_worker.stop OR drain_worker.at_once;
BEGIN
    IF was_draining AND (found.is_to_hurry OR NOT drain_worker.at_once) AND (found.is_to_stop OR NOT is_stopping) THEN
        RETURN false;
    END IF;
    UPDATE rota.workers w SET drain_requested_at = coalesce(w.drain_requested_at, clock_timestamp()),
        drain_requested_by = who,
        drain_reason = coalesce(drain_worker.reason, w.drain_reason), is_to_stop = is_stopping,
        is_to_hurry = drain_worker.at_once
    WHERE w.id = found.id;
    PERFORM rota.write_audit(who, 'worker.drained', 'worker', found.id::text,
        jsonb_build_object('is_draining', was_draining, 'is_to_stop', found.is_to_stop, 'is_to_hurry',
        found.is_to_hurry), jsonb_build_object('is_draining', true, 'is_to_stop', is_stopping, 'is_to_hurry',
        drain_worker.at_once), drain_worker.reason);
    PERFORM pg_notify('rota', 'worker ' || found.id);
    RETURN true;
END $$;

-- A draining worker takes work again. Returns whether it wrote: false if it was not draining.
-- Called by: sql/workers/resume.sql, users.
CREATE FUNCTION rota.resume_worker(worker bigint, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found rota.workers := rota.lock_live_worker(resume_worker.worker);
BEGIN
    IF found.drain_requested_at IS NULL THEN
        RETURN false;
    END IF;
    UPDATE rota.workers w SET drain_requested_at = NULL, drain_requested_by = NULL, drain_reason = NULL,
        drain_seen_at = NULL,
        is_to_stop = false, is_to_hurry = false
    WHERE w.id = found.id;
    PERFORM rota.write_audit(resume_worker.actor, 'worker.resumed', 'worker', found.id::text,
        jsonb_build_object('is_draining', true, 'is_to_stop', found.is_to_stop),
        jsonb_build_object('is_draining', false, 'is_to_stop', false), resume_worker.reason);
    PERFORM pg_notify('rota', 'worker ' || found.id);
    RETURN true;
END $$;

-- Locks the row of a worker that can be told something; says of one that sleeps that it does.
-- Called by: drain_worker, resume_worker.
-- Locks: rows.
CREATE FUNCTION rota.lock_live_worker(of_worker bigint) RETURNS rota.workers LANGUAGE plpgsql VOLATILE
SET jit = off AS $$
DECLARE
    found rota.workers;
BEGIN
    SELECT * INTO found FROM rota.workers w WHERE w.id = of_worker FOR NO KEY UPDATE;
    IF found.id IS NULL THEN
        RAISE EXCEPTION 'there is no worker %', of_worker USING ERRCODE = 'RO010';
    ELSIF found.state <> 'live' THEN
        RAISE EXCEPTION 'worker % is %', of_worker,
            CASE WHEN rota.is_asleep(found) THEN 'asleep, and returns under another number' ELSE found.state END
            USING ERRCODE = 'RO005';
    END IF;
    RETURN found;
END $$;

-- Runs by worker: what was claimed ahead and has not started is apart.
-- Called by: sql/workers/list.sql.
CREATE FUNCTION rota.worker_loads() RETURNS TABLE (worker bigint, running bigint, claimed bigint)
LANGUAGE sql STABLE AS $$
    SELECT r.worker, count(*) FILTER (WHERE coalesce(r.claim_batch, 0) <= coalesce(s.batch, 0)),
           count(*) FILTER (WHERE r.claim_batch > coalesce(s.batch, 0))
    FROM rota.running_runs() r
    LEFT JOIN (SELECT b.worker, max(b.batch) AS batch FROM rota.batch_starts b GROUP BY b.worker) s
        ON s.worker = r.worker
    GROUP BY r.worker
$$;

-- For how long nothing will come that the database knows of; 0: there is something to do, or somebody is at work and
-- may be lost with it. Of each queue only the front is read: what a worker could take it has taken.
-- Called by: fall_asleep, sql/workers/quiet_seconds.sql.
CREATE FUNCTION rota.quiet_seconds(for_worker bigint, most_seconds double precision, is_ticking boolean)
RETURNS double precision LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_sort = off SET jit = off AS $$
DECLARE
    clock timestamptz := rota.now();
    known text[] := (SELECT w.jobs FROM rota.workers w WHERE w.id = for_worker);
    lane  text;
BEGIN
    IF EXISTS (SELECT FROM rota.running_runs()) OR EXISTS (SELECT FROM rota.open_runs o WHERE o.held_by = 'suspect')
       OR EXISTS (SELECT FROM rota.bulk_actions b WHERE b.state = 'running') THEN
        RETURN 0;
    END IF;
    LOOP
        SELECT o.queue INTO lane FROM rota.open_runs o WHERE o.is_ready AND (lane IS NULL OR o.queue > lane)
        ORDER BY o.queue LIMIT 1;
        EXIT WHEN NOT FOUND;
        IF NOT EXISTS (SELECT FROM rota.queues q WHERE q.name = lane AND rota.queue_is_paused(q)) AND EXISTS (
               SELECT FROM (SELECT o.job FROM rota.open_runs o WHERE o.is_ready AND o.queue = lane
                   ORDER BY o.priority, o.seq LIMIT 1000) f
               JOIN rota.jobs j ON j.name = f.job AND j.is_enabled WHERE f.job = ANY (known)) THEN
            RETURN 0;
        END IF;
    END LOOP;
    RETURN greatest(0, least(most_seconds,
        (SELECT extract(epoch FROM o.run_at - clock) FROM rota.open_runs o WHERE o.is_future AND o.run_at < 'infinity'
            ORDER BY o.run_at LIMIT 1),
        (SELECT extract(epoch FROM min(q.paused_until) - clock) FROM rota.queues q
            WHERE q.is_paused AND q.paused_until < 'infinity'),
        CASE WHEN is_ticking THEN rota.next_schedule_seconds() END));
END $$;

-- Whether a worker sleeps. One that was killed in its sleep does not come back: it counts as asleep for no longer
-- than a minute after its time.
-- Called by: kept_jobs, lock_live_worker, park_unknown_runs, sql/attention/unserved.sql, sql/metrics/health.sql,
-- sql/workers/list.sql, why_asleep.
CREATE FUNCTION rota.is_asleep(w rota.workers) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT w.state = 'gone' AND w.asleep_until > clock_timestamp() - interval '1 minute'
$$;

-- Signs a worker off to sleep, and returns for how long it may.
-- Called by: sql/workers/fall_asleep.sql.
CREATE FUNCTION rota.fall_asleep(for_worker bigint, most_seconds double precision, is_ticking boolean)
RETURNS double precision LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    seconds double precision := rota.quiet_seconds(for_worker, most_seconds, is_ticking);
BEGIN
    UPDATE rota.workers w SET state = 'gone', is_waiting = false, ended_at = clock_timestamp(),
        asleep_until = clock_timestamp() + make_interval(secs => seconds)
    WHERE w.id = for_worker AND w.state IN ('live', 'stopping');
    RETURN CASE WHEN FOUND THEN seconds ELSE 0 END;
END $$;

-- 07_runs.sql

-- Runs. What has not ended is in `open_runs`, thin and small; what has ended is appended to `ended_runs` and never
-- updated, in partitions by the time of its end, so that the cost of a claim depends on what waits and never on what
-- has finished. Earlier attempts are rows of `past_attempts`. `keys` says which run holds a key, `cancel_requests`
-- what somebody asked of a running one. The views `runs` and `attempts` show all of it as one. The verbs follow in
-- the next files: enqueue, claim, finish, rescue.

-- One sequence for ids and for places in the line: an id is also the first place.
CREATE SEQUENCE rota.run_ids;

-- The rules of an open run, where the server need not read them anew. It does so with the constraints of a table in
-- each statement, which took 41 microseconds of a single enqueue; those of a domain it keeps for the session. The
-- constraint of the table only names the domains. For each row of a batch they cost what they did. As these types are
-- no column's, a rule that is made stricter later is not held against the rows that are there.
CREATE TYPE rota.run_facts AS (
    state text, worker bigint, started_at timestamptz, claim_batch bigint, held_by text, attempts_used smallint,
    max_attempts smallint, attempt integer
);
-- The state of a run and what goes with it.
CREATE DOMAIN rota.sound_run AS rota.run_facts
    CONSTRAINT open_runs_state CHECK (CASE (VALUE).state
        WHEN 'running' THEN (VALUE).worker IS NOT NULL AND (VALUE).started_at IS NOT NULL AND (VALUE).held_by IS NULL
        WHEN 'queued' THEN num_nonnulls((VALUE).worker, (VALUE).started_at, (VALUE).claim_batch) = 0
        WHEN 'scheduled' THEN num_nonnulls((VALUE).worker, (VALUE).started_at, (VALUE).claim_batch, (VALUE).held_by) = 0
        WHEN 'blocked' THEN num_nonnulls((VALUE).worker, (VALUE).started_at, (VALUE).claim_batch, (VALUE).held_by) = 0
        ELSE false END)
    CONSTRAINT open_runs_attempts CHECK ((VALUE).attempts_used >= 0 AND (VALUE).attempts_used < (VALUE).max_attempts
        AND (VALUE).attempts_used <= (VALUE).attempt);
CREATE DOMAIN rota.run_instant AS timestamptz
    CONSTRAINT open_runs_instants CHECK (VALUE >= timestamptz '0001-01-02 00:00Z'
        AND VALUE < timestamptz '9999-12-31 00:00Z');
CREATE DOMAIN rota.run_priority AS smallint CONSTRAINT open_runs_priority
    CHECK (VALUE BETWEEN smallint '0' AND smallint '9');
CREATE DOMAIN rota.run_payload AS jsonb CONSTRAINT open_runs_payload CHECK (jsonb_typeof(VALUE) = 'object');
CREATE DOMAIN rota.run_key_seconds AS double precision CONSTRAINT open_runs_key_seconds
    CHECK (VALUE BETWEEN float8 '0' AND float8 'infinity');
CREATE DOMAIN rota.run_progress AS real CONSTRAINT open_runs_progress CHECK (VALUE BETWEEN real '0' AND real '1');
CREATE DOMAIN rota.run_timeout AS real CONSTRAINT open_runs_timeout
    CHECK (VALUE > real '0' AND VALUE <= real '3153600000');

-- What has not ended. Small, and updated often: pages keep room, and no index names what a claim changes.
CREATE TABLE rota.open_runs (
    id              bigint NOT NULL,
    seq             bigint NOT NULL,                 -- the place in its queue and priority
    created_at      timestamptz NOT NULL,
    enqueued_at     timestamptz NOT NULL,            -- real clock: since when it could be claimed
    run_at          timestamptz NOT NULL,
    worker          bigint,
    claim_batch     bigint,                          -- NULL while running: started with its claim
    started_at      timestamptz,
    attempt         integer NOT NULL DEFAULT 0,      -- grows with every claim and never falls: the fence
    validated_by    integer,                         -- hash of the payload schema that accepted it
    attempts_used   smallint NOT NULL DEFAULT 0,
    max_attempts    smallint NOT NULL,
    priority        smallint NOT NULL,
    is_suspect      boolean NOT NULL DEFAULT false,  -- lost once: its worker died with it
    state           text COLLATE "C" NOT NULL,
    queue           text COLLATE "C" NOT NULL,
    job             text COLLATE "C" NOT NULL,
    tenant          text COLLATE "C" NOT NULL DEFAULT '',
    payload         jsonb NOT NULL,
    held_by         text COLLATE "C",                -- queued, but kept out of the claim; says by what
    held_at         timestamptz,                     -- since when no worker knows its job
    expires_at      timestamptz,
    timeout_seconds real,
    key             text,
    key_seconds     double precision,                -- how long the key outlives the run; NULL: not at all
    backoff         jsonb,
    tags            text[],
    metadata        jsonb,
    triggered_by    jsonb,                           -- NULL: by code
    schedule        text,
    scheduled_for   timestamptz,
    schedule_id     bigint,
    last_error      text,
    progress        real,
    message         text,
    -- In the claim's way: waiting or running. Generated, so that it cannot disagree with the state;
    -- and it does not change when a run is claimed, so that a claim touches no index at all.
    is_ready        boolean NOT NULL GENERATED ALWAYS AS (held_by IS NULL AND state IN ('queued', 'running')) STORED,
    is_future       boolean NOT NULL GENERATED ALWAYS AS (state = 'scheduled') STORED,
    error_group     text COLLATE "C",                -- of last_error
    -- NULL where there is no limit, which costs nothing.
    limit_keys      text[] COLLATE "C",              -- what it must have to start; sequences first
    slots           text[] COLLATE "C",              -- what it has
    limit_key       text COLLATE "C",                -- what it waits for now
    -- Runs of capped queues, ready, held and for later alike. A claim changes nothing that the index knows, and others
    -- are not in it.
    is_capped       boolean NOT NULL DEFAULT false,
    CONSTRAINT open_runs_pkey PRIMARY KEY (id),
    -- Never NULL: what counts is that the values are made ones of their domains.
    CONSTRAINT open_runs_sound CHECK (num_nulls(
        ROW(state, worker, started_at, claim_batch, held_by, attempts_used, max_attempts, attempt)::rota.sound_run,
        least(run_at, expires_at, scheduled_for)::rota.run_instant,
        greatest(run_at, expires_at, scheduled_for)::rota.run_instant,
        priority::rota.run_priority, payload::rota.run_payload, key_seconds::rota.run_key_seconds,
        progress::rota.run_progress, timeout_seconds::rota.run_timeout) IS NOT NULL)
) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
        autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX open_runs_due ON rota.open_runs (run_at) WHERE is_future;
CREATE INDEX open_runs_schedule ON rota.open_runs (schedule_id) WHERE schedule_id IS NOT NULL;
-- For lists by what few runs have. None of these columns changes with a claim.
CREATE INDEX open_runs_key ON rota.open_runs (key) WHERE key IS NOT NULL;
CREATE INDEX open_runs_tenant ON rota.open_runs (tenant, id) WHERE tenant <> '';
CREATE INDEX open_runs_schedule_name ON rota.open_runs (schedule, id) WHERE schedule IS NOT NULL;
-- By the time for whoever writes it down, by the id for lists. A run that does not expire is in neither.
CREATE INDEX open_runs_expiring ON rota.open_runs (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX open_runs_expiring_id ON rota.open_runs (id) WHERE expires_at IS NOT NULL;
CREATE INDEX open_runs_error_group ON rota.open_runs (error_group, id) WHERE error_group IS NOT NULL;
-- Runs that wait after a failure, for whoever looks for words in their errors: among a million that have none.
CREATE INDEX open_runs_with_error ON rota.open_runs (id) WHERE error_group IS NOT NULL;
-- A run that another one has asked for says which. Few have one, and only those are in these indexes.
CREATE INDEX open_runs_parent ON rota.open_runs ((triggered_by ->> 'run')) WHERE triggered_by ? 'run';
-- What claims walk, in their order. No index names state, worker or attempt, in its columns or its predicate: that
-- is what keeps the claim's update on its page (docs/decisions/0002-data-shape.md).
CREATE INDEX open_runs_claim ON rota.open_runs (queue, tenant, priority, seq) WHERE is_ready;
-- The line of each limit.
CREATE INDEX open_runs_limited ON rota.open_runs (limit_key, priority, seq) WHERE held_by = 'limit';
-- Held runs, by what holds them. Those that wait for a limit have an index of their own.
CREATE INDEX open_runs_held ON rota.open_runs (held_by, job, held_at) WHERE held_by IS NOT NULL AND held_by <> 'limit';
CREATE INDEX open_runs_slots ON rota.open_runs (id) WHERE slots IS NOT NULL;
CREATE INDEX open_runs_held_of_tenant ON rota.open_runs (held_by, tenant, seq)
    WHERE held_by = 'tenant' OR held_by = 'limit' AND tenant <> '';
CREATE INDEX open_runs_capped ON rota.open_runs (queue, priority, seq) WHERE is_capped;

-- History. keep_class comes first, so that what is kept longer lies in partitions of its own.
-- The last attempt is part of the row; earlier ones are rows of past_attempts.
CREATE TABLE rota.ended_runs (
    id              bigint NOT NULL,
    created_at      timestamptz NOT NULL,
    run_at          timestamptz NOT NULL,
    started_at      timestamptz,  -- of the last attempt
    finished_at     timestamptz NOT NULL,
    worker          bigint,
    attempt         integer NOT NULL,
    duration_ms     real,
    attempts_used   smallint NOT NULL,
    max_attempts    smallint NOT NULL,
    priority        smallint NOT NULL,
    is_redelivery   boolean NOT NULL,
    state           text COLLATE "C" NOT NULL CHECK (state IN ('succeeded', 'failed', 'cancelled')),
    attempt_state   text COLLATE "C" CHECK (attempt_state IN ('succeeded', 'failed', 'cancelled', 'timed_out', 'lost')),
    keep_class      text COLLATE "C" NOT NULL DEFAULT 'standard',
    queue           text COLLATE "C" NOT NULL,
    job             text COLLATE "C" NOT NULL,
    tenant          text COLLATE "C" NOT NULL,
    payload         jsonb NOT NULL,
    result          jsonb,
    expires_at      timestamptz,
    timeout_seconds real,
    key             text,
    key_seconds     double precision,
    backoff         jsonb,
    tags            text[],
    metadata        jsonb,
    triggered_by    jsonb,
    schedule        text,
    scheduled_for   timestamptz,
    schedule_id     bigint,
    progress        real,
    message         text,
    details         jsonb,
    error_type      text,
    error           text,
    traceback       text,
    end_reason      text,         -- NULL: it simply succeeded
    error_group     text COLLATE "C",
    CONSTRAINT ended_runs_reason CHECK (state = 'succeeded' OR end_reason IS NOT NULL)
) PARTITION BY LIST (keep_class);
CREATE INDEX ended_runs_id ON rota.ended_runs (id);
CREATE INDEX ended_runs_job ON rota.ended_runs (job, finished_at);
CREATE INDEX ended_runs_bad ON rota.ended_runs (finished_at) WHERE state <> 'succeeded';
-- For lists by what few runs have. Partial: a run without a key, tenant or schedule that succeeds is in none of them.
CREATE INDEX ended_runs_key ON rota.ended_runs (key) WHERE key IS NOT NULL;
CREATE INDEX ended_runs_tenant ON rota.ended_runs (tenant, id) WHERE tenant <> '';
CREATE INDEX ended_runs_schedule ON rota.ended_runs (schedule, id) WHERE schedule IS NOT NULL;
CREATE INDEX ended_runs_bad_id ON rota.ended_runs (id) WHERE state <> 'succeeded';
CREATE INDEX ended_runs_error_group ON rota.ended_runs (error_group, id) WHERE error_group IS NOT NULL;
CREATE INDEX ended_runs_failed ON rota.ended_runs (id) WHERE state = 'failed';
CREATE INDEX ended_runs_parent ON rota.ended_runs ((triggered_by ->> 'run')) WHERE triggered_by ? 'run';

-- By week.
CREATE TABLE rota.ended_runs_standard PARTITION OF rota.ended_runs FOR VALUES IN ('standard')
    PARTITION BY RANGE (finished_at);

-- Attempts before the last one. Named by run and attempt, appended and never updated.
CREATE TABLE rota.past_attempts (
    run_id        bigint NOT NULL,
    attempt       integer NOT NULL,
    state         text COLLATE "C" NOT NULL CHECK (state IN ('failed', 'snoozed', 'cancelled', 'timed_out', 'lost')),
    worker        bigint NOT NULL,
    started_at    timestamptz NOT NULL,
    finished_at   timestamptz NOT NULL,
    duration_ms   real,
    is_redelivery boolean NOT NULL DEFAULT false,
    is_spent      boolean NOT NULL,  -- counted against max_attempts
    keep_class    text COLLATE "C" NOT NULL DEFAULT 'standard',
    job           text COLLATE "C" NOT NULL,
    tenant        text COLLATE "C" NOT NULL,
    message       text,
    details       jsonb,
    error_type    text,
    error         text,
    traceback     text
) PARTITION BY LIST (keep_class);
CREATE INDEX past_attempts_run ON rota.past_attempts (run_id, attempt);

-- By week.
CREATE TABLE rota.past_attempts_standard PARTITION OF rota.past_attempts FOR VALUES IN ('standard')
    PARTITION BY RANGE (finished_at);

-- No unique index spans open and ended runs, and one on open_runs would forget a key the
-- moment its run ends.
CREATE TABLE rota.keys (
    tenant     text COLLATE "C" NOT NULL,
    job        text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    run_id     bigint NOT NULL,
    expires_at timestamptz,  -- NULL: its run has not ended
    PRIMARY KEY (tenant, job, key)
);
CREATE INDEX keys_expired ON rota.keys (expires_at) WHERE expires_at IS NOT NULL;

-- Cancelling what runs is a request: an operator's open transaction must not lock a row that
-- a batch of finishes needs.
CREATE TABLE rota.cancel_requests (
    run_id       bigint PRIMARY KEY,
    worker       bigint NOT NULL,
    attempt      integer NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT rota.now(),
    requested_by text NOT NULL,
    reason       text
);
CREATE INDEX cancel_requests_worker ON rota.cancel_requests (worker);

INSERT INTO rota.partitioned VALUES ('ended_runs_standard', 7), ('past_attempts_standard', 7);
SELECT rota.ensure_partitions(rota.now() - interval '1 day', rota.now() + interval '7 days');

-- Open and ended runs in one shape, with what lists filter by. An open run that is past its deadline shows as
-- cancelled before anybody has ended it, unless it had started in time.
CREATE VIEW rota.run_rows AS
SELECT id, job, queue,
       CASE WHEN expires_at IS NULL OR expires_at > (SELECT rota.now())
              OR (state = 'running' AND started_at < expires_at) THEN state ELSE 'cancelled' END AS state,
       priority, payload, run_at, attempt, max_attempts, key, tenant,
       coalesce(tags, '{}') AS tags, coalesce(metadata, '{}') AS metadata, schedule, scheduled_for,
       coalesce(triggered_by, '{"type": "code"}') AS triggered_by, worker, last_error, message,
       NULL::jsonb AS result, created_at, started_at,
       CASE WHEN expires_at IS NULL OR expires_at > (SELECT rota.now())
              OR (state = 'running' AND started_at < expires_at) THEN NULL
            ELSE greatest(expires_at, created_at) END AS finished_at,
       NULL::real AS duration_ms, expires_at,
       CASE WHEN expires_at IS NULL OR expires_at > (SELECT rota.now())
              OR (state = 'running' AND started_at < expires_at) THEN NULL ELSE 'expired' END AS end_reason,
       attempts_used, progress,
       CASE WHEN expires_at IS NULL OR expires_at > (SELECT rota.now())
              OR (state = 'running' AND started_at < expires_at) THEN held_by END AS held_by,
       CASE WHEN expires_at IS NULL OR expires_at > (SELECT rota.now())
              OR (state = 'running' AND started_at < expires_at) THEN enqueued_at END AS enqueued_at,
       false AS is_ended, error_group
FROM rota.open_runs
UNION ALL
SELECT id, job, queue, state, priority, payload, run_at, attempt, max_attempts, key, tenant,
       coalesce(tags, '{}'), coalesce(metadata, '{}'), schedule, scheduled_for,
       coalesce(triggered_by, '{"type": "code"}'), worker, error, message,
       result, created_at, started_at, finished_at, duration_ms, expires_at, end_reason, attempts_used, progress, NULL,
       NULL, true, error_group
FROM rota.ended_runs;

CREATE VIEW rota.runs AS
SELECT id, job, queue, state, priority, payload, run_at, attempt, max_attempts, key, tenant, tags, metadata, schedule,
       scheduled_for, triggered_by, worker, last_error, message, result, created_at, started_at, finished_at,
       duration_ms, expires_at, end_reason, attempts_used, progress, held_by, enqueued_at, error_group
FROM rota.run_rows;
COMMENT ON VIEW rota.runs IS 'All runs: waiting, running and ended.';

CREATE VIEW rota.attempts AS
SELECT id AS run_id, attempt, 'running' AS state, worker, started_at, NULL::timestamptz AS finished_at,
       NULL::real AS duration_ms, message, NULL::jsonb AS details, NULL::text AS error_type,
       NULL::text AS error, NULL::text AS traceback, is_suspect AS is_redelivery, NULL::boolean AS is_spent
FROM rota.open_runs WHERE state = 'running'
UNION ALL
SELECT run_id, attempt, state, worker, started_at, finished_at, duration_ms, message, details,
       error_type, error, traceback, is_redelivery, is_spent
FROM rota.past_attempts
UNION ALL
SELECT id, attempt, attempt_state, worker, started_at, finished_at, duration_ms, message, details,
       error_type, error, traceback, is_redelivery, attempt_state <> 'cancelled'
FROM rota.ended_runs WHERE attempt_state IS NOT NULL;
COMMENT ON VIEW rota.attempts IS 'Every attempt of every run: running, past and last.';

-- Whether a run that does not run is past its deadline: it counts as expired before anybody has ended it.
-- Called by: keep_job, run_state, settle_expired.
CREATE FUNCTION rota.is_over(state text, expires_at timestamptz) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT expires_at IS NOT NULL AND state <> 'running' AND expires_at <= rota.now()
$$;

-- What runs. No index tells, because a claim touches none. Of many open runs only the front of each lane (queue,
-- tenant, priority) is read, where claims take from: what runs far behind a thousand waiting ones of its lane is
-- left out.
-- Called by: quiet_seconds, sql/attention/slow_runs.sql, sql/overview/running.sql, sql/workers/running.sql,
-- why_busy, worker_loads.
CREATE FUNCTION rota.running_runs() RETURNS SETOF rota.open_runs LANGUAGE plpgsql STABLE SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
BEGIN
    IF NOT rota.has_many_open_runs() THEN
        RETURN QUERY SELECT o.* FROM rota.open_runs o WHERE o.state = 'running';
        RETURN;
    END IF;
    RETURN QUERY
    SELECT f.* FROM (SELECT DISTINCT d.queue FROM rota.depths d WHERE d.running > 0) AS q
    CROSS JOIN LATERAL rota.lane_tenants(q.queue) AS t (tenant)
    CROSS JOIN generate_series(0, 9) AS p (priority)
    CROSS JOIN LATERAL (SELECT o.* FROM rota.open_runs o
                        WHERE o.is_ready AND o.queue = q.queue AND o.tenant = t.tenant AND o.priority = p.priority
                        ORDER BY o.seq LIMIT 1000) AS f
    WHERE f.state = 'running';
END $$;

-- Where an ended run lies. Its id tells when it was created, and most runs end within two days: the rest of the history
-- is looked at only then.
-- Called by: cancel_run, delete_run, handle_run, reopen_run, retry_run, run_state, why_run.
CREATE FUNCTION rota.find_ended(run_id bigint, OUT keep_class text, OUT finished_at timestamptz, OUT state text)
LANGUAGE plpgsql STABLE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    since timestamptz := (SELECT max(m.at) FROM rota.id_marks m WHERE m.id < find_ended.run_id);
    until timestamptz := since + interval '2 days';
BEGIN
    SELECT r.keep_class, r.finished_at, r.state INTO find_ended.keep_class, find_ended.finished_at, find_ended.state
    FROM rota.ended_runs r WHERE r.id = find_ended.run_id AND r.finished_at >= since AND r.finished_at < until;
    IF NOT FOUND THEN
        SELECT r.keep_class, r.finished_at, r.state INTO find_ended.keep_class, find_ended.finished_at, find_ended.state
        FROM rota.ended_runs r WHERE r.id = find_ended.run_id;
    END IF;
END $$;

-- Whether counting the open runs would take long. Of few of them readers count, of many they take what was counted
-- last (rota.depths), so that looking every second does not read a million rows.
-- Called by: kept_depths, read_depths, running_runs.
CREATE FUNCTION rota.has_many_open_runs() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT count(*) > 20000 FROM (SELECT FROM rota.open_runs LIMIT 20001) AS few
$$;

-- 08_enqueue.sql

-- How a run comes into being, always in the caller's transaction: `enqueue` for people, `enqueue_plain`,
-- `enqueue_run`, `enqueue_batch` and `enqueue_many` for programs. Then how whoever waits hears of it: `wake` calls
-- workers, who answer by `answer_calls` and `pass_on`; `waits` and `tell_waiting` are for those who wait for the end
-- of a run.

-- Duplicates by a sequence: it counts those too that end in an error and are rolled back.
CREATE SEQUENCE rota.duplicates;

-- What triggered_by says of an enqueue by plain SQL: in the session that a worker lends to a SQL job or to
-- ctx.transaction(), its run. Who acts (SET rota.actor) is added by told_by.
-- Called by: emit.
CREATE FUNCTION rota.sql_trigger() RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN current_setting('application_name') LIKE 'rota run %'
        AND split_part(current_setting('application_name'), ' ', 3) ~ '^[0-9]{1,18}$'
                THEN jsonb_build_object('type', 'sql', 'run',
                    split_part(current_setting('application_name'), ' ', 3)::bigint)
                ELSE jsonb '{"type": "sql"}' END
$$;

-- triggered_by with the person for whom the session acts (SET rota.actor), where nobody else is named.
-- Called by: enqueue_batch, enqueue_many, enqueue_plain, enqueue_run.
CREATE FUNCTION rota.told_by(triggered_by jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN coalesce(current_setting('rota' || '.actor', true), '') = '' THEN triggered_by
                ELSE jsonb_build_object('actor', current_setting('rota' || '.actor', true))
                    || coalesce(triggered_by, '{"type": "code"}') END
$$;

-- The key of a run, by the template of its job. What the payload leaves out is what the handler's signature says;
-- a value that neither has is refused: runs of different things would share one key.
-- Called by: enqueue_many, enqueue_run.
CREATE FUNCTION rota.run_key(job text, template text, payload jsonb, payload_schema jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
DECLARE
    filled text := template;
    field  text;
    path   text[];
    value  text;
BEGIN
    FOR field IN SELECT DISTINCT m[1] FROM regexp_matches(template, '\{([^}]+)\}', 'g') m LOOP
        path := string_to_array(field, '.');
        value := coalesce(payload #>> path, CASE WHEN NOT payload ? path[1]
            THEN payload_schema #>> (ARRAY['properties', path[1], 'default'] || path[2:]) END);
        IF value IS NULL THEN
            RAISE EXCEPTION 'the key "%" of job "%" requires %, which the payload does not have', template, job, field
                USING ERRCODE = 'RO002', HINT = 'Add it to the payload, or pass a key for this run.';
        END IF;
        filled := replace(filled, '{' || field || '}', value);
    END LOOP;
    RETURN filled;
END $$;

-- enqueue_run for people and triggers: the same options, and the id alone as the answer.
-- Called by: users.
CREATE FUNCTION rota.enqueue(
    job text,
    payload jsonb DEFAULT 'null',
    queue text DEFAULT NULL,
    priority integer DEFAULT NULL,
    run_at timestamptz DEFAULT NULL,
    delay interval DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL,
    key text DEFAULT NULL,
    key_seconds double precision DEFAULT NULL,
    on_conflict text DEFAULT 'return',
    tenant text DEFAULT '',
    max_attempts integer DEFAULT NULL,
    timeout_seconds double precision DEFAULT NULL,
    backoff jsonb DEFAULT NULL,
    tags text[] DEFAULT NULL,
    metadata jsonb DEFAULT NULL,
    expires_in interval DEFAULT NULL
) RETURNS bigint LANGUAGE sql VOLATILE SET jit = off AS $$
    SELECT r.run_id FROM rota.enqueue_run(
        enqueue.job, enqueue.payload, enqueue.queue, enqueue.priority, enqueue.run_at, enqueue.delay,
        enqueue.expires_at, enqueue.key, enqueue.key_seconds, enqueue.on_conflict, enqueue.tenant,
        enqueue.max_attempts, enqueue.timeout_seconds, enqueue.backoff, enqueue.tags, enqueue.metadata,
        expires_in => enqueue.expires_in) r
$$;
COMMENT ON FUNCTION rota.enqueue IS 'Enqueues one run in the caller''s transaction and returns its id.';

-- The one way in. What is not given is the job's: queue, priority and the like, its delay, expiry, key, tenant, tags
-- and, for a payload that is JSON's null, its default payload; metadata is added to the job's. on_conflict says what a
-- taken key does: return (the first run), raise, replace (payload and options of the waiting run; a running one is
-- never touched), debounce or throttle. A run under a limit waits for its admission. Takes the caller's transaction:
-- rolled back, the run never was.
-- Called by: many.
-- Locks: rows that nobody else has locked, rows.
CREATE FUNCTION rota.enqueue_run(
    job text,
    payload jsonb DEFAULT 'null',
    queue text DEFAULT NULL,
    priority integer DEFAULT NULL,
    run_at timestamptz DEFAULT NULL,
    delay interval DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL,
    key text DEFAULT NULL,
    key_seconds double precision DEFAULT NULL,
    on_conflict text DEFAULT 'return',
    tenant text DEFAULT '',
    max_attempts integer DEFAULT NULL,
    timeout_seconds double precision DEFAULT NULL,
    backoff jsonb DEFAULT NULL,
    tags text[] DEFAULT NULL,
    metadata jsonb DEFAULT NULL,
    triggered_by jsonb DEFAULT rota.sql_trigger(),
    validated_by integer DEFAULT NULL,
    expires_in interval DEFAULT NULL,
    OUT run_id bigint,
    OUT is_duplicate boolean
) LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    def    record;
    at     timestamptz;
    holder bigint;
    keys   text[];
    freed  text[];
    o_found boolean;
    is_burst boolean := false;
    latest timestamptz;
    capped boolean := false;
BEGIN
    SELECT j.queue, j.priority, j.max_attempts, s.payload_bytes, statement_timestamp() + s.clock_offset AS clock,
        s.has_limits, s.capped_queues, j.delay_seconds, j.expires_in_seconds, j.key, j.tenant, j.payload_schema,
        num_nonnulls(j.delay_seconds, j.expires_in_seconds, j.key, j.tenant) > 0 AS has_defaults,
        coalesce(enqueue_run.tags, nullif(j.tags, '{}')) AS tags,
        CASE jsonb_typeof(enqueue_run.metadata) WHEN 'object' THEN j.metadata || enqueue_run.metadata
            ELSE nullif(j.metadata, '{}') END AS metadata,
        CASE jsonb_typeof(enqueue_run.payload) WHEN 'null' THEN coalesce(j.default_payload, '{}')
            ELSE enqueue_run.payload END AS payload,
        CASE WHEN jsonb_typeof(enqueue_run.payload) <> 'null' THEN enqueue_run.validated_by END AS validated_by,
        rota.told_by(enqueue_run.triggered_by) AS triggered_by INTO def
    FROM rota.jobs j, rota.settings s WHERE j.name = enqueue_run.job;
    IF NOT FOUND THEN
        PERFORM rota.unknown_job(enqueue_run.job);
    END IF;
    IF def.has_defaults THEN
        IF enqueue_run.run_at IS NULL THEN
            enqueue_run.delay := coalesce(enqueue_run.delay, make_interval(secs => def.delay_seconds));
        END IF;
        IF enqueue_run.expires_at IS NULL THEN
            enqueue_run.expires_in := coalesce(enqueue_run.expires_in, make_interval(secs => def.expires_in_seconds));
        END IF;
        enqueue_run.tenant := coalesce(nullif(enqueue_run.tenant, ''), def.tenant, '');
        IF enqueue_run.key IS NULL AND jsonb_typeof(def.payload) = 'object' THEN
            enqueue_run.key := rota.run_key(enqueue_run.job, def.key, def.payload, def.payload_schema);
        END IF;
    END IF;
    -- Most enqueues have no options, and a small payload or one that was looked at. Each expression costs about a
    -- microsecond in each transaction, so that they are asked for in one.
    IF num_nonnulls(enqueue_run.queue, enqueue_run.priority, enqueue_run.run_at, enqueue_run.delay,
            enqueue_run.expires_at, enqueue_run.key_seconds, enqueue_run.max_attempts, enqueue_run.timeout_seconds,
            enqueue_run.backoff, enqueue_run.tags, enqueue_run.metadata, enqueue_run.expires_in) > 0
       OR (enqueue_run.on_conflict = 'return' AND enqueue_run.tenant = ''
           AND jsonb_typeof(def.payload) = 'object'
           AND pg_column_size(def.payload) <= def.payload_bytes
           AND (def.validated_by IS NOT NULL OR octet_length(def.payload::text) <= 200)) IS NOT TRUE
    THEN
        PERFORM rota.check_options(enqueue_run.job, def.payload, def.payload_bytes, enqueue_run.priority,
            enqueue_run.max_attempts, enqueue_run.timeout_seconds, enqueue_run.queue, enqueue_run.metadata,
            enqueue_run.backoff, enqueue_run.run_at, enqueue_run.delay, enqueue_run.expires_at, enqueue_run.key_seconds,
            enqueue_run.tags, enqueue_run.tenant, def.validated_by IS NOT NULL, enqueue_run.expires_in);
        IF enqueue_run.run_at IS NOT NULL AND enqueue_run.delay IS NOT NULL THEN
            RAISE EXCEPTION 'run_at and delay cannot be combined' USING ERRCODE = 'RO002';
        ELSIF enqueue_run.on_conflict NOT IN ('return', 'raise', 'replace', 'debounce', 'throttle') THEN
            RAISE EXCEPTION 'on_conflict must be one of return, raise, replace, debounce, throttle, not "%"',
                enqueue_run.on_conflict USING ERRCODE = 'RO002';
        ELSIF enqueue_run.key IS NULL AND enqueue_run.on_conflict IN ('raise', 'replace')
            OR enqueue_run.key IS NULL AND enqueue_run.key_seconds IS NOT NULL THEN
            RAISE EXCEPTION '% needs a key, and the run of job "%" has none',
                CASE WHEN enqueue_run.key_seconds IS NULL THEN 'on_conflict' ELSE 'key_seconds' END, enqueue_run.job
                USING ERRCODE = 'RO002', HINT = 'Pass a key, or declare one for the job.';
        ELSIF enqueue_run.on_conflict = 'debounce' AND (enqueue_run.key IS NULL OR enqueue_run.delay IS NULL) THEN
            RAISE EXCEPTION 'debounce needs a key and a delay (the quiet period)' USING ERRCODE = 'RO002';
        ELSIF enqueue_run.on_conflict = 'throttle' AND (enqueue_run.key IS NULL OR enqueue_run.key_seconds IS NULL) THEN
            RAISE EXCEPTION 'throttle needs a key and key_seconds (the period)' USING ERRCODE = 'RO002';
        END IF;
        is_burst := enqueue_run.on_conflict IN ('debounce', 'throttle');
    END IF;
    at := coalesce(enqueue_run.run_at, def.clock + enqueue_run.delay, def.clock);
    enqueue_run.queue := coalesce(enqueue_run.queue, def.queue);
    IF def.has_limits THEN
        keys := rota.limit_keys_of(enqueue_run.job, enqueue_run.queue, enqueue_run.tenant, NULL, def.payload);
    END IF;
    run_id := nextval('rota.run_ids');
    is_duplicate := false;

    IF enqueue_run.key IS NOT NULL THEN
        holder := rota.take_key(enqueue_run.tenant, enqueue_run.job, enqueue_run.key, run_id);
        IF enqueue_run.on_conflict = 'debounce' THEN
            -- Whoever else is of the burst waits here. Nobody waits longer than the longest wait after the first.
            SELECT k.run_id INTO holder FROM rota.keys k
            WHERE k.tenant = enqueue_run.tenant AND k.job = enqueue_run.job AND k.key = enqueue_run.key FOR UPDATE;
            latest := rota.after(coalesce((SELECT o.created_at FROM rota.open_runs o
                WHERE o.id = holder AND o.state = 'scheduled'), def.clock),
                                 coalesce(enqueue_run.key_seconds, 3153600000));
            at := least(at, latest);
        END IF;
        IF holder <> run_id THEN
            IF enqueue_run.on_conflict = 'raise' THEN
                RAISE EXCEPTION 'key "%" of job "%" is held by run %', enqueue_run.key, enqueue_run.job, holder
                    USING ERRCODE = 'RO003', DETAIL = holder::text;
            ELSIF enqueue_run.on_conflict IN ('replace', 'debounce') THEN
                -- SKIP LOCKED: a row that a worker is taking right now counts as running.
                UPDATE rota.open_runs o
                SET payload = def.payload, validated_by = def.validated_by, queue = enqueue_run.queue,
                    priority = coalesce(enqueue_run.priority, def.priority), run_at = at,
                    state = CASE WHEN at > def.clock THEN 'scheduled' ELSE 'queued' END,
                    held_by = CASE WHEN keys IS NOT NULL AND at <= def.clock THEN 'limit' END,
                    is_capped = (enqueue_run.queue = ANY (def.capped_queues)), limit_keys = keys, limit_key = keys[1],
                    slots = NULL,
                    seq = nextval('rota.run_ids'), enqueued_at = clock_timestamp(),
                    expires_at = coalesce(enqueue_run.expires_at, at + enqueue_run.expires_in),
                    max_attempts = greatest(coalesce(enqueue_run.max_attempts, def.max_attempts), o.attempts_used + 1),
                    timeout_seconds = enqueue_run.timeout_seconds, backoff = enqueue_run.backoff,
                    tags = def.tags, metadata = def.metadata, key_seconds = CASE WHEN NOT is_burst
                        THEN enqueue_run.key_seconds END
                FROM (SELECT w.id, w.slots FROM rota.open_runs w
                      WHERE w.id = holder AND (w.state = 'scheduled' AND (w.attempt = 0 OR NOT is_burst)
                          OR w.state = 'queued' AND NOT is_burst) AND NOT w.is_suspect
                      FOR UPDATE SKIP LOCKED) AS was
                WHERE o.id = was.id
                RETURNING was.slots INTO freed;
                o_found := FOUND;
                IF freed IS NOT NULL THEN
                    PERFORM rota.release_slots(freed);
                END IF;
                IF o_found AND at > def.clock THEN
                    PERFORM rota.wake_later(at - def.clock);
                ELSIF o_found AND keys IS NOT NULL THEN
                    PERFORM rota.wake_admission();
                ELSIF o_found THEN
                    PERFORM rota.wake(ARRAY[enqueue_run.queue]);
                END IF;
            END IF;
            IF enqueue_run.on_conflict <> 'debounce' OR o_found THEN
                run_id := holder;
                is_duplicate := true;
                RETURN;
            END IF;
            -- The last burst has its run already: this one begins another.
            at := least(def.clock + enqueue_run.delay,
                rota.after(def.clock, coalesce(enqueue_run.key_seconds, 3153600000)));
        END IF;
        IF is_burst THEN
            -- The key is the burst's, and not the run's: it holds for its time, whenever the run ends.
            UPDATE rota.keys k SET run_id = enqueue_run.run_id,
                expires_at = CASE WHEN enqueue_run.on_conflict = 'throttle'
                    THEN rota.after(def.clock, enqueue_run.key_seconds) ELSE at + interval '1 day' END
            WHERE k.tenant = enqueue_run.tenant AND k.job = enqueue_run.job AND k.key = enqueue_run.key;
            enqueue_run.key := NULL;
            enqueue_run.key_seconds := NULL;
        END IF;
    END IF;

    IF enqueue_run.queue = ANY (def.capped_queues) THEN
        capped := rota.check_cap(enqueue_run.queue);
    END IF;
    IF enqueue_run.tenant <> '' THEN
        PERFORM rota.check_quota(enqueue_run.tenant, 1, octet_length(def.payload::text));
    END IF;
    -- clock_timestamp(): the caller's transaction may be minutes old.
    INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, queue, job, tenant, payload, priority,
        max_attempts, expires_at, timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by,
        validated_by, limit_keys, limit_key, held_by, is_capped)
    VALUES (run_id, run_id, def.clock, clock_timestamp(), at, CASE WHEN at > def.clock THEN 'scheduled'
        ELSE 'queued' END, enqueue_run.queue, enqueue_run.job, enqueue_run.tenant, def.payload,
        coalesce(enqueue_run.priority, def.priority), coalesce(enqueue_run.max_attempts, def.max_attempts),
        coalesce(enqueue_run.expires_at, at + enqueue_run.expires_in), enqueue_run.timeout_seconds, enqueue_run.key,
        enqueue_run.key_seconds, enqueue_run.backoff, def.tags, def.metadata, def.triggered_by, def.validated_by, keys,
        keys[1],
        CASE WHEN keys IS NOT NULL AND at <= def.clock THEN 'limit' END, capped);

    IF at > def.clock THEN
        PERFORM rota.wake_later(at - def.clock);
    ELSIF keys IS NOT NULL THEN
        PERFORM rota.wake_admission();
    ELSE
        PERFORM rota.wake(ARRAY[enqueue_run.queue]);
    END IF;
END $$;

-- Gets or creates the holder of a key, never locking one that exists: the batch that ends its run would wait for the
-- caller's whole transaction. A new snapshot for every statement makes the loop see a holder that ended in between.
-- A run that is over holds its key no longer than one that ended.
-- Called by: enqueue_run, retry_run.
CREATE FUNCTION rota.take_key(for_tenant text, for_job text, wanted text, taker bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    holder record;
BEGIN
    IF wanted = '' OR length(wanted) > 400 THEN
        RAISE EXCEPTION 'the key of job "%" must have 1 to 400 characters', for_job USING ERRCODE = 'RO002';
    END IF;
    LOOP
        INSERT INTO rota.keys (tenant, job, key, run_id) VALUES (for_tenant, for_job, wanted, taker)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN taker;
        END IF;
        SELECT k.run_id, k.expires_at INTO holder FROM rota.keys k
        WHERE k.tenant = for_tenant AND k.job = for_job AND k.key = wanted;
        IF holder.expires_at <= rota.now() THEN
            DELETE FROM rota.keys k
            WHERE k.tenant = for_tenant AND k.job = for_job AND k.key = wanted AND k.run_id = holder.run_id;
        ELSIF holder.run_id IS NOT NULL AND NOT rota.settle_expired(holder.run_id) THEN
            PERFORM nextval('rota.duplicates');
            RETURN holder.run_id;
        END IF;
    END LOOP;
END $$;

-- One enqueue without options, or with a queue or a priority only: what enqueue_run does for it, in fewer
-- expressions, because PL/pgSQL prepares each of them anew in each transaction. Anything unusual, limits and defaults
-- of the job among it, is left to enqueue_run. The id is not the last of the session where a run has the key already.
-- Called by: sql/runs/enqueue_plain.sql.
CREATE FUNCTION rota.enqueue_plain(
    job text, payload jsonb, queue text DEFAULT NULL, priority integer DEFAULT NULL, triggered_by jsonb DEFAULT NULL,
    validated_by integer DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    made record;
BEGIN
    SELECT nextval('rota.run_ids') AS id, statement_timestamp() + s.clock_offset AS clock,
        coalesce(enqueue_plain.queue, j.queue) AS queue, coalesce(enqueue_plain.priority, j.priority) AS priority,
        j.max_attempts, nullif(j.tags, '{}') AS tags, nullif(j.metadata, '{}') AS metadata,
        rota.told_by(enqueue_plain.triggered_by) AS triggered_by INTO made
    FROM rota.jobs j, rota.settings s
    WHERE j.name = enqueue_plain.job AND jsonb_typeof(enqueue_plain.payload) = 'object'
      AND num_nonnulls(j.delay_seconds, j.expires_in_seconds, j.key, j.tenant) = 0
      AND pg_column_size(enqueue_plain.payload) <= s.payload_bytes
      AND (enqueue_plain.validated_by IS NOT NULL OR octet_length(enqueue_plain.payload::text) <= 200)
      AND coalesce(enqueue_plain.queue, j.queue) <> ALL (s.capped_queues)
      AND NOT (s.has_limits AND EXISTS (SELECT FROM rota.limits l
          WHERE l.jobs IS NULL OR enqueue_plain.job = ANY (l.jobs)))
      AND (enqueue_plain.priority BETWEEN 0 AND 9) IS NOT FALSE
      AND (length(enqueue_plain.queue) BETWEEN 1 AND 100) IS NOT FALSE;
    IF NOT FOUND THEN
        RETURN (SELECT r.run_id FROM rota.enqueue_run(enqueue_plain.job, enqueue_plain.payload, enqueue_plain.queue,
            enqueue_plain.priority, triggered_by => enqueue_plain.triggered_by,
            validated_by => enqueue_plain.validated_by) r);
    END IF;
    -- clock_timestamp(): the caller's transaction may be minutes old.
    INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, queue, job, payload, priority,
        max_attempts, tags, metadata, triggered_by, validated_by)
    VALUES (made.id, made.id, made.clock, clock_timestamp(), made.clock, 'queued', made.queue, enqueue_plain.job,
        enqueue_plain.payload, made.priority, made.max_attempts, made.tags, made.metadata, made.triggered_by,
        enqueue_plain.validated_by);
    -- Where nobody waits there is nobody to choose from.
    IF EXISTS (SELECT FROM rota.workers w WHERE w.is_waiting)
        OR current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM rota.wake(ARRAY[made.queue]);
    END IF;
    RETURN made.id;
END $$;

-- Many runs of one job with one set of options: what bulk callers nearly always want. One look at the job and one
-- check of the options serve all of them, so that a row costs little more than its insert. Runs under limits wait
-- for their admission. Keys are enqueue_many's: each of them is a get-or-create of its own.
-- Called by: enqueue_uniform, users.
CREATE FUNCTION rota.enqueue_batch(
    job text,
    payloads jsonb,
    queue text DEFAULT NULL,
    priority integer DEFAULT NULL,
    run_at timestamptz DEFAULT NULL,
    delay interval DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL,
    tenant text DEFAULT '',
    max_attempts integer DEFAULT NULL,
    timeout_seconds double precision DEFAULT NULL,
    backoff jsonb DEFAULT NULL,
    tags text[] DEFAULT NULL,
    metadata jsonb DEFAULT NULL,
    triggered_by jsonb DEFAULT rota.sql_trigger(),
    validated_by integer DEFAULT NULL,
    expires_in interval DEFAULT NULL
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    def   record;
    at    timestamptz;
    ids   bigint[];
    lane  text;
    capped boolean := false;
BEGIN
    SELECT j.queue, j.priority, j.max_attempts, s.payload_bytes, s.capped_queues, j.key, j.default_payload,
        make_interval(secs => j.delay_seconds) AS delay, make_interval(secs => j.expires_in_seconds) AS expires_in,
        coalesce(nullif(enqueue_batch.tenant, ''), j.tenant, '') AS tenant,
        coalesce(enqueue_batch.tags, nullif(j.tags, '{}')) AS tags,
        CASE jsonb_typeof(enqueue_batch.metadata) WHEN 'object' THEN j.metadata || enqueue_batch.metadata
            ELSE nullif(j.metadata, '{}') END AS metadata,
        rota.told_by(enqueue_batch.triggered_by) AS triggered_by, statement_timestamp() + s.clock_offset AS clock,
        s.has_limits AND EXISTS (SELECT FROM rota.limits l
            WHERE l.jobs IS NULL OR enqueue_batch.job = ANY (l.jobs)) AS has_limits INTO def
    FROM rota.jobs j, rota.settings s WHERE j.name = enqueue_batch.job;
    IF NOT FOUND THEN
        PERFORM rota.unknown_job(coalesce(enqueue_batch.job, '(NULL)'));
    ELSIF jsonb_typeof(payloads) IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION 'the payloads of job "%" must be a JSON array of objects', job USING ERRCODE = 'RO002';
    ELSIF enqueue_batch.run_at IS NOT NULL AND enqueue_batch.delay IS NOT NULL THEN
        RAISE EXCEPTION 'run_at and delay cannot be combined' USING ERRCODE = 'RO002';
    ELSIF def.key IS NOT NULL THEN
        RETURN (SELECT array_agg(r.run_id ORDER BY r.n) FROM rota.enqueue_uniform(enqueue_batch.job, payloads,
            enqueue_batch.queue, enqueue_batch.priority, enqueue_batch.run_at, enqueue_batch.delay,
            enqueue_batch.expires_at, enqueue_batch.tenant, enqueue_batch.max_attempts, enqueue_batch.timeout_seconds,
            enqueue_batch.backoff, enqueue_batch.tags, enqueue_batch.metadata, enqueue_batch.triggered_by,
            enqueue_batch.validated_by, enqueue_batch.expires_in) WITH ORDINALITY AS r (run_id, is_duplicate, n));
    END IF;
    PERFORM rota.check_options(enqueue_batch.job, '{}', def.payload_bytes, enqueue_batch.priority,
        enqueue_batch.max_attempts, enqueue_batch.timeout_seconds, enqueue_batch.queue, enqueue_batch.metadata,
        enqueue_batch.backoff, enqueue_batch.run_at, enqueue_batch.delay, enqueue_batch.expires_at, NULL,
        enqueue_batch.tags, enqueue_batch.tenant, expires_in => enqueue_batch.expires_in);
    at := coalesce(enqueue_batch.run_at, def.clock + coalesce(enqueue_batch.delay, def.delay), def.clock);
    enqueue_batch.expires_at := coalesce(enqueue_batch.expires_at, at + coalesce(enqueue_batch.expires_in,
        def.expires_in));
    lane := coalesce(enqueue_batch.queue, def.queue);
    IF lane = ANY (def.capped_queues) THEN
        capped := rota.check_cap(lane, jsonb_array_length(payloads));
    END IF;
    IF def.tenant <> '' THEN
        PERFORM rota.check_quota(def.tenant, jsonb_array_length(payloads), octet_length(payloads::text));
    END IF;

    WITH inserted AS (
        INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, queue, job, tenant, payload,
            priority, max_attempts, expires_at, timeout_seconds, backoff, tags, metadata, triggered_by, validated_by,
            limit_keys, limit_key, held_by, is_capped)
        SELECT id, id, def.clock, clock_timestamp(), at, CASE WHEN at > def.clock THEN 'scheduled' ELSE 'queued' END,
            lane, enqueue_batch.job, def.tenant, payload,
            coalesce(enqueue_batch.priority, def.priority), coalesce(enqueue_batch.max_attempts, def.max_attempts),
            enqueue_batch.expires_at, enqueue_batch.timeout_seconds, enqueue_batch.backoff, def.tags,
            def.metadata, def.triggered_by, CASE WHEN NOT is_default THEN enqueue_batch.validated_by END,
            keys, keys[1], CASE WHEN keys IS NOT NULL AND at <= def.clock THEN 'limit' END, capped
        FROM (SELECT w.*, CASE WHEN def.has_limits
            THEN rota.limit_keys_of(enqueue_batch.job, lane, def.tenant, NULL, w.payload) END AS keys FROM (
            SELECT nextval('rota.run_ids') AS id, jsonb_typeof(p.value) = 'null' AS is_default,
                   CASE WHEN jsonb_typeof(p.value) = 'object' AND pg_column_size(p.value) <= def.payload_bytes
                             AND (enqueue_batch.validated_by IS NOT NULL OR rota.is_plain_json(p.value)) THEN p.value
                        WHEN jsonb_typeof(p.value) = 'null' THEN coalesce(def.default_payload, '{}')
                        ELSE rota.refuse_payload(enqueue_batch.job, p.value, def.payload_bytes) END AS payload
            FROM jsonb_array_elements(payloads) AS p (value)
        ) w) wanted
        RETURNING id
    )
    SELECT coalesce(array_agg(id), '{}') INTO ids FROM inserted;

    IF ids = '{}' THEN
        RETURN ids;
    ELSIF at > def.clock THEN
        PERFORM rota.wake_later(at - def.clock);
    ELSE
        IF def.has_limits THEN
            PERFORM rota.wake_admission();
        END IF;
        PERFORM rota.wake(ARRAY[lane]);
    END IF;
    RETURN ids;
END $$;
COMMENT ON FUNCTION rota.enqueue_batch
    IS 'Enqueues many runs of one job, one for each payload, and returns their ids in that order.';

-- enqueue_batch for programs: says also which of the runs were there already, as runs of a job with a key may be. Each
-- of those keys is a get-or-create of its own, which enqueue_many does.
-- Called by: enqueue_batch, sql/runs/enqueue_batch.sql.
CREATE FUNCTION rota.enqueue_uniform(
    job text, payloads jsonb, queue text, priority integer, run_at timestamptz, delay interval, expires_at timestamptz,
    tenant text, max_attempts integer, timeout_seconds double precision, backoff jsonb, tags text[], metadata jsonb,
    triggered_by jsonb, validated_by integer, expires_in interval
) RETURNS TABLE (run_id bigint, is_duplicate boolean) LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    places integer[];
BEGIN
    IF NOT EXISTS (SELECT FROM rota.jobs j WHERE j.name = enqueue_uniform.job AND j.key IS NOT NULL)
        OR jsonb_typeof(enqueue_uniform.payloads) IS DISTINCT FROM 'array' THEN
        RETURN QUERY
        SELECT id, false FROM unnest(rota.enqueue_batch(enqueue_uniform.job, enqueue_uniform.payloads,
            enqueue_uniform.queue, enqueue_uniform.priority, enqueue_uniform.run_at, enqueue_uniform.delay,
            enqueue_uniform.expires_at, enqueue_uniform.tenant, enqueue_uniform.max_attempts,
            enqueue_uniform.timeout_seconds, enqueue_uniform.backoff, enqueue_uniform.tags, enqueue_uniform.metadata,
            enqueue_uniform.triggered_by, enqueue_uniform.validated_by, enqueue_uniform.expires_in)) id;
        RETURN;
    END IF;
    places := ARRAY[jsonb_array_length(enqueue_uniform.payloads)];
    RETURN QUERY
    SELECT r.run_id, r.is_duplicate FROM rota.enqueue_many(jobs => ARRAY[enqueue_uniform.job],
        payloads => ARRAY(SELECT v.value FROM jsonb_array_elements(enqueue_uniform.payloads)
            WITH ORDINALITY AS v (value, n) ORDER BY v.n),
        queues => array_fill(enqueue_uniform.queue, places), priorities => array_fill(enqueue_uniform.priority, places),
        run_ats => array_fill(enqueue_uniform.run_at, places), delays => array_fill(enqueue_uniform.delay, places),
        expires_ats => array_fill(enqueue_uniform.expires_at, places),
        tenants => array_fill(enqueue_uniform.tenant, places),
        max_attempts => array_fill(enqueue_uniform.max_attempts, places),
        timeouts => array_fill(enqueue_uniform.timeout_seconds, places),
        backoffs => array_fill(enqueue_uniform.backoff, places),
        tags => array_fill(to_jsonb(enqueue_uniform.tags), places),
        metadatas => array_fill(enqueue_uniform.metadata, places), triggered_by => enqueue_uniform.triggered_by,
        validated_by => array_fill(enqueue_uniform.validated_by, places),
        expires_ins => array_fill(enqueue_uniform.expires_in, places)) r;
END $$;

-- Many runs at once: one statement for those without a key; those with one take the long way in the order of their
-- keys, as the finish does, so that two bulk callers cannot deadlock. Runs under limits wait for their admission. An
-- array that is NULL or too short means the default. jobs of length 1 holds for all.
-- Called by: emit_many, enqueue_uniform, sql/runs/enqueue_many.sql, users.
CREATE FUNCTION rota.enqueue_many(
    jobs text[],
    payloads jsonb[],
    queues text[] DEFAULT NULL,
    priorities integer[] DEFAULT NULL,
    run_ats timestamptz[] DEFAULT NULL,
    delays interval[] DEFAULT NULL,
    expires_ats timestamptz[] DEFAULT NULL,
    keys text[] DEFAULT NULL,
    key_seconds double precision[] DEFAULT NULL,
    on_conflicts text[] DEFAULT NULL,
    tenants text[] DEFAULT NULL,
    max_attempts integer[] DEFAULT NULL,
    timeouts double precision[] DEFAULT NULL,
    backoffs jsonb[] DEFAULT NULL,
    tags jsonb[] DEFAULT NULL,
    metadatas jsonb[] DEFAULT NULL,
    triggered_by jsonb DEFAULT rota.sql_trigger(),
    validated_by integer[] DEFAULT NULL,
    expires_ins interval[] DEFAULT NULL
) RETURNS TABLE (run_id bigint, is_duplicate boolean) LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    wanted  record;
    made    record;
    touched text[];
    soonest timestamptz;
    clock   timestamptz := rota.now();
    limited boolean := (SELECT s.has_limits FROM rota.settings s);
    capped  text[] := (SELECT s.capped_queues FROM rota.settings s);
    ids     bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(payloads)]);
    twins   boolean[] := array_fill(false, ARRAY[cardinality(payloads)]);
BEGIN
    IF EXISTS (SELECT FROM unnest(run_ats, delays) AS w (run_at, delay)
        WHERE w.run_at IS NOT NULL AND w.delay IS NOT NULL) THEN
        RAISE EXCEPTION 'run_at and delay cannot be combined' USING ERRCODE = 'RO002';
    END IF;
    IF EXISTS (SELECT FROM rota.jobs j WHERE j.name = ANY (jobs)
        AND num_nonnulls(j.delay_seconds, j.expires_in_seconds, j.key, j.tenant) > 0) THEN
        -- As enqueue_run takes them from the job.
        SELECT array_agg(coalesce(w.key, CASE WHEN j.key IS NOT NULL AND p.kind = 'object'
                   THEN rota.run_key(j.name, j.key, p.doc, j.payload_schema) END) ORDER BY w.n),
               array_agg(coalesce(nullif(w.tenant, ''), j.tenant, '') ORDER BY w.n),
               array_agg(CASE WHEN w.run_at IS NULL THEN coalesce(w.delay, make_interval(secs => j.delay_seconds))
                   ELSE w.delay END ORDER BY w.n),
               array_agg(CASE WHEN w.expires_at IS NULL
                   THEN coalesce(w.expires_in, make_interval(secs => j.expires_in_seconds))
                   ELSE w.expires_in END ORDER BY w.n)
        INTO keys, tenants, delays, expires_ins
        FROM unnest(payloads, CASE WHEN cardinality(jobs) > 1 THEN jobs END, run_ats, delays, expires_ats, keys,
            tenants, expires_ins) WITH ORDINALITY AS w (payload, job, run_at, delay, expires_at, key, tenant,
            expires_in, n)
        LEFT JOIN rota.jobs j ON j.name = coalesce(w.job, jobs[1])
        CROSS JOIN LATERAL (SELECT d.doc, jsonb_typeof(d.doc) AS kind FROM (SELECT CASE jsonb_typeof(w.payload)
            WHEN 'null' THEN coalesce(j.default_payload, '{}') ELSE w.payload END AS doc) d) p
        WHERE w.n <= cardinality(payloads);
    END IF;
    IF EXISTS (SELECT FROM unnest(keys, on_conflicts, enqueue_many.key_seconds) AS w (key, on_conflict, seconds)
        WHERE w.key IS NULL AND (w.on_conflict <> 'return' OR w.seconds IS NOT NULL)) THEN
        RAISE EXCEPTION 'on_conflict and key_seconds require a key, but one of the runs has none'
            USING ERRCODE = 'RO002', HINT = 'Pass its key, or declare one for the job.';
    END IF;
    FOR wanted IN
        SELECT w.* FROM unnest(keys, tenants, payloads) WITH ORDINALITY AS w (key, tenant, payload, n)
        WHERE w.key IS NOT NULL ORDER BY coalesce(w.tenant, ''), jobs[least(w.n, cardinality(jobs))], w.key COLLATE "C",
            w.n
    LOOP
        SELECT * INTO made FROM rota.enqueue_run(
            job => jobs[least(wanted.n, cardinality(jobs))], payload => wanted.payload, queue => queues[wanted.n],
            priority => priorities[wanted.n], run_at => run_ats[wanted.n], delay => delays[wanted.n],
            expires_at => expires_ats[wanted.n], key => wanted.key, key_seconds => key_seconds[wanted.n],
            on_conflict => coalesce(on_conflicts[wanted.n], 'return'), tenant => coalesce(wanted.tenant, ''),
            max_attempts => max_attempts[wanted.n], timeout_seconds => timeouts[wanted.n],
            backoff => backoffs[wanted.n], tags => CASE WHEN tags[wanted.n] IS NOT NULL
                THEN ARRAY(SELECT jsonb_array_elements_text(tags[wanted.n])) END, metadata => metadatas[wanted.n],
            triggered_by => enqueue_many.triggered_by, validated_by => validated_by[wanted.n],
            expires_in => expires_ins[wanted.n]);
        ids[wanted.n] := made.run_id;
        twins[wanted.n] := made.is_duplicate;
    END LOOP;

    IF capped <> '{}' THEN
        PERFORM rota.check_cap(q.lane, q.runs)
        FROM (SELECT coalesce(w.queue, j.queue) AS lane, count(*) AS runs
              FROM unnest(payloads, CASE WHEN cardinality(jobs) > 1 THEN jobs END, queues, keys) AS w (payload, job,
                  queue, key)
              JOIN rota.jobs j ON j.name = coalesce(w.job, jobs[1]) WHERE w.key IS NULL GROUP BY 1 ORDER BY 1) q
                  WHERE q.lane = ANY (capped);
    END IF;
    IF tenants IS NOT NULL THEN
        PERFORM rota.check_quota(q.tenant, q.runs, q.bytes)
        FROM (SELECT w.tenant, count(*) AS runs, sum(octet_length(w.payload::text)) AS bytes
            FROM unnest(tenants, payloads, keys) AS w (tenant, payload, key)
              WHERE w.tenant <> '' AND w.key IS NULL AND w.payload IS NOT NULL GROUP BY w.tenant ORDER BY w.tenant) q;
    END IF;
    WITH wanted AS MATERIALIZED (
        SELECT w.*, d.doc, coalesce(t.tag_list, nullif(j.tags, '{}')) AS all_tags,
               CASE jsonb_typeof(w.metadata) WHEN 'object' THEN j.metadata || w.metadata
                   ELSE nullif(j.metadata, '{}') END AS all_metadata,
               coalesce(w.job, jobs[1]) AS job_name, nextval('rota.run_ids') AS id,
               j.queue AS job_queue, j.priority AS job_priority, j.max_attempts AS job_max_attempts,
               CASE WHEN j.name IS NULL THEN rota.unknown_job(coalesce(w.job, jobs[1], '(NULL)')) END,
               rota.check_options(j.name, d.doc, s.payload_bytes, w.priority, w.max_attempts, w.timeout, w.queue,
                   w.metadata, w.backoff,
                                  w.run_at, w.delay, w.expires_at, NULL, t.tag_list, w.tenant,
                                  w.validated_by IS NOT NULL, w.expires_in),
               coalesce(w.run_at, clock + w.delay, clock) AS at
        FROM unnest(payloads, CASE WHEN cardinality(jobs) > 1 THEN jobs END, queues, priorities, run_ats, delays,
            expires_ats,
                    keys, tenants, enqueue_many.max_attempts, timeouts, backoffs, enqueue_many.tags, metadatas,
                    enqueue_many.validated_by, expires_ins)
             WITH ORDINALITY AS w (payload, job, queue, priority, run_at, delay, expires_at, key, tenant, max_attempts,
                                   timeout, backoff, tags, metadata, validated_by, expires_in, n)
        CROSS JOIN rota.settings s
        CROSS JOIN LATERAL (SELECT CASE WHEN w.tags IS NOT NULL
            THEN ARRAY(SELECT jsonb_array_elements_text(w.tags)) END AS tag_list) t
        LEFT JOIN rota.jobs j ON j.name = coalesce(w.job, jobs[1])
        CROSS JOIN LATERAL (SELECT CASE jsonb_typeof(w.payload) WHEN 'null' THEN coalesce(j.default_payload, '{}')
            ELSE w.payload END AS doc) d
        WHERE w.key IS NULL ORDER BY w.n
    ), inserted AS (
        INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, queue, job, tenant, payload,
            priority, max_attempts, expires_at, timeout_seconds, backoff, tags, metadata, triggered_by, validated_by,
            limit_keys, limit_key, held_by, is_capped)
        SELECT id, id, clock, clock_timestamp(), at, CASE WHEN at > clock THEN 'scheduled' ELSE 'queued' END,
            coalesce(queue, job_queue), job_name, coalesce(tenant, ''), doc, coalesce(priority, job_priority),
            coalesce(max_attempts, job_max_attempts), coalesce(expires_at, at + expires_in), timeout, backoff,
            all_tags, all_metadata,
            rota.told_by(enqueue_many.triggered_by), CASE WHEN jsonb_typeof(payload) <> 'null' THEN validated_by END,
            keys, keys[1], CASE WHEN keys IS NOT NULL AND at <= clock
            THEN 'limit' END, coalesce(queue, job_queue) = ANY (capped)
        FROM (SELECT w.*, CASE WHEN limited THEN rota.limit_keys_of(w.job_name, coalesce(w.queue, w.job_queue),
            coalesce(w.tenant, ''), NULL, w.doc) END AS keys
              FROM wanted w) w ORDER BY n
        RETURNING queue, state, run_at
    )
    SELECT CASE WHEN keys IS NULL THEN (SELECT array_agg(id ORDER BY n) FROM wanted)
                ELSE (SELECT array_agg(coalesce(w.id, k.id) ORDER BY k.n)
                      FROM unnest(ids) WITH ORDINALITY AS k (id, n) LEFT JOIN wanted w ON w.n = k.n) END,
           (SELECT array_agg(DISTINCT queue) FROM inserted WHERE state = 'queued'),
           (SELECT min(run_at) FROM inserted WHERE state = 'scheduled')
    INTO ids, touched, soonest;

    IF touched IS NOT NULL THEN
        IF limited THEN
            PERFORM rota.wake_admission();
        END IF;
        PERFORM rota.wake(touched);
    END IF;
    IF soonest IS NOT NULL THEN
        PERFORM rota.wake_later(soonest - clock);
    END IF;
    RETURN QUERY SELECT * FROM unnest(ids, twins);
END $$;

-- Refuses a payload (RO018) and options (RO002) that no run can have, in words. Every way in asks it: enqueue_run,
-- enqueue_batch, enqueue_many. is_checked: the payload was looked at already. No attempt can keep a timeout shorter
-- than a millisecond: it would only ever time out.
-- Called by: enqueue_batch, enqueue_many, enqueue_run, refuse_payload, retry_run.
CREATE FUNCTION rota.check_options(
    job text, payload jsonb, payload_bytes integer, priority integer, max_attempts integer,
    timeout_seconds double precision, queue text, metadata jsonb, backoff jsonb,
    run_at timestamptz DEFAULT NULL, delay interval DEFAULT NULL, expires_at timestamptz DEFAULT NULL,
    key_seconds double precision DEFAULT NULL, tags text[] DEFAULT NULL, tenant text DEFAULT NULL,
    is_checked boolean DEFAULT false, expires_in interval DEFAULT NULL
) RETURNS void LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
DECLARE
    fault text;
    hint  text := '';
    code  text := 'RO002';
BEGIN
    IF payload IS NULL OR jsonb_typeof(payload) <> 'object' THEN
        fault := format('the payload of job "%s" must be a JSON object of its arguments, not %s', job,
            coalesce(jsonb_typeof(payload), 'NULL'));
        hint := 'Write for example {"user_id": 7}.';
        code := 'RO018';
    ELSIF pg_column_size(payload) > payload_bytes THEN
        fault := format('the payload of job "%s" has %s bytes; the limit is %s', job, pg_column_size(payload),
            payload_bytes);
        hint := 'Store the data elsewhere and enqueue a reference to it, or raise runs.payload_bytes.';
        code := 'RO018';
    ELSIF NOT (is_checked OR rota.is_plain_json(payload)) OR NOT rota.is_plain_json(metadata)
        OR NOT rota.is_plain_json(backoff) THEN
        fault := format(
            'the %s of job "%s" is nested deeper than 100 levels, or contains a number that is too large',
            CASE WHEN NOT (is_checked OR rota.is_plain_json(payload)) THEN 'payload'
                WHEN NOT rota.is_plain_json(metadata) THEN 'metadata' ELSE 'backoff' END, job);
        hint := 'The largest number is 1.7976931348623157e308; pass larger ones as strings.';
        code := CASE WHEN is_checked OR rota.is_plain_json(payload) THEN code ELSE 'RO018' END;
    ELSIF priority NOT BETWEEN 0 AND 9 THEN
        fault := format('priority %s of job "%s" is not between 0 (first) and 9 (last)', priority, job);
    ELSIF max_attempts NOT BETWEEN 1 AND 100 THEN
        fault := format('max_attempts %s of job "%s" is not between 1 and 100', max_attempts, job);
    ELSIF timeout_seconds < 0.001 THEN
        fault := format('timeout_seconds %s of job "%s" is less than 0.001 (a millisecond)', timeout_seconds, job);
    ELSIF timeout_seconds > 31536000 THEN
        fault := format('timeout_seconds %s of job "%s" is more than 31536000 (a year)', timeout_seconds, job);
    ELSIF queue = '' OR length(queue) > 100 THEN
        fault := format('the queue name of job "%s" must have 1 to 100 characters', job);
    ELSIF jsonb_typeof(metadata) <> 'object' OR jsonb_typeof(backoff) <> 'object' THEN
        fault := format('metadata and backoff of job "%s" must be JSON objects', job);
    ELSIF backoff IS NOT NULL AND rota.backoff_fault(backoff) IS NOT NULL THEN
        fault := format('job "%s": %s', job, rota.backoff_fault(backoff));
        hint := 'Use kind, base_seconds, factor (at least 1), cap_seconds and jitter_seconds (at least 0).';
    ELSIF NOT rota.is_instant(run_at) THEN
        fault := format('run_at %s of job "%s" is not in the years 1 to 9999 (0001-01-02 to 9999-12-30, UTC)', run_at,
            job);
    ELSIF NOT rota.is_instant(expires_at) THEN
        fault := format('expires_at %s of job "%s" is not in the years 1 to 9999 (0001-01-02 to 9999-12-30, UTC)',
            expires_at, job);
        hint := 'Omit it for a run that never expires.';
    ELSIF expires_at IS NOT NULL AND expires_in IS NOT NULL THEN
        fault := format('expires_at and expires_in of job "%s" cannot be combined', job);
    ELSIF (expires_in > interval '0' AND expires_in <= interval '100 years') IS FALSE THEN
        fault := format('expires_in %s of job "%s" is not between 0 and 100 years', expires_in, job);
        hint := 'Omit it for a run that never expires.';
    ELSIF delay NOT BETWEEN interval '0' AND interval '100 years' THEN
        fault := format('delay %s of job "%s" is not between 0 and 100 years', delay, job);
    ELSIF key_seconds < 0 OR key_seconds > 3153600000 AND key_seconds <> 'infinity' THEN
        fault := format('key_seconds %s of job "%s" is not between 0 and 3153600000 (100 years)', key_seconds, job);
        hint := 'Pass infinity to keep the key for ever.';
    ELSIF tags IS NOT NULL AND (NOT rota.is_plain_list(tags) OR EXISTS (SELECT FROM unnest(tags) t
        WHERE length(t) NOT BETWEEN 1 AND 100)) THEN
        fault := format('tags of job "%s" must be a list of strings of 1 to 100 characters', job);
    ELSIF tenant <> '' AND rota.tenant_fault(tenant) IS NOT NULL THEN
        fault := format('the tenant of job "%s" %s, not %s', job, rota.tenant_fault(tenant), to_json(left(tenant, 60)));
        hint := 'Use an ID or a short name, such as acme or customer-17.';
    ELSE
        RETURN;
    END IF;
    IF hint = '' THEN
        RAISE EXCEPTION '%', fault USING ERRCODE = code;
    END IF;
    RAISE EXCEPTION '%', fault USING ERRCODE = code, HINT = hint;
END $$;

-- What is wrong with a backoff; NULL: nothing.
-- Called by: check_options.
CREATE FUNCTION rota.backoff_fault(backoff jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
DECLARE
    part record;
BEGIN
    IF jsonb_typeof(backoff) <> 'object' THEN
        RETURN 'backoff must be a JSON object';
    ELSIF coalesce(backoff ->> 'kind', 'fixed') NOT IN ('exponential', 'linear', 'fixed') THEN
        RETURN format('backoff kind must be one of exponential, linear, fixed, not "%s"', backoff ->> 'kind');
    END IF;
    FOR part IN SELECT * FROM jsonb_each(backoff - 'kind') LOOP
        IF part.key NOT IN ('base_seconds', 'factor', 'cap_seconds', 'jitter_seconds')
            OR jsonb_typeof(part.value) <> 'number'
           OR part.value::numeric < (CASE part.key WHEN 'factor' THEN 1 ELSE 0 END) THEN
            RETURN format('backoff has an invalid option "%s": %s', part.key, left(part.value::text, 40));
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

-- Says what is wrong with a payload that a cheap look found wrong. It returns the type of a payload and stands in
-- its place, so that no planner leaves it out.
-- Called by: enqueue_batch.
CREATE FUNCTION rota.refuse_payload(job text, payload jsonb, payload_bytes integer) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
BEGIN
    PERFORM rota.check_options(job, payload, payload_bytes, NULL, NULL, NULL, NULL, NULL, NULL);
    RETURN payload;
END $$;

-- A time plus seconds, whatever their number: a sum outside the valid range is cut to a hundred years. A sum that
-- fails would keep a run from ending, and with it all runs that end in the same statement.
-- Called by: backfill_schedule, emit, end_waiting_runs, enqueue_run, finish_runs, note_schedule_end, requeue_runs,
-- why_running.
CREATE FUNCTION rota.after(at timestamptz, seconds double precision) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN seconds IS NULL THEN NULL
                WHEN seconds = 'infinity' THEN 'infinity'
                WHEN seconds = 'NaN' THEN at
                ELSE at + make_interval(secs => greatest(-3153600000, least(seconds, 3153600000))) END
$$;

-- Calls whoever waits for work in these queues: one of each kind (workers of the same jobs), and one more that
-- watches. Under READ COMMITTED a worker that is not waiting yet will look again by itself (see claim_runs); above
-- it, the caller's view of the flag is as old as its snapshot, so it calls everybody. Nothing is written, and the
-- index is used also where the server knows nothing of the table.
-- Called by: many.
CREATE FUNCTION rota.wake(queues text[], most integer DEFAULT 1) RETURNS void LANGUAGE plpgsql VOLATILE
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    called text;
    one    record;
    kind   bigint;
    lowest bigint;    -- kind to look at; a condition of the index, whatever is planned
    met    integer;   -- workers of this kind
    seen   integer;   -- rows of one look
BEGIN
    FOREACH called IN ARRAY queues LOOP
        IF current_setting('transaction_isolation') <> 'read committed' THEN
            PERFORM pg_notify('rota', 'queue ' || called);
            CONTINUE;
        END IF;
        lowest := -9223372036854775808;
        LOOP
            seen := 0;
            met := 0;
            FOR one IN
                SELECT w.job_set, w.channel, w.is_looking FROM rota.workers w
                WHERE w.is_waiting AND w.job_set >= lowest AND (w.queues = '{}' OR called = ANY (w.queues))
                  AND w.drain_requested_at IS NULL AND w.lease_expires_at > clock_timestamp()
                ORDER BY w.job_set, w.is_looking DESC, w.id LIMIT most + 2
            LOOP
                seen := seen + 1;
                IF seen = 1 THEN
                    kind := one.job_set;
                ELSIF one.job_set <> kind THEN
                    seen := most + 2;   -- there are more kinds
                    EXIT;
                END IF;
                met := met + 1;
                EXIT WHEN one.is_looking OR met > most + 1;
                IF one.channel IS NULL THEN
                    PERFORM pg_notify('rota', 'queue ' || called);
                ELSE
                    PERFORM pg_notify(one.channel, CASE WHEN met <= most THEN 'queue ' ELSE 'watch ' END || called);
                END IF;
            END LOOP;
            EXIT WHEN seen < most + 2 AND NOT coalesce(one.is_looking, false);
            EXIT WHEN seen = 0 OR kind = 9223372036854775807;
            lowest := kind + 1;
        END LOOP;
    END LOOP;
END $$;

-- Calls the promoters for a run that is due soon. Later than a minute needs no call: they look
-- at least that often. A moment ahead always calls: a busy worker does not say that it waits.
-- Called by: enqueue_batch, enqueue_many, enqueue_run, free_held_runs, note_queue_pause, requeue_runs, retry_run,
-- write_ticks.
CREATE FUNCTION rota.wake_later(until_due interval) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF until_due <= interval '2 seconds'
       OR until_due <= interval '1 minute' AND EXISTS (SELECT FROM rota.workers w WHERE w.is_waiting) THEN
        PERFORM pg_notify('rota', 'due');
    END IF;
END $$;

-- A worker says whether it waits for calls (is_waiting), whether it looks by itself (is_looking), and where it hears
-- them (channel). This is the state of the hand-shake that loses no wake-up: a worker sets its flag, commits, notes
-- the next transaction id, and claims again until every transaction before it has ended.
-- Called by: sql/workers/answer_calls.sql.
CREATE FUNCTION rota.answer_calls(for_worker bigint, waiting boolean, polling boolean, own_channel text) RETURNS void
LANGUAGE sql VOLATILE SET jit = off SET lock_timeout = '100ms' AS $$
    UPDATE rota.workers SET is_waiting = waiting, is_looking = waiting AND polling, channel = own_channel
    WHERE id = for_worker AND state IN ('live', 'stopping')
      AND (is_waiting, is_looking, channel) IS DISTINCT FROM (waiting, waiting AND polling, own_channel)
$$;

-- Trigger: a worker that stops waiting stops looking too, whichever statement says so.
CREATE FUNCTION rota.end_looking() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    NEW.is_looking := false;
    RETURN NEW;
END $$;
CREATE TRIGGER end_looking BEFORE UPDATE OF is_waiting ON rota.workers
    FOR EACH ROW WHEN (OLD.is_looking AND NOT NEW.is_waiting AND NEW.is_looking) EXECUTE FUNCTION rota.end_looking();

-- A worker has more than it can do: others are called in its place, two of them, so that a fleet is awake in a few
-- steps. Whether there is more is looked up in each queue, and not read from all that is open; what is held waits
-- for nobody who could be called.
-- Called by: sql/workers/pass_on.sql.
CREATE FUNCTION rota.pass_on(for_worker bigint, queues text[]) RETURNS void LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET lock_timeout = '100ms'
SET jit = off AS $$
BEGIN
    UPDATE rota.workers SET is_waiting = false WHERE id = for_worker AND is_waiting;
    PERFORM rota.wake(ARRAY(
        SELECT q.name FROM unnest(pass_on.queues) AS q (name)
        WHERE (SELECT o.id FROM rota.open_runs o WHERE o.is_ready AND o.queue = q.name AND o.state = 'queued'
               ORDER BY o.queue, o.tenant, o.priority, o.seq LIMIT 1) IS NOT NULL), 2);
END $$;

-- Tells those workers who would have been called before this one, and did not take what it has found. Whoever hears
-- it waits again when it has nothing to do. One that is stopped, or whose connection is half open, hears nothing and
-- is called no more.
-- Called by: sql/workers/pass_over.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.pass_over_silent(for_worker bigint, in_queues text[]) RETURNS void LANGUAGE plpgsql VOLATILE
SET jit = off AS $$
DECLARE
    one text;
BEGIN
    FOR one IN
        UPDATE rota.workers SET is_waiting = false WHERE id IN (
            SELECT w.id FROM rota.workers w JOIN rota.workers own ON own.id = for_worker
            WHERE w.is_waiting AND w.job_set = own.job_set AND w.id <> own.id
              AND (w.queues = '{}' OR w.queues && in_queues) AND (w.is_looking OR w.id < own.id OR NOT own.is_waiting)
            FOR UPDATE OF w SKIP LOCKED)
        RETURNING channel
    LOOP
        PERFORM pg_notify(one, 'passed') WHERE one IS NOT NULL;
    END LOOP;
END $$;

-- Who waits for a run says so here and listens on a channel of its own; the end of such a run calls it. Ends of other
-- runs look at one row in each statement. Not logged: after a crash the waiting ask, and say it again.
CREATE UNLOGGED TABLE rota.waits (
    run_id  bigint NOT NULL,
    channel text COLLATE "C" NOT NULL,
    until   timestamptz NOT NULL,
    PRIMARY KEY (run_id, channel)
);

-- Whether anybody waits at all: until when somebody may. A row of its own, because a table that is filled and emptied
-- all the time takes long to be found empty while an old snapshot is held.
CREATE UNLOGGED TABLE rota.wait_marks (
    until timestamptz NOT NULL
);

-- Says that somebody waits for these runs, until a time; said again before that is over. Returns which of them are
-- not open: those need not be waited for.
-- Called by: sql/waits/await.sql.
CREATE FUNCTION rota.await_runs(channel text, ids bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET lock_timeout = '1s' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock timestamptz := clock_timestamp();
BEGIN
    IF NOT EXISTS (SELECT FROM rota.wait_marks m WHERE m.until > clock + interval '1 minute') THEN
        UPDATE rota.wait_marks m SET until = clock + interval '2 minutes' WHERE m.until < clock + interval '1 minute';
        INSERT INTO rota.wait_marks (until) SELECT clock + interval '2 minutes'
        WHERE NOT EXISTS (SELECT FROM rota.wait_marks);
        -- Of those who went without a word.
        DELETE FROM rota.waits w WHERE w.until < clock;
    END IF;
    INSERT INTO rota.waits AS w (run_id, channel, until)
    SELECT DISTINCT i.id, await_runs.channel, clock + interval '2 minutes' FROM unnest(await_runs.ids) i (id)
    ORDER BY i.id
    ON CONFLICT (run_id, channel) DO UPDATE SET until = excluded.until;
    RETURN QUERY
    SELECT i.id FROM unnest(await_runs.ids) i (id)
    WHERE NOT EXISTS (SELECT FROM rota.open_runs o
                      WHERE o.id = i.id AND (o.expires_at IS NULL OR o.expires_at > rota.now()
                          OR (o.state = 'running' AND o.started_at < o.expires_at)));
END $$;

-- Calls those who wait for these runs, which have ended, or most of them: with what became of a run and, in a second
-- line, its result; with its id alone where that is too long for a call, or unknown: then they look. Asked after the
-- ends were written, with a snapshot of its own.
-- Called by: end_waiting_runs, finish_runs, finish_span.
CREATE FUNCTION rota.tell_waiting(ids bigint[], ended_at timestamptz) RETURNS void LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
    PERFORM pg_notify(w.channel, CASE WHEN octet_length(e.words) < 7900 THEN e.words ELSE w.run_id::text END)
    FROM unnest(tell_waiting.ids) i (id)
    JOIN rota.waits w ON w.run_id = i.id
    LEFT JOIN LATERAL (
        SELECT json_build_object('id', r.id, 'state', r.state, 'end_reason', r.end_reason, 'last_error', r.error)
            || coalesce(E'\n' || r.result::text, '') AS words
        FROM rota.ended_runs r
        WHERE r.id = i.id AND r.finished_at = tell_waiting.ended_at AND coalesce(pg_column_size(r.result), 0) < 7900
    ) e ON true
    WHERE e.words IS NOT NULL OR NOT EXISTS (SELECT FROM rota.open_runs o WHERE o.id = i.id);
END $$;

-- 09_claim.sql

-- How a worker gets runs: `claim_runs`, by priority and age inside a queue, shared among tenants by `pick_shared`. A
-- run whose worker was lost with it is a suspect, and is claimed alone by `claim_suspect`. `hand_back_runs` gives
-- back what was claimed and not started.

-- Claims up to max_runs for a worker, and starts its batch of before. Strict priority, then age, inside a queue;
-- queues in the given order, none gets more than its quota. Where tenants share these queues, pick_shared takes from
-- each; runs of one tenant alone, `lane` ('' is nobody's), are taken here. hints holds for each queue ten places
-- (priorities 0 to 9) up to which this worker has looked at the lane: it is for speed only, and steps over the dead
-- index entries of what was claimed before. batch NULL: the runs start with their claim; else they count as started
-- when start_batch names it in a later call. One look at worker, jobs and clock serves all. Locks rows with SKIP
-- LOCKED, so that claims never wait for one another.
-- RO006: the worker is not live.
-- Called by: sql/runs/claim.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.claim_runs(
    for_worker bigint, max_runs integer, from_queues text[], quota integer, known_jobs text[],
    hints bigint[], batch bigint DEFAULT NULL, start_batch bigint DEFAULT NULL, lane text DEFAULT ''
) RETURNS TABLE (
    id bigint, seq bigint, attempt integer, attempts_used smallint, max_attempts smallint, priority smallint,
    queue text, job text, payload jsonb, validated_by integer, timeout_seconds real, is_expired boolean,
    is_suspect boolean, enqueued_at timestamptz, claimed_at timestamptz, rest jsonb, tenant text
) LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off AS $$
#variable_conflict use_column
DECLARE
    seen record;
BEGIN
    SELECT statement_timestamp() + s.clock_offset AS clock,
           EXISTS (SELECT FROM rota.workers w
                   WHERE w.id = for_worker AND w.state = 'live' AND w.lease_expires_at > clock_timestamp()) AS is_live,
           EXISTS (SELECT FROM rota.jobs j WHERE NOT j.is_enabled) AS has_disabled,
           -- Whether other tenants have work here: two ranges of the index; the lane '' needs only the second.
           lane > '' AND (EXISTS (SELECT FROM rota.open_runs o WHERE o.is_ready AND o.queue = ANY (from_queues)
                   AND o.tenant < lane)
               OR EXISTS (SELECT FROM rota.tenants p WHERE p.name = lane AND rota.tenant_is_paused(p)))
           OR EXISTS (SELECT FROM rota.open_runs o WHERE o.is_ready AND o.queue = ANY (from_queues)
               AND o.tenant > lane) AS is_shared
    INTO seen FROM rota.settings s;
    IF NOT seen.is_live THEN
        PERFORM rota.check_worker(for_worker);
    ELSIF seen.has_disabled THEN
        known_jobs := rota.enabled_jobs(known_jobs);
    END IF;
    IF start_batch IS NOT NULL THEN
        INSERT INTO rota.batch_starts (worker, batch) VALUES (for_worker, start_batch);
    END IF;
    IF max_runs <= 0 THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH picked AS MATERIALIZED (
        (SELECT r.tid
         FROM unnest(CASE WHEN NOT seen.is_shared THEN from_queues END) WITH ORDINALITY AS q (name, n)
         CROSS JOIN LATERAL (
             SELECT o.tid
             FROM generate_series(0, 9) AS p (priority)
             CROSS JOIN LATERAL (
                 SELECT o.ctid AS tid FROM rota.open_runs o
                 WHERE o.is_ready AND o.worker IS NULL AND o.queue = q.name AND o.tenant = lane
                   AND o.priority = p.priority::smallint
                   AND o.seq > coalesce(hints[(q.n - 1) * 10 + p.priority + 1], 0) AND o.job = ANY (known_jobs)
                 ORDER BY o.seq LIMIT quota FOR UPDATE SKIP LOCKED
             ) o
             LIMIT quota
         ) r
         WHERE NOT EXISTS (SELECT FROM rota.queues s
                           WHERE s.name = q.name AND s.is_paused
                             AND (s.paused_until IS NULL OR s.paused_until > seen.clock))
         LIMIT max_runs)
        UNION ALL
        (SELECT r.tid
         FROM unnest(CASE WHEN seen.is_shared THEN from_queues END) AS q (name)
         CROSS JOIN LATERAL rota.pick_shared(q.name, quota, known_jobs) AS r (tid)
         WHERE NOT EXISTS (SELECT FROM rota.queues s
                           WHERE s.name = q.name AND s.is_paused
                             AND (s.paused_until IS NULL OR s.paused_until > seen.clock))
         LIMIT max_runs)
    )
    UPDATE rota.open_runs o
    SET state = 'running', worker = for_worker, attempt = o.attempt + 1, started_at = seen.clock,
        claim_batch = claim_runs.batch
    WHERE o.ctid = ANY (ARRAY(SELECT tid FROM picked))
    RETURNING o.id, o.seq, o.attempt, o.attempts_used, o.max_attempts, o.priority, o.queue, o.job, o.payload,
        o.validated_by, o.timeout_seconds, o.expires_at <= seen.clock, o.is_suspect, o.enqueued_at, seen.clock,
        -- What only some runs carry is one value, NULL for the others.
        CASE WHEN num_nonnulls(o.key, o.tags, o.metadata, o.backoff, o.triggered_by, o.schedule) > 0 THEN
            jsonb_build_object('key', o.key, 'tags', o.tags, 'metadata', o.metadata, 'backoff', o.backoff,
                'triggered_by', o.triggered_by, 'schedule', o.schedule, 'scheduled_for', o.scheduled_for,
                'run_at', o.run_at) END,
        o.tenant;
END $$;

-- These jobs without those that are disabled: one probe while there are none.
-- Called by: claim_runs, claim_suspect.
CREATE FUNCTION rota.enabled_jobs(names text[]) RETURNS text[] LANGUAGE plpgsql STABLE SET jit = off AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM rota.jobs j WHERE NOT j.is_enabled) THEN
        RETURN names;
    END IF;
    RETURN ARRAY(SELECT n FROM unnest(names) n
        WHERE NOT EXISTS (SELECT FROM rota.jobs j WHERE j.name = n AND NOT j.is_enabled));
END $$;

-- Takes up to `most` runs of a queue, from each tenant its share: by weight of those that have work. What one does not
-- use goes to the others. Who comes first is drawn by weight too: a claim of a single run is a share as well.
-- Called by: claim_runs.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.pick_shared(of_queue text, most integer, known_jobs text[]) RETURNS SETOF tid
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    names   text[];
    weights double precision[];
    taken   integer[];
    rest    integer := most;
    portion integer;
    total   double precision;
    share   integer;
    got     tid[];
BEGIN
    SELECT array_agg(t.name ORDER BY t.turn), array_agg(t.weight ORDER BY t.turn), array_agg(0) INTO names, weights,
        taken
    FROM (SELECT b.name, w.weight, -ln(1 - random()) / w.weight AS turn
          FROM rota.busy_tenants(of_queue) AS b (name)
          CROSS JOIN LATERAL (SELECT rota.tenant_weight(b.name) AS weight) w
          WHERE NOT EXISTS (SELECT FROM rota.tenants p WHERE p.name = b.name AND rota.tenant_is_paused(p))) t;
    WHILE rest > 0 LOOP
        SELECT sum(w) INTO total FROM unnest(weights) w;
        EXIT WHEN coalesce(total, 0) = 0;
        portion := rest;
        FOR i IN 1..cardinality(names) LOOP
            CONTINUE WHEN weights[i] = 0;
            share := least(rest, ceil(portion * weights[i] / total)::integer);
            -- What this transaction has taken before is passed over: its own locks do not hide it.
            got := ARRAY(SELECT o.ctid FROM rota.open_runs o
                         WHERE o.is_ready AND o.worker IS NULL AND o.queue = of_queue AND o.tenant = names[i]
                           AND o.job = ANY (known_jobs)
                         ORDER BY o.priority, o.seq OFFSET taken[i] LIMIT share FOR UPDATE SKIP LOCKED);
            RETURN QUERY SELECT unnest(got);
            rest := rest - cardinality(got);
            taken[i] := taken[i] + cardinality(got);
            IF cardinality(got) < share THEN
                weights[i] := 0;
            END IF;
            EXIT WHEN rest = 0;
        END LOOP;
    END LOOP;
END $$;

-- The tenants that have work in a queue: one index probe for each. Of very many each call names some, and the next one
-- goes on where it ended; the place is kept by the session.
-- Called by: pick_shared.
CREATE FUNCTION rota.busy_tenants(of_queue text, most integer DEFAULT 100) RETURNS SETOF text
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    place constant text := 'rota' || '.turn_' || md5(of_queue);
    nobody constant text := '';
    start  text := coalesce(current_setting(place, true), nobody);
    last   text := start;
    found  text;
    n      integer := 0;
BEGIN
    -- '' is a tenant too: it comes when the round begins anew.
    FOR turn IN 1..2 LOOP
        LOOP
            SELECT o.tenant INTO found FROM rota.open_runs o
            WHERE o.is_ready AND o.worker IS NULL AND o.queue = of_queue AND o.tenant > last ORDER BY o.tenant LIMIT 1;
            EXIT WHEN found IS NULL OR n = most OR (turn = 2 AND found > start);
            RETURN NEXT found;
            n := n + 1;
            last := found;
        END LOOP;
        EXIT WHEN n = most OR turn = 2;
        IF EXISTS (SELECT FROM rota.open_runs o WHERE o.is_ready AND o.worker IS NULL AND o.queue = of_queue
            AND o.tenant = nobody) THEN
            RETURN NEXT nobody;
            n := n + 1;
        END IF;
        EXIT WHEN start = '' OR n = most;
        last := '';
    END LOOP;
    IF n = most OR start <> '' THEN
        PERFORM set_config(place, CASE WHEN n = most THEN last ELSE '' END, false);
    END IF;
END $$;

-- The tenants that have something waiting or running in a queue.
-- Called by: running_runs, why_line.
CREATE FUNCTION rota.lane_tenants(of_queue text, most integer DEFAULT 1000) RETURNS SETOF text
LANGUAGE sql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
    WITH RECURSIVE found (tenant) AS (
        (SELECT o.tenant FROM rota.open_runs o WHERE o.is_ready AND o.queue = of_queue ORDER BY o.tenant LIMIT 1)
        UNION ALL
        SELECT (SELECT o.tenant FROM rota.open_runs o WHERE o.is_ready AND o.queue = of_queue AND o.tenant > f.tenant
            ORDER BY o.tenant LIMIT 1)
        FROM found f WHERE f.tenant IS NOT NULL
    )
    SELECT tenant FROM found WHERE tenant IS NOT NULL LIMIT most
$$;

-- How much of a queue is a tenant's beside others that have work in it.
-- Called by: pick_shared, sql/tenants/shares.sql, why_line.
CREATE FUNCTION rota.tenant_weight(of_tenant text) RETURNS double precision LANGUAGE sql STABLE SET jit = off AS $$
    SELECT coalesce((SELECT t.weight FROM rota.tenants t WHERE t.name = of_tenant), 1)::double precision
$$;

-- The queues that hold work: one index probe for each, however many rows wait in them.
-- Called by: hold_runs_of, sql/queues/busy.sql.
CREATE FUNCTION rota.busy_queues() RETURNS SETOF text LANGUAGE sql STABLE SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
    WITH RECURSIVE found AS (
        (SELECT queue FROM rota.open_runs WHERE is_ready AND worker IS NULL ORDER BY queue LIMIT 1)
        UNION ALL
        SELECT (SELECT o.queue FROM rota.open_runs o
                WHERE o.is_ready AND o.worker IS NULL AND o.queue > f.queue ORDER BY o.queue LIMIT 1)
        FROM found f WHERE f.queue IS NOT NULL
    )
    SELECT queue FROM found WHERE queue IS NOT NULL
$$;

-- The run that a worker isolates at this moment.
-- Called by: claim_suspect, mark_lost_workers, may_isolate_inline, sql/runs/strays.sql,
-- sql/workers/declare_lost.sql, sql/workers/list.sql, why_held.
CREATE FUNCTION rota.isolating_of(w rota.workers) RETURNS bigint LANGUAGE sql STABLE SET jit = off AS $$
    SELECT o.id FROM rota.open_runs o WHERE o.id = w.isolating_run AND o.attempt = w.isolating_attempt
        AND o.worker = w.id
$$;

-- Whether a run is the one that its worker isolates.
-- Called by: hand_back_runs, requeue_runs, sql/runs/isolation.sql, why_running.
CREATE FUNCTION rota.is_isolated(o rota.open_runs) RETURNS boolean LANGUAGE sql STABLE SET jit = off AS $$
    SELECT EXISTS (SELECT FROM rota.workers w WHERE w.id = o.worker AND w.isolating_run = o.id
        AND w.isolating_attempt = o.attempt)
$$;

-- Whether a suspect may be isolated in its worker's own process: nobody else does so. Of two that ask at once one is
-- told to ask again.
-- Called by: claim_suspect.
-- Locks: "isolation" if it is free.
CREATE FUNCTION rota.may_isolate_inline(for_worker bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE
SET jit = off AS $$
BEGIN
    RETURN rota.try_lock('isolation') AND NOT EXISTS (
        SELECT FROM rota.workers w
        WHERE w.is_isolating_inline AND w.id <> for_worker AND w.state IN ('live', 'stopping')
          AND rota.isolating_of(w) IS NOT NULL);
END $$;

-- One suspect for a worker that isolates none. inline_jobs are those that this worker can only run in its own
-- process. Asked again before the attempt has ended, it returns the same run: the first answer may have been lost.
-- Called by: sql/runs/claim_suspect.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.claim_suspect(for_worker bigint, from_queues text[], known_jobs text[],
    inline_jobs text[] DEFAULT '{}')
RETURNS TABLE (
    id bigint, seq bigint, attempt integer, attempts_used smallint, max_attempts smallint, priority smallint,
    queue text, job text, payload jsonb, validated_by integer, timeout_seconds real, is_expired boolean,
    is_suspect boolean, enqueued_at timestamptz, claimed_at timestamptz, rest jsonb, tenant text
) LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock  timestamptz := rota.now();
    chosen bigint;
BEGIN
    PERFORM rota.check_worker(for_worker);
    SELECT rota.isolating_of(w) INTO chosen FROM rota.workers w WHERE w.id = for_worker;
    IF chosen IS NULL THEN
        known_jobs := rota.enabled_jobs(known_jobs);
        IF EXISTS (SELECT FROM rota.open_runs o WHERE o.held_by = 'suspect' AND o.job = ANY (inline_jobs))
           AND NOT rota.may_isolate_inline(for_worker) THEN
            known_jobs := ARRAY(SELECT k FROM unnest(known_jobs) k WHERE k <> ALL (inline_jobs));
        END IF;
        UPDATE rota.open_runs o
        SET state = 'running', worker = for_worker, attempt = o.attempt + 1, started_at = clock, held_by = NULL
        WHERE o.id = (
            SELECT w.id FROM rota.open_runs w
            WHERE w.held_by = 'suspect' AND w.state = 'queued' AND w.job = ANY (known_jobs)
              AND (from_queues = '{}' OR w.queue = ANY (from_queues))
              AND NOT EXISTS (SELECT FROM rota.queues s WHERE s.name = w.queue AND rota.queue_is_paused(s))
              AND NOT EXISTS (SELECT FROM rota.tenants t WHERE t.name = w.tenant AND rota.tenant_is_paused(t))
            ORDER BY w.priority, w.seq LIMIT 1 FOR UPDATE SKIP LOCKED)
        RETURNING o.id INTO chosen;
        IF chosen IS NULL THEN
            RETURN;
        END IF;
        UPDATE rota.workers w SET isolating_run = o.id, isolating_attempt = o.attempt,
            is_isolating_inline = o.job = ANY (inline_jobs)
        FROM rota.open_runs o WHERE o.id = chosen AND w.id = for_worker;
    END IF;
    RETURN QUERY
    SELECT o.id, o.seq, o.attempt, o.attempts_used, o.max_attempts, o.priority, o.queue, o.job, o.payload,
        o.validated_by, o.timeout_seconds, o.expires_at <= clock, o.is_suspect, o.enqueued_at, o.started_at,
        -- What only some runs carry is one value, NULL for the others.
        CASE WHEN num_nonnulls(o.key, o.tags, o.metadata, o.backoff, o.triggered_by, o.schedule) > 0 THEN
            jsonb_build_object('key', o.key, 'tags', o.tags, 'metadata', o.metadata, 'backoff', o.backoff,
                'triggered_by', o.triggered_by, 'schedule', o.schedule, 'scheduled_for', o.scheduled_for,
                'run_at', o.run_at) END,
        o.tenant
    FROM rota.open_runs o WHERE o.id = chosen;
END $$;

-- Gives back what was claimed and not started: to its place in the line, with no attempt spent. What was isolated
-- waits to be isolated.
-- Called by: rescue_runs, sql/runs/hand_back.sql.
CREATE FUNCTION rota.hand_back_runs(for_worker bigint, ids bigint[], attempts integer[]) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    UPDATE rota.open_runs o
    SET state = 'queued', worker = NULL, started_at = NULL, claim_batch = NULL,
        held_by = CASE WHEN o.is_suspect AND rota.is_isolated(o) THEN 'suspect' END
    FROM unnest(ids, attempts) AS h (id, attempt)
    WHERE o.id = ANY (ARRAY[h.id]) AND o.attempt = h.attempt AND o.worker = for_worker
    RETURNING o.id;
    -- Somebody asked to cancel it while it was claimed: its next attempt would not know.
    PERFORM rota.end_waiting_runs(ARRAY[c.run_id], 'cancelled',
        'cancelled by ' || c.requested_by || coalesce(': ' || c.reason, ''))
    FROM unnest(ids, attempts) AS h (id, attempt)
    JOIN rota.cancel_requests c ON c.run_id = h.id AND c.attempt = h.attempt
    JOIN rota.open_runs o ON o.id = ANY (ARRAY[h.id]) AND o.attempt = h.attempt AND o.state = 'queued';
END $$;

-- 10_finish.sql

-- How an attempt ends. `finish_runs` and `finish_span` move the run to the history, `requeue_runs` lets it go on (a
-- retry, a snooze, a shutdown), `end_waiting_runs` ends what never started. Every statement names run, attempt and
-- worker: a worker that was declared lost changes nothing.

-- Which of these runs nobody has locked; takes their locks until the transaction ends.
-- Called by: sql/runs/lock.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.lock_runs(ids bigint[]) RETURNS SETOF bigint LANGUAGE sql VOLATILE SET jit = off AS $$
    SELECT o.id FROM rota.open_runs o WHERE o.id = ANY (ids) FOR UPDATE SKIP LOCKED
$$;

-- Writes how far runs have come. Only rows of this worker and this attempt are touched.
-- Called by: sql/runs/progress.sql.
CREATE FUNCTION rota.report_progress(for_worker bigint, ids bigint[], attempts integer[], fractions real[],
    messages text[])
RETURNS void LANGUAGE sql VOLATILE SET jit = off AS $$
    UPDATE rota.open_runs o SET progress = f.fraction, message = coalesce(f.message, o.message)
    FROM unnest(ids, attempts, fractions, messages) AS f (id, attempt, fraction, message)
    WHERE o.id = ANY (ARRAY[f.id]) AND o.attempt = f.attempt AND o.worker = for_worker
$$;

-- What finish_runs does for runs that succeeded, with neither key nor schedule, all in the same attempt, whose ids
-- lie close together: one walk over the ids instead of a lookup for each, nothing to be sorted, no keys to be freed.
-- Each id from the first on has its place in durations_us; below 0: it has not ended. Limits get their slots back.
-- Returns how many were ended.
-- Called by: sql/runs/finish_span.sql.
CREATE FUNCTION rota.finish_span(for_worker bigint, first_id bigint, of_attempt integer, durations_us bigint[],
    results jsonb[] DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET lock_timeout = '100ms'
SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock     timestamptz := rota.now();
    has_rules boolean := EXISTS (SELECT FROM rota.keep_rules);
    moved     bigint;
BEGIN
    WITH ended AS (
        DELETE FROM rota.open_runs o
        WHERE o.id BETWEEN first_id AND first_id + cardinality(durations_us) - 1
          AND o.worker = for_worker AND o.attempt = of_attempt AND durations_us[o.id - first_id + 1] >= 0
          AND o.key IS NULL AND o.schedule_id IS NULL
        RETURNING o.id, o.created_at, o.run_at, o.started_at, durations_us[o.id - first_id + 1] AS us, o.attempts_used,
            o.max_attempts, o.priority, o.is_suspect, o.queue, o.job, o.tenant, o.payload, o.expires_at,
            o.timeout_seconds, o.backoff, o.tags, o.metadata, o.triggered_by, o.schedule, o.scheduled_for, o.progress,
            o.message, o.slots
    ), released AS (
        INSERT INTO rota.limit_releases (key, amount, run_id, ended_as)
        SELECT k, count(*), CASE WHEN k LIKE 's%' THEN e.id END, CASE WHEN k LIKE 's%' THEN 'succeeded' END
        FROM ended e CROSS JOIN LATERAL unnest(e.slots) k WHERE e.slots IS NOT NULL GROUP BY 1, 3
    )
    INSERT INTO rota.ended_runs (id, created_at, run_at, started_at, finished_at, worker, attempt, duration_ms,
        attempts_used, max_attempts, priority, is_redelivery, state, attempt_state, queue, job, tenant, payload, result,
        expires_at, timeout_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for, progress, message,
        keep_class)
    SELECT id, created_at, run_at, greatest(started_at, clock - us * interval '1 microsecond'), clock, for_worker,
        of_attempt, us / real '1000', attempts_used + 1, max_attempts, priority, is_suspect, 'succeeded', 'succeeded',
        queue, job, tenant, payload, results[id - first_id + 1], expires_at, timeout_seconds, backoff, tags, metadata,
        triggered_by, schedule, scheduled_for, progress, message,
        CASE WHEN has_rules THEN coalesce((SELECT k.keep_class FROM rota.keep_rules k
            WHERE k.job = ended.job AND k.state = 'succeeded'),
            (SELECT k.keep_class FROM rota.keep_rules k WHERE k.job = '' AND k.state = 'succeeded'), 'standard')
                ELSE 'standard' END
    FROM ended;
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF EXISTS (SELECT FROM rota.wait_marks m WHERE m.until > clock_timestamp()) THEN
        PERFORM rota.tell_waiting(ARRAY(SELECT w.run_id FROM rota.waits w
            WHERE w.run_id BETWEEN first_id AND first_id + cardinality(durations_us) - 1), clock);
    END IF;
    RETURN moved;
END $$;

-- The runs are over: each moves to the history with its last attempt. Arrays left NULL mean success. Only rows of
-- this worker and this attempt are touched, in the order of their ids; the answer names them. Keys are freed or kept
-- for their period, limits get their slots back, and whoever waits for a run is told.
-- Called by: requeue_runs, rescue_runs, sql/runs/end.sql, sql/runs/finish.sql, sql/runs/time_out.sql.
CREATE FUNCTION rota.finish_runs(
    for_worker bigint, ids bigint[], attempts integer[], durations_ms real[],
    results jsonb[] DEFAULT NULL, states text[] DEFAULT NULL, attempt_states text[] DEFAULT NULL,
    end_reasons text[] DEFAULT NULL, messages text[] DEFAULT NULL, error_types text[] DEFAULT NULL,
    errors text[] DEFAULT NULL, tracebacks text[] DEFAULT NULL, details jsonb[] DEFAULT NULL
) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '100ms' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock     timestamptz := rota.now();
    has_rules boolean := EXISTS (SELECT FROM rota.keep_rules);
BEGIN
    RETURN QUERY
    WITH ended AS (
        DELETE FROM rota.open_runs o
        USING unnest(ids, attempts, durations_ms, results, states, attempt_states, end_reasons, messages, error_types,
            errors, tracebacks, details)
              AS f (id, attempt, duration_ms, result, state, attempt_state, end_reason, message, error_type, error,
                  traceback, detail)
        WHERE o.id = ANY (ARRAY[f.id]) AND o.attempt = f.attempt AND o.worker = for_worker
        RETURNING o.id, o.created_at, o.run_at, greatest(o.started_at, clock - f.duration_ms * interval '1 millisecond')
            AS started_at, o.attempt, f.duration_ms,
            o.attempts_used + (coalesce(f.attempt_state, 'succeeded') <> 'cancelled')::integer AS attempts_used,
            o.max_attempts, o.priority, o.is_suspect, coalesce(f.state, 'succeeded') AS state,
            coalesce(f.attempt_state, 'succeeded') AS attempt_state,
            o.queue, o.job, o.tenant, o.payload, f.result, o.expires_at, o.timeout_seconds, o.key, o.key_seconds,
            o.backoff, o.tags, o.metadata, o.triggered_by, o.schedule, o.scheduled_for, o.schedule_id, o.slots,
            o.progress, coalesce(f.message, o.message) AS message, f.error_type, f.error, f.traceback, f.end_reason,
            f.detail
    ), moved AS (
        INSERT INTO rota.ended_runs (id, created_at, run_at, started_at, finished_at, worker, attempt, duration_ms,
            attempts_used, max_attempts, priority, is_redelivery, state, attempt_state, queue, job, tenant, payload,
            result, expires_at, timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, schedule,
            scheduled_for, schedule_id, progress, message, error_type, error, traceback, end_reason, details,
            keep_class)
        SELECT id, created_at, run_at, started_at, clock, for_worker, attempt, duration_ms, attempts_used,
            max_attempts, priority, is_suspect, state, attempt_state, queue, job, tenant, payload, result, expires_at,
            timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for,
            schedule_id, progress, message, error_type, error, traceback, end_reason, detail,
            CASE WHEN has_rules THEN coalesce((SELECT k.keep_class FROM rota.keep_rules k
                WHERE k.job = ended.job AND k.state = ended.state),
                (SELECT k.keep_class FROM rota.keep_rules k WHERE k.job = '' AND k.state = ended.state), 'standard')
                    ELSE 'standard' END
        FROM ended ORDER BY schedule_id -- the order in which the ends of scheduled runs lock their schedules
    ), freed AS (
        DELETE FROM rota.keys k
        USING (SELECT tenant, job, key, id FROM ended WHERE key IS NOT NULL AND key_seconds IS NULL
            ORDER BY tenant, job, key COLLATE "C") e
        WHERE k.tenant = e.tenant AND k.job = e.job AND k.key = e.key AND k.run_id = e.id
    ), kept AS (
        UPDATE rota.keys k SET expires_at = rota.after(clock, e.key_seconds)
        FROM (SELECT tenant, job, key, id, key_seconds FROM ended WHERE key_seconds IS NOT NULL
            ORDER BY tenant, job, key COLLATE "C") e
        WHERE k.tenant = e.tenant AND k.job = e.job AND k.key = e.key AND k.run_id = e.id
    ), released AS (
        INSERT INTO rota.limit_releases (key, amount, run_id, ended_as)
        SELECT k, count(*), CASE WHEN k LIKE 's%' THEN e.id END, CASE WHEN k LIKE 's%' THEN e.state END
        FROM ended e CROSS JOIN LATERAL unnest(e.slots) k WHERE e.slots IS NOT NULL GROUP BY 1, 3, 4
    )
    SELECT id FROM ended;
    IF EXISTS (SELECT FROM rota.wait_marks m WHERE m.until > clock_timestamp()) THEN
        PERFORM rota.tell_waiting(ids, clock);
    END IF;
END $$;

-- The run goes on: a retry, a snooze, or a body that was cut off by a shutdown. The attempt becomes a row of its
-- own, and its error gets its group. A delay of NULL keeps the run's place in the line; one that adds up to no
-- instant is cut. A run that somebody asked to cancel meanwhile ends here. A run that took its own process with it
-- (lost), or that a shutdown cut off while it was isolated, is isolated again; any other end says that it is
-- harmless. One that is put off gives its slots back, but keeps its turn in a sequence; a rate counts every start.
-- Called by: sql/runs/requeue.sql, sql/runs/time_out.sql.
-- Locks: rows.
CREATE FUNCTION rota.requeue_runs(
    for_worker bigint, ids bigint[], attempts integer[], durations_ms real[],
    attempt_states text[], delays double precision[], spent boolean[],
    messages text[] DEFAULT NULL, error_types text[] DEFAULT NULL, errors text[] DEFAULT NULL,
    tracebacks text[] DEFAULT NULL, details jsonb[] DEFAULT NULL
) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '100ms' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    done    bigint[];
    touched text[];
    soonest timestamptz;
BEGIN
    WITH input AS MATERIALIZED (
        SELECT f.* FROM unnest(ids, attempts, durations_ms, attempt_states, delays, spent, messages, error_types,
            errors, tracebacks, details)
            AS f (id, attempt, duration_ms, state, delay, is_spent, message, error_type, error, traceback, detail)
        WHERE NOT EXISTS (SELECT FROM rota.cancel_requests c WHERE c.run_id = f.id AND c.attempt = f.attempt)
    ), owned AS MATERIALIZED (
        SELECT f.*, o.started_at, o.is_suspect, o.job, o.queue, o.tenant, o.limit_keys, o.slots FROM input f
        JOIN rota.open_runs o
            ON o.id = ANY (ARRAY[f.id]) AND o.attempt = f.attempt AND o.worker = for_worker
        FOR UPDATE OF o
    ), was AS MATERIALIZED (
        SELECT w.*, g.id AS error_group, g.file, g.line, g.function
        FROM owned w CROSS JOIN LATERAL rota.group_error(w.job, w.error_type, w.error, w.traceback) g
    ), again AS (
        UPDATE rota.open_runs o
        SET state = CASE WHEN w.delay > 0 THEN 'scheduled' ELSE 'queued' END,
            run_at = CASE WHEN w.delay > 0 THEN rota.after(clock, least(w.delay, 3153600000)) ELSE o.run_at END,
            seq = CASE WHEN w.delay IS NULL THEN o.seq ELSE nextval('rota.run_ids') END,
            enqueued_at = clock_timestamp(), worker = NULL, started_at = NULL, claim_batch = NULL,
            is_suspect = w.state = 'lost' OR w.state = 'cancelled' AND o.is_suspect,
            held_by = CASE WHEN w.state = 'lost' OR w.state = 'cancelled' AND w.is_suspect AND rota.is_isolated(o)
                THEN 'suspect'
                           WHEN w.limit_keys IS NOT NULL AND coalesce(w.delay, 0) <= 0 AND (w.is_spent OR w.delay = 0)
                                AND EXISTS (SELECT FROM unnest(w.limit_keys) k WHERE k LIKE 'r%') THEN 'limit' END,
            slots = CASE WHEN w.slots IS NOT NULL AND w.delay > 0
                THEN nullif(ARRAY(SELECT k FROM unnest(w.slots) k WHERE k LIKE 's%'), '{}') ELSE o.slots END,
            limit_key = CASE WHEN w.limit_keys IS NOT NULL THEN (rota.missing_keys(w.limit_keys, CASE WHEN w.delay > 0
                THEN ARRAY(SELECT k FROM unnest(w.slots) k WHERE k LIKE 's%') ELSE w.slots END))[1] END,
            attempts_used = o.attempts_used + w.is_spent::integer, last_error = coalesce(w.error, o.last_error),
            error_group = coalesce(w.error_group, o.error_group), message = coalesce(w.message, o.message),
            progress = NULL
        FROM was w WHERE o.id = ANY (ARRAY[w.id])
        RETURNING o.id, o.queue, o.state, o.run_at, w.slots, w.delay
    ), released AS (
        INSERT INTO rota.limit_releases (key, amount)
        SELECT k, count(*) FROM again a CROSS JOIN LATERAL unnest(a.slots) k
        WHERE a.slots IS NOT NULL AND a.delay > 0 AND k NOT LIKE 's%' GROUP BY k
    ), recorded AS (
        INSERT INTO rota.past_attempts (run_id, attempt, state, worker, started_at, finished_at, duration_ms,
            is_redelivery, is_spent, job, tenant, message, error_type, error, traceback, details)
        SELECT w.id, w.attempt, w.state, for_worker,
            greatest(w.started_at, clock - w.duration_ms * interval '1 millisecond'), clock,
            w.duration_ms, w.is_suspect, w.is_spent, w.job, w.tenant, w.message, w.error_type, w.error, w.traceback,
            w.detail
        FROM was w JOIN again a ON a.id = w.id
    ), noted AS (
        INSERT INTO rota.error_changes (error_group, job, queue, run_id, at, is_end, error_type, error, file, line,
            function)
        SELECT w.error_group, w.job, w.queue, w.id, clock, false, left(w.error_type, 200),
            left(coalesce(w.error, ''), 1000), w.file, w.line, w.function
        FROM was w JOIN again a ON a.id = w.id WHERE w.error_group IS NOT NULL
    )
    SELECT array_agg(id), array_agg(DISTINCT queue) FILTER (WHERE state = 'queued'),
        min(run_at) FILTER (WHERE state = 'scheduled')
    INTO done, touched, soonest FROM again;
    PERFORM rota.wake(coalesce(touched, '{}'));
    PERFORM rota.wake_later(soonest - clock) WHERE soonest IS NOT NULL;
    RETURN QUERY SELECT unnest(done);

    RETURN QUERY
    SELECT e.* FROM (
        SELECT array_agg(f.id) AS ids, array_agg(f.attempt) AS attempts, array_agg(f.duration_ms) AS durations,
               array_agg('cancelled'::text) AS states, array_agg(f.state) AS attempt_states,
               array_agg('cancelled by ' || c.requested_by || coalesce(': ' || c.reason, '')) AS reasons,
               array_agg(f.message) AS messages, array_agg(f.error_type) AS error_types, array_agg(f.error) AS errors,
               array_agg(f.traceback) AS tracebacks, array_agg(f.detail) AS details
        FROM unnest(ids, attempts, durations_ms, attempt_states, messages, error_types, errors, tracebacks, details)
                AS f (id, attempt, duration_ms, state, message, error_type, error, traceback, detail)
        JOIN rota.cancel_requests c ON c.run_id = f.id AND c.attempt = f.attempt
    ) b, rota.finish_runs(for_worker, b.ids, b.attempts, b.durations, NULL, b.states,
                          (SELECT array_agg(CASE s WHEN 'snoozed' THEN 'cancelled' ELSE s END)
                          FROM unnest(b.attempt_states) s), b.reasons, b.messages, b.error_types, b.errors,
                              b.tracebacks, b.details) AS e
    WHERE b.ids IS NOT NULL;
END $$;

-- Ends waiting runs that nobody has locked: cancelled, expired in place, or never run. What has expired ends as
-- that, at the time it did, whoever ends it for whatever reason. In an earlier week there may be no partition, and
-- making one locks the history until the caller commits: then it ends now. Limits get back the slots of what was
-- ready.
-- Called by: many.
CREATE FUNCTION rota.end_waiting_runs(ids bigint[], new_state text, reason text, failure_type text DEFAULT NULL,
    failure text DEFAULT NULL)
RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock timestamptz := rota.now();
    week  timestamptz := date_trunc('week', clock AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
BEGIN
    PERFORM rota.ensure_partitions(clock, clock)
    WHERE to_regclass('rota.ended_runs_standard_' || to_char(date_trunc('week', clock AT TIME ZONE 'UTC'), 'YYYYMMDD'))
        IS NULL;
    RETURN QUERY
    WITH gone AS (
        DELETE FROM rota.open_runs o WHERE o.id = ANY (ids) AND o.state <> 'running'
        RETURNING o.*, coalesce(o.expires_at <= clock, false) AS is_expired
    ), ended AS (
        SELECT g.*, CASE WHEN is_expired AND least(greatest(expires_at, created_at), clock) >= week
                         THEN least(greatest(expires_at, created_at), clock) ELSE clock END AS ended_at,
               CASE WHEN is_expired THEN 'cancelled' ELSE new_state END AS ended_as
        FROM gone g
    ), moved AS (
        INSERT INTO rota.ended_runs (id, created_at, run_at, finished_at, attempt, attempts_used,
            max_attempts, priority, is_redelivery, state, queue, job, tenant, payload, expires_at,
            timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for,
            schedule_id, message, error_type, error, end_reason, keep_class)
        SELECT id, created_at, run_at, ended_at, attempt, attempts_used,
            max_attempts, priority, is_suspect, ended_as, queue, job, tenant, payload, expires_at,
            timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for,
            schedule_id, message,
            CASE WHEN NOT is_expired THEN failure_type END,
            coalesce(CASE WHEN NOT is_expired THEN failure END, last_error),
            CASE WHEN is_expired THEN 'expired' ELSE reason END, rota.keep_class_of(job, ended_as)
        FROM ended ORDER BY schedule_id
    ), freed AS (
        DELETE FROM rota.keys k
        USING (SELECT tenant, job, key, id FROM ended WHERE key IS NOT NULL AND key_seconds IS NULL
            ORDER BY tenant, job, key COLLATE "C") e
        WHERE k.tenant = e.tenant AND k.job = e.job AND k.key = e.key AND k.run_id = e.id
    ), kept AS (
        UPDATE rota.keys k SET expires_at = rota.after(e.ended_at, e.key_seconds)
        FROM (SELECT tenant, job, key, id, key_seconds, ended_at FROM ended WHERE key_seconds IS NOT NULL
            ORDER BY tenant, job, key COLLATE "C") e
        WHERE k.tenant = e.tenant AND k.job = e.job AND k.key = e.key AND k.run_id = e.id
    ), released AS (
        INSERT INTO rota.limit_releases (key, amount, run_id, ended_as)
        SELECT k, count(*), CASE WHEN k LIKE 's%' THEN e.id END, CASE WHEN k LIKE 's%' THEN e.ended_as END
        FROM ended e CROSS JOIN LATERAL unnest(e.slots) k WHERE e.slots IS NOT NULL GROUP BY 1, 3, 4
    )
    SELECT id FROM ended;
    IF EXISTS (SELECT FROM rota.wait_marks m WHERE m.until > clock_timestamp()) THEN
        PERFORM rota.tell_waiting(ids, clock);
    END IF;
END $$;

-- 11_rescue.sql

-- What happens to the runs of a worker that is gone: `mark_lost_workers` declares it lost by its lease,
-- `rescue_runs` takes its runs back. The price of suspicion is paid by the suspect alone: a run goes back to normal
-- work if others were lost with it and it has attempts to spare; else it is held until some worker isolates it.

-- Declares workers lost whose lease ran out, before any of their rows is touched. From then on isolating_run says
-- what a worker isolated when it was lost.
-- Called by: sql/workers/mark_lost.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.mark_lost_workers() RETURNS TABLE (worker bigint, name text) LANGUAGE sql VOLATILE
SET jit = off SET lock_timeout = '5s' AS $$
    UPDATE rota.workers w SET state = 'lost', ended_at = clock_timestamp(), is_waiting = false,
        isolating_run = rota.isolating_of(w)
    WHERE w.id IN (SELECT l.id FROM rota.workers l
                   WHERE l.state IN ('live', 'stopping') AND l.lease_expires_at <= clock_timestamp()
                   FOR UPDATE SKIP LOCKED)
    RETURNING w.id, w.name
$$;

-- Takes back the runs of workers that are not live. It asks by rows, again and again, because a claim that was under
-- way when its worker was declared lost commits after that. What had not started goes back to its place free; so
-- does what ran beside a suspect in the suspect's process. What had started has lost an attempt, and goes back to
-- normal work if it shared its worker, was not lost before and its next attempt is not its last; else it is held as
-- a suspect, to be isolated. The last attempt is not spent where the loss may be a neighbour's doing: in a batch
-- claimed ahead, of which nobody knows how far it had come, or beside others, unless it has one attempt only. That
-- doubt ends after three times, so that a run that takes whole machines with it ends too. A lost attempt leaves a
-- line, and is counted in its error group. One rescuer at a time (lost_run_ids); runs that somebody has locked are
-- passed over.
-- Called by: sql/runs/rescue.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.rescue_runs(max_runs integer, everywhere boolean DEFAULT false)
RETURNS TABLE (run_id bigint, attempt integer, worker bigint, decision text) LANGUAGE plpgsql VOLATILE
SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET enable_seqscan = off
SET lock_timeout = '5s' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    lost    record;
    why     text;
    kind    text;
    place   record;
    is_held boolean;
    has_held boolean := false;
BEGIN
    PERFORM rota.ensure_partitions(clock, clock)
    WHERE to_regclass('rota.ended_runs_standard_' || to_char(date_trunc('week', clock AT TIME ZONE 'UTC'), 'YYYYMMDD'))
        IS NULL;
    FOR lost IN
        SELECT o.*, l.worker_name, l.is_shared, l.is_harmless,
               CASE WHEN c.run_id IS NOT NULL THEN 'cancelled'
                    WHEN NOT l.is_started THEN 'handed back'
                    WHEN l.is_freed AND (o.max_attempts > 1 OR o.claim_batch IS NOT NULL) THEN 'freed'
                    WHEN o.attempts_used + 1 < o.max_attempts THEN 'requeued'
                    WHEN (o.claim_batch IS NOT NULL OR l.is_shared AND o.max_attempts > 1) AND l.doubts < 3
                        THEN 'suspected'
                    ELSE 'failed' END AS decision,
               'cancelled by ' || c.requested_by || coalesce(': ' || c.reason, '') AS cancel_reason
        FROM rota.lost_runs(max_runs, everywhere) AS l
        JOIN rota.open_runs o ON o.id = l.id AND o.attempt = l.attempt
        LEFT JOIN rota.cancel_requests c ON c.run_id = o.id AND c.attempt = o.attempt
        WHERE o.state = 'running' AND NOT EXISTS (SELECT FROM rota.workers v
            WHERE v.id = o.worker AND v.state IN ('live', 'stopping'))
        FOR UPDATE OF o SKIP LOCKED
    LOOP
        run_id := lost.id; attempt := lost.attempt; worker := lost.worker; decision := lost.decision;
        why := format('worker %s (%s) was lost during attempt %s', lost.worker, lost.worker_name, lost.attempt);
        kind := CASE lost.decision WHEN 'suspected' THEN 'SharedLoss' ELSE 'WorkerLost' END;
        IF lost.decision NOT IN ('handed back', 'cancelled') THEN
            PERFORM rota.log_failure(lost.id, lost.attempt, lost.worker, lost.job, lost.tenant, kind, why);
        END IF;
        CASE lost.decision
        WHEN 'handed back' THEN
            PERFORM rota.hand_back_runs(lost.worker, ARRAY[lost.id], ARRAY[lost.attempt]);
        WHEN 'cancelled' THEN
            PERFORM rota.finish_runs(lost.worker, ARRAY[lost.id], ARRAY[lost.attempt], ARRAY[NULL::real], NULL,
                ARRAY['cancelled'], ARRAY['lost'], ARRAY[lost.cancel_reason]);
        WHEN 'failed' THEN
            PERFORM rota.finish_runs(lost.worker, ARRAY[lost.id], ARRAY[lost.attempt], ARRAY[NULL::real], NULL,
                ARRAY['failed'], ARRAY['lost'], ARRAY['attempts used up'], NULL, ARRAY[kind], ARRAY[why]);
        ELSE
            is_held := NOT lost.is_harmless AND lost.decision <> 'freed'
                AND (lost.is_suspect OR NOT lost.is_shared OR lost.attempts_used + 2 >= lost.max_attempts);
            has_held := has_held OR is_held;
            INSERT INTO rota.past_attempts (run_id, attempt, state, worker, started_at, finished_at, is_redelivery,
                is_spent, job, tenant, error_type, error)
            VALUES (lost.id, lost.attempt, 'lost', lost.worker, lost.started_at, clock, lost.is_suspect,
                    lost.decision = 'requeued', lost.job, lost.tenant, kind, why);
            place := rota.group_error(lost.job, kind, why, NULL);
            INSERT INTO rota.error_changes (error_group, job, queue, run_id, at, is_end, error_type, error)
            VALUES (place.id, lost.job, lost.queue, lost.id, clock, false, kind, why);
            UPDATE rota.open_runs o
            SET state = 'queued', worker = NULL, started_at = NULL, claim_batch = NULL, enqueued_at = clock_timestamp(),
                progress = NULL,
                attempts_used = o.attempts_used + (lost.decision = 'requeued')::integer, is_suspect = true,
                held_by = CASE WHEN is_held THEN 'suspect' END, last_error = why, error_group = place.id
            WHERE o.id = lost.id;
        END CASE;
        RETURN NEXT;
        IF lost.decision NOT IN ('cancelled', 'failed') THEN
            PERFORM rota.wake(ARRAY[lost.queue]);
        END IF;
    END LOOP;
    IF has_held THEN
        PERFORM pg_notify('rota', 'suspects');
    END IF;
END $$;

-- What is known of lost runs before any of them is touched. is_shared: others had started on the same worker. is_freed:
-- the worker ran a known suspect in its own process, which is charged alone. is_harmless: it cannot take a process with
-- it.
-- Called by: rescue_runs.
CREATE FUNCTION rota.lost_runs(max_runs integer, everywhere boolean) RETURNS TABLE (
    id bigint, attempt integer, worker_name text, is_started boolean, is_shared boolean, is_freed boolean,
    is_harmless boolean, doubts bigint
) LANGUAGE sql VOLATILE SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
SET jit = off SET enable_seqscan = off AS $$
    SELECT o.id, o.attempt, coalesce(w.name, 'unknown'), s.is_started,
           count(*) FILTER (WHERE s.is_started) OVER (PARTITION BY o.worker) > 1,
           coalesce(w.is_isolating_inline AND w.state = 'lost' AND w.isolating_run <> o.id, false),
           coalesce(j.kind = 'sql' OR j.is_system, false),
           CASE WHEN o.is_suspect THEN (
               SELECT count(*) FROM rota.past_attempts p
               WHERE p.run_id = o.id AND p.finished_at >= o.created_at AND p.state = 'lost' AND NOT p.is_spent
                 AND p.error_type = 'SharedLoss')
           ELSE 0 END
    FROM rota.lost_run_ids(max_runs, everywhere) AS l (id)
    JOIN rota.open_runs o ON o.id = l.id
    LEFT JOIN rota.workers w ON w.id = o.worker
    LEFT JOIN rota.jobs j ON j.name = o.job
    CROSS JOIN LATERAL (SELECT coalesce(o.claim_batch, 0) <= coalesce((SELECT max(b.batch) FROM rota.batch_starts b
        WHERE b.worker = o.worker), 0)
                               AS is_started) s
$$;

-- Runs of workers that were lost within ten of their leases; everywhere: any running run whose worker is not live,
-- the net under the rest. There is no index on worker, as it would cost every claim: this reads all that is ready,
-- but only after a loss, and one reader at a time. All runs of a worker come together, because what was lost with a
-- run counts.
-- Called by: lost_runs.
-- Locks: "rescue" if it is free.
CREATE FUNCTION rota.lost_run_ids(max_runs integer, everywhere boolean) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE SET jit = off SET enable_seqscan = on AS $$
DECLARE
    dead bigint[] := ARRAY(SELECT w.id FROM rota.workers w
        WHERE w.state = 'lost' AND w.ended_at > clock_timestamp() - 10 * make_interval(secs => w.lease_seconds));
BEGIN
    IF NOT everywhere AND dead = '{}' OR NOT rota.try_lock('rescue') THEN
        RETURN;
    ELSIF everywhere THEN
        RETURN QUERY SELECT o.id FROM rota.open_runs o
            WHERE o.is_ready AND o.worker NOT IN (SELECT w.id FROM rota.workers w WHERE w.state IN ('live', 'stopping'))
            ORDER BY o.worker FETCH FIRST max_runs ROWS WITH TIES;
    ELSE
        RETURN QUERY SELECT o.id FROM rota.open_runs o WHERE o.is_ready AND o.worker = ANY (dead)
            ORDER BY o.worker FETCH FIRST max_runs ROWS WITH TIES;
    END IF;
END $$;

-- 12_upkeep.sql

-- What workers do for all, every few seconds: `promote_runs` puts what is due in line, `expire_runs` ends what is
-- past its deadline, `settle_cancels` carries out requests that nobody saw, `park_unknown_runs`, `free_known_runs`
-- and `fail_unknown_runs` deal with jobs that no worker knows, `sweep` clears leftovers.

-- scheduled -> queued, in small commits, so that a million due at once do not arrive in one transaction. One under a
-- limit waits for its admission. Returns how many, and the seconds until the next one is due or a pause ends (NULL:
-- none; an infinite time is nobody's next one). What is due and held by somebody is looked at again in a moment, not
-- at once.
-- Called by: sql/runs/promote.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.promote_runs(max_runs integer, OUT promoted integer, OUT next_due_seconds double precision)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET lock_timeout = '5s' SET jit = off AS $$
DECLARE
    clock   timestamptz := rota.now();
    touched text[];
    limited boolean;
BEGIN
    -- Places are given in the order of the due times, not in that of the rows on their pages.
    WITH due AS MATERIALIZED (
        SELECT o.ctid AS tid FROM rota.open_runs o WHERE o.is_future AND o.run_at <= clock
        ORDER BY o.run_at LIMIT max_runs FOR UPDATE SKIP LOCKED
    ), placed AS MATERIALIZED (
        SELECT tid, nextval('rota.run_ids') AS seq FROM due
    ), moved AS (
        UPDATE rota.open_runs o
        SET state = 'queued', seq = p.seq, enqueued_at = clock_timestamp(),
            held_by = CASE WHEN o.limit_keys IS NOT NULL AND cardinality(rota.missing_keys(o.limit_keys, o.slots)) > 0
                THEN 'limit' END,
            limit_key = (rota.missing_keys(o.limit_keys, o.slots))[1]
        FROM placed p WHERE o.ctid = p.tid
        RETURNING o.queue, o.held_by
    )
    SELECT count(*), array_agg(DISTINCT queue), bool_or(held_by IS NOT NULL) INTO promoted, touched, limited FROM moved;
    IF promoted > 0 THEN
        PERFORM rota.wake(touched);
        PERFORM rota.wake_admission() WHERE limited;
    END IF;
    SELECT extract(epoch FROM o.run_at - clock) INTO next_due_seconds
    FROM rota.open_runs o WHERE o.is_future AND o.run_at > clock AND o.run_at < 'infinity' ORDER BY o.run_at LIMIT 1;
    IF promoted < max_runs AND EXISTS (SELECT FROM rota.open_runs o WHERE o.is_future AND o.run_at <= clock) THEN
        next_due_seconds := least(next_due_seconds, 0.25);
    END IF;
    IF EXISTS (SELECT FROM rota.queues q WHERE q.paused_until IS NOT NULL) THEN
        next_due_seconds := least(next_due_seconds, rota.end_pauses(clock));
    END IF;
END $$;

-- Ends what has expired, the first to expire first, so many at most.
-- Called by: sql/upkeep/expire.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.expire_runs(max_runs integer) RETURNS integer LANGUAGE sql VOLATILE SET enable_seqscan = off
SET enable_bitmapscan = off SET jit = off SET lock_timeout = '5s' AS $$
    SELECT count(*)::integer FROM rota.end_waiting_runs(ARRAY(
        SELECT o.id FROM rota.open_runs o WHERE o.expires_at <= rota.now() AND o.state <> 'running'
        ORDER BY o.expires_at LIMIT max_runs FOR UPDATE SKIP LOCKED), 'cancelled', 'expired')
$$;

-- Before somebody acts on a run: ends it if it has expired. Returns whether it had.
-- Called by: cancel_run, delete_run, retry_run, take_key.
CREATE FUNCTION rota.settle_expired(run_id bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    held record;
BEGIN
    SELECT o.state, o.expires_at INTO held FROM rota.open_runs o WHERE o.id = settle_expired.run_id;
    RETURN FOUND AND rota.is_over(held.state, held.expires_at)
        AND EXISTS (SELECT FROM rota.end_waiting_runs(ARRAY[settle_expired.run_id], 'cancelled', 'expired'));
END $$;

-- Open runs by queue and job, counted by reading all of them. What has expired and was not swept yet counts as
-- expired.
-- Called by: count_depths, kept_depths, read_depths.
CREATE FUNCTION rota.count_open_runs() RETURNS TABLE (
    queue text, job text, blocked bigint, scheduled bigint, queued bigint, held bigint, running bigint, expired bigint,
    oldest_at timestamptz
) LANGUAGE sql STABLE AS $$
    SELECT o.queue, o.job, count(*) FILTER (WHERE o.state = 'blocked'), count(*) FILTER (WHERE o.state = 'scheduled'),
           count(*) FILTER (WHERE o.state = 'queued'),
           count(*) FILTER (WHERE o.state = 'queued' AND o.held_by IS NOT NULL),
           count(*) FILTER (WHERE o.state = 'running'), count(*) FILTER (WHERE o.state = 'expired'),
           min(o.enqueued_at) FILTER (WHERE o.state = 'queued' AND o.held_by IS NULL)
    FROM (SELECT w.queue, w.job, w.held_by, w.enqueued_at,
                 CASE WHEN w.expires_at IS NULL OR w.expires_at > (SELECT rota.now())
                     OR (w.state = 'running' AND w.started_at < w.expires_at) THEN w.state ELSE 'expired' END AS state
          FROM rota.open_runs w) o
    GROUP BY o.queue, o.job
$$;

-- A request that was not committed yet when its attempt ended was seen by nobody: carry it out on the run that waits
-- again, or hand it to the attempt that runs now.
-- Called by: sweep.
-- Locks: rows.
CREATE FUNCTION rota.settle_cancels() RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    late record;
BEGIN
    FOR late IN
        SELECT c.run_id, o.state, o.worker, o.attempt,
            'cancelled by ' || c.requested_by || coalesce(': ' || c.reason, '') AS why
        FROM rota.cancel_requests c JOIN rota.open_runs o ON o.id = c.run_id
        WHERE o.state <> 'running' OR o.attempt > c.attempt
        FOR UPDATE OF c, o SKIP LOCKED
    LOOP
        IF late.state = 'running' THEN
            UPDATE rota.cancel_requests SET worker = late.worker, attempt = late.attempt WHERE run_id = late.run_id;
            PERFORM pg_notify('rota', 'cancel ' || late.worker);
        ELSE
            PERFORM rota.end_waiting_runs(ARRAY[late.run_id], 'cancelled', late.why);
        END IF;
    END LOOP;
END $$;

-- Why a job starts nothing: somebody disabled it, or no code has it any more. NULL: it does.
-- Called by: note_skipped_inits, sql/jobs/plan.sql, sql/schedules/read_due.sql.
CREATE FUNCTION rota.job_refusal(job text) RETURNS text LANGUAGE sql STABLE SET jit = off AS $$
    SELECT CASE WHEN NOT j.is_enabled THEN 'job_disabled' WHEN j.name IS NULL OR j.deleted_from_code_at IS NOT NULL
        THEN 'job_deleted' END
    FROM (SELECT 1) one LEFT JOIN rota.jobs j ON j.name = job_refusal.job
$$;

-- What no live worker knows leaves the claim's way, and comes back with a worker that does (free_known_runs). The
-- counts by job say whether there is anything to look for, one worker looks, and what is found is named by its
-- place, as in a claim (docs/decisions/0005-plan-pinning.md). A suspect is parked like any other run, so that it
-- fails in the end; freed, it is a suspect again. A run whose job only sleeping workers know waits for them. What is
-- parked gives its slots back.
-- Called by: sql/upkeep/park.sql.
-- Locks: "depths" if it is free, rows that nobody else has locked.
CREATE FUNCTION rota.park_unknown_runs(max_runs integer) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET lock_timeout = '5s' SET jit = off AS $$
DECLARE
    known   text[] := ARRAY(SELECT DISTINCT unnest(w.jobs) FROM rota.workers w
        WHERE w.state = 'live' OR rota.is_asleep(w));
    unknown text[] := ARRAY(SELECT DISTINCT d.job FROM rota.depths d WHERE d.queued > d.held AND d.job <> ALL (known));
    parked   integer;
    suspects integer;
BEGIN
    UPDATE rota.open_runs o SET held_by = 'no_worker', held_at = rota.now()
    WHERE o.ctid = ANY (ARRAY(SELECT q.ctid FROM rota.open_runs q WHERE q.held_by = 'suspect' AND q.job <> ALL (known)
                              LIMIT max_runs FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS suspects = ROW_COUNT;
    -- The lock of those who count, as this corrects their counts: else every worker would look again.
    IF unknown = '{}' OR NOT rota.try_lock('depths') THEN
        RETURN suspects;
    END IF;
    WITH chosen AS MATERIALIZED (
        SELECT q.id, q.slots FROM rota.open_runs q
        WHERE q.is_ready AND q.worker IS NULL AND q.job = ANY (unknown)
        LIMIT max_runs FOR UPDATE SKIP LOCKED
    ), parked AS (
        UPDATE rota.open_runs o SET held_by = 'no_worker', held_at = rota.now(), slots = NULL
        WHERE o.id = ANY (ARRAY(SELECT c.id FROM chosen c))
        RETURNING o.id
    ), released AS (
        INSERT INTO rota.limit_releases (key, amount)
        SELECT k, count(*) FROM chosen c CROSS JOIN LATERAL unnest(c.slots) k WHERE c.slots IS NOT NULL GROUP BY k
    )
    SELECT count(*) INTO parked FROM parked;
    IF parked < max_runs THEN
        -- No more are left until the next count says so.
        UPDATE rota.depths d SET held = d.queued WHERE d.job = ANY (unknown) AND d.queued > d.held;
    END IF;
    RETURN parked + suspects;
END $$;

-- What was parked comes back when a live worker knows its job. One under a limit waits for its admission next, but a
-- suspect has kept its slots.
-- Called by: sql/upkeep/free.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.free_known_runs(max_runs integer) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET lock_timeout = '5s' SET jit = off AS $$
DECLARE
    known   text[] := ARRAY(SELECT DISTINCT unnest(w.jobs) FROM rota.workers w WHERE w.state = 'live');
    touched text[];
    freed   integer;
BEGIN
    WITH freed AS (
        UPDATE rota.open_runs o
        SET held_by = CASE WHEN o.is_suspect AND (o.limit_keys IS NULL OR o.slots IS NOT NULL) THEN 'suspect'
            WHEN o.limit_keys IS NOT NULL THEN 'limit' END,
            limit_key = (rota.missing_keys(o.limit_keys, o.slots))[1], held_at = NULL, enqueued_at = clock_timestamp()
        WHERE o.ctid = ANY (ARRAY(SELECT q.ctid FROM rota.open_runs q
                                  WHERE q.held_by = 'no_worker' AND q.job = ANY (known)
                                  LIMIT max_runs FOR UPDATE SKIP LOCKED))
        RETURNING o.queue
    )
    SELECT count(*), array_agg(DISTINCT queue) INTO freed, touched FROM freed;
    PERFORM rota.wake(coalesce(touched, '{}'));
    PERFORM rota.wake_admission() WHERE freed > 0;
    RETURN freed;
END $$;

-- Fails what was parked for longer than this: nobody will come. Counted from the parking and not from the enqueue:
-- an old backlog must not fail because its only worker restarts.
-- Called by: sql/upkeep/fail_unknown.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.fail_unknown_runs(after_seconds double precision, max_runs integer) RETURNS SETOF bigint
LANGUAGE sql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET lock_timeout = '5s' AS $$
    SELECT rota.end_waiting_runs(
        ARRAY(SELECT o.id FROM rota.open_runs o
              WHERE o.held_by = 'no_worker' AND o.job = ANY (ARRAY(SELECT DISTINCT d.job FROM rota.depths d
                  WHERE d.held > 0))
                AND o.held_at <= rota.now() - make_interval(secs => after_seconds)
              LIMIT max_runs FOR UPDATE SKIP LOCKED),
        'failed', 'unknown job', 'JobUnavailable', format('no live worker knew the job for %s s', after_seconds))
$$;

-- Small leftovers: keys past their period, requests for attempts that are over, workers that nobody will ask about,
-- marks older than any history.
-- Called by: sql/upkeep/sweep.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.sweep(max_rows integer) RETURNS integer LANGUAGE plpgsql VOLATILE SET jit = off
SET lock_timeout = '5s' AS $$
DECLARE
    removed integer;
    n       integer;
BEGIN
    DELETE FROM rota.keys k WHERE k.ctid = ANY (ARRAY(
        SELECT e.ctid FROM rota.keys e WHERE e.expires_at <= rota.now() ORDER BY e.expires_at LIMIT max_rows
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS removed = ROW_COUNT;
    PERFORM rota.settle_cancels();
    DELETE FROM rota.cancel_requests r WHERE r.ctid = ANY (ARRAY(
        SELECT c.ctid FROM rota.cancel_requests c
        WHERE NOT EXISTS (SELECT FROM rota.open_runs o WHERE o.id = c.run_id AND o.attempt = c.attempt
            AND o.state = 'running')
          -- One whose run waits again is settled first, above.
          AND NOT EXISTS (SELECT FROM rota.open_runs o
              WHERE o.id = c.run_id AND (o.state <> 'running' OR o.attempt > c.attempt))
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    removed := removed + n;
    DELETE FROM rota.workers w WHERE w.ctid = ANY (ARRAY(
        SELECT o.ctid FROM rota.workers o
        WHERE o.state IN ('gone', 'lost') AND o.ended_at < clock_timestamp() - interval '7 days'
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    removed := removed + n;
    DELETE FROM rota.batch_starts s WHERE s.ctid = ANY (ARRAY(
        SELECT b.ctid FROM rota.batch_starts b
        WHERE NOT EXISTS (SELECT FROM rota.workers w WHERE w.id = b.worker
                          AND (w.ended_at IS NULL OR w.ended_at > clock_timestamp() - 20 *
                              make_interval(secs => w.lease_seconds)))
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN removed + n;
END $$;

-- 13_logs.sql

-- `logs`: the lines of runs, in partitions by day. Words are searched by GIN indexes that are built in spans behind
-- the writers (`log_spans`, `next_log_index`), because an index that follows every line costs the writers more than
-- it brings.

-- Evidence, accepted after the attempt ended: not fenced by intent.
CREATE TABLE rota.logs (
    at      timestamptz NOT NULL,
    run_id  bigint NOT NULL,
    worker  bigint NOT NULL,
    attempt integer NOT NULL,
    seq     integer NOT NULL,
    level   text COLLATE "C" NOT NULL CHECK (level IN ('debug', 'info', 'warning', 'error', 'critical')),
    job     text COLLATE "C" NOT NULL,
    tenant  text COLLATE "C" NOT NULL DEFAULT '',
    message text NOT NULL,
    fields  jsonb
) PARTITION BY RANGE (at);
CREATE INDEX logs_run ON rota.logs (run_id, attempt, seq);
CREATE INDEX logs_job ON rota.logs (job, at);
CREATE INDEX logs_at ON rota.logs (at);
CREATE INDEX logs_bad ON rota.logs (at) WHERE level IN ('warning', 'error', 'critical');

INSERT INTO rota.partitioned VALUES ('logs', 1);
SELECT rota.ensure_partitions(rota.now() - interval '1 day', rota.now() + interval '7 days');

-- Trigger: takes the log level from the code, unless somebody has edited it.
CREATE FUNCTION rota.follow_log_level() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF rota.is_syncing() AND NEW.code ? 'log_level' AND NOT NEW.edited ? 'log_level' THEN
        NEW.log_level := NEW.code ->> 'log_level';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER jobs_log_level BEFORE INSERT OR UPDATE OF code ON rota.jobs FOR EACH ROW
    EXECUTE FUNCTION rota.follow_log_level();

-- Spans of time whose words are indexed, or shall be: a row comes first, its index after it, outside of any
-- transaction. One is ready when its index is there and valid.
CREATE TABLE rota.log_spans (
    index_name text COLLATE "C" PRIMARY KEY,
    partition  text COLLATE "C" NOT NULL,
    from_at    timestamptz NOT NULL,
    to_at      timestamptz NOT NULL CHECK (to_at > from_at),
    bytes      bigint NOT NULL,  -- of the partition when the span was closed
    UNIQUE (partition, from_at)
);

-- The partitions of the lines, with their bounds.
-- Called by: index_log_words, next_log_index, searchable_spans.
CREATE FUNCTION rota.log_partitions()
RETURNS TABLE (partition text, relation regclass, from_at timestamptz, to_at timestamptz) LANGUAGE sql STABLE AS $$
    SELECT c.relname::text, c.oid::regclass, (regexp_match(b.bound, $r$FROM \('([^']+)'\)$r$))[1]::timestamptz,
           (regexp_match(b.bound, $r$TO \('([^']+)'\)$r$))[1]::timestamptz
    FROM pg_partition_tree('rota.logs') t JOIN pg_class c ON c.oid = t.relid
    CROSS JOIN LATERAL (SELECT pg_get_expr(c.relpartbound, c.oid) AS bound) b
    WHERE t.isleaf AND b.bound ~ 'FROM'
$$;

-- The words of a line. Cut, because a tsvector holds less than a megabyte and one line must not stop an index.
-- Called by: many.
CREATE FUNCTION rota.log_words(message text, fields jsonb) RETURNS tsvector LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT to_tsvector('simple', left(message, 100000)) || CASE
        WHEN fields IS NULL THEN ''
        WHEN length(fields::text) <= 100000 THEN jsonb_to_tsvector('simple', fields, '["all"]')
        ELSE to_tsvector('simple', left(fields::text, 100000)) END
$$;

-- Words and phrases that somebody looks for, as one query; `time*` is a beginning. NULL: nothing in it is a word.
-- Called by: sql/logs/start.sql.
CREATE FUNCTION rota.log_query(wanted text[], unwanted text[]) RETURNS tsquery LANGUAGE plpgsql STABLE
SET jit = off AS $$
DECLARE
    answer tsquery := '';
    phrase text;
    part   tsquery;
BEGIN
    FOREACH phrase IN ARRAY wanted LOOP
        part := phraseto_tsquery('simple', rtrim(phrase, '*'));
        IF numnode(part) = 0 THEN
            RETURN NULL;
        ELSIF phrase LIKE '%*' THEN
            part := (part::text || ':*')::tsquery;
        END IF;
        answer := answer && part;
    END LOOP;
    FOREACH phrase IN ARRAY unwanted LOOP
        answer := answer && !!phraseto_tsquery('simple', phrase);
    END LOOP;
    RETURN answer;
END $$;

-- Indexes the words of a partition, for roles that do not own it. Lines that come in for that partition wait
-- meanwhile, so it is done to days that are over.
-- Called by: next_log_index.
CREATE FUNCTION rota.index_log_words(name text) RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET jit = off SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
    span record;
BEGIN
    SELECT s.index_name, s.from_at, s.to_at, p.relation INTO span
    FROM rota.log_spans s JOIN rota.log_partitions() p ON p.partition = s.partition
    WHERE s.index_name = index_log_words.name;
    IF FOUND THEN
        EXECUTE format('DROP INDEX IF EXISTS rota.%I', span.index_name);
        EXECUTE format(
            'CREATE INDEX %I ON %s USING gin (rota.log_words(message, fields)) WITH (fastupdate = off) '
            'WHERE at >= %L AND at < %L',
                       span.index_name, span.relation, span.from_at, span.to_at);
    END IF;
END $$;
REVOKE ALL ON FUNCTION rota.index_log_words(text) FROM PUBLIC;

-- Closes the span that is due next, and returns the statement that builds an index which is missing. A partition
-- that has ended gets the rest of its words in one index; an open one is cut as soon as what has no index grows too
-- large to be read. Looks at index builds of this database only: other databases of the server may have the same
-- table numbers, where both were copied from one template. For a role that does not own the lines the owner's
-- function indexes them, once their day is over.
-- Called by: sql/upkeep/next_log_index.sql.
CREATE FUNCTION rota.next_log_index(least_bytes bigint) RETURNS TABLE (leftover text, statement text, analysis text)
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    clock timestamptz := rota.now();
    is_owner boolean := (SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_class c WHERE c.oid = 'rota.logs'::regclass);
    part  record;
    last  record;
    size  bigint;
    until timestamptz;
BEGIN
    DELETE FROM rota.log_spans s WHERE NOT EXISTS (SELECT FROM rota.log_partitions() p WHERE p.partition = s.partition);
    FOR part IN SELECT * FROM rota.log_partitions() p WHERE p.from_at < clock ORDER BY p.from_at DESC LOOP
        SELECT s.to_at, s.bytes INTO last FROM rota.log_spans s WHERE s.partition = part.partition ORDER BY s.to_at DESC
        LIMIT 1;
        size := pg_relation_size(part.relation);
        -- Lines come some seconds late; what comes later still is indexed by the insert.
        until := least(clock - interval '1 minute', part.to_at);
        IF size > 0 AND until > coalesce(last.to_at, part.from_at)
           AND (until = part.to_at OR (is_owner AND size - coalesce(last.bytes, 0) >= greatest(least_bytes, size / 8)))
               THEN
            INSERT INTO rota.log_spans VALUES (
                format('%s_words_%s', part.partition,
                    to_char(coalesce(last.to_at, part.from_at) AT TIME ZONE 'UTC', 'HH24MISSUS')),
                part.partition, coalesce(last.to_at, part.from_at), until, size)
            ON CONFLICT DO NOTHING;
        END IF;
    END LOOP;
    FOR part IN SELECT s.*, p.relation, s.from_at > p.from_at OR s.to_at < p.to_at AS is_partial
                FROM rota.log_spans s JOIN rota.log_partitions() p ON p.partition = s.partition
                WHERE NOT EXISTS (SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
                                  WHERE i.indrelid = p.relation AND c.relname = s.index_name AND i.indisvalid)
                  AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index b
                      WHERE b.datname = current_database() AND b.relid = p.relation)
                ORDER BY s.from_at DESC LIMIT 1 LOOP
        IF NOT is_owner THEN
            statement := format('SELECT rota.index_log_words(%L)', part.index_name);
            analysis := 'SELECT';
            RETURN NEXT;
            CONTINUE;
        END IF;
        -- An invalid one is what a crash has left, or somebody builds it: the lock of the table tells.
        leftover := (SELECT format('DROP INDEX CONCURRENTLY IF EXISTS %s', c.oid::regclass) FROM pg_class c
            JOIN pg_index i ON i.indexrelid = c.oid
                     WHERE i.indrelid = part.relation AND c.relname = part.index_name);
        statement := format(
            'CREATE INDEX CONCURRENTLY %I ON %s USING gin (rota.log_words(message, fields)) WITH (fastupdate = off)',
                            part.index_name, part.relation)
            || CASE WHEN part.is_partial THEN format(' WHERE at >= %L AND at < %L', part.from_at, part.to_at)
                ELSE '' END;
        -- The planner has to know how rare a word is.
        analysis := format('ANALYZE %s', part.relation);
        RETURN NEXT;
    END LOOP;
END $$;

-- What can be searched, the newest first: partitions cut where their words are indexed.
-- Called by: sql/logs/spans.sql.
CREATE FUNCTION rota.searchable_spans(since timestamptz, until timestamptz)
RETURNS TABLE (from_at timestamptz, to_at timestamptz, is_indexed boolean) LANGUAGE sql STABLE AS $$
    WITH parts AS MATERIALIZED (
        SELECT * FROM rota.log_partitions() p
        WHERE (since IS NULL OR p.to_at > since) AND (until IS NULL OR p.from_at < until)
    ), ready AS MATERIALIZED (
        SELECT s.partition, s.from_at, s.to_at FROM rota.log_spans s
        JOIN parts p ON p.partition = s.partition
        JOIN pg_index i ON i.indrelid = p.relation AND i.indisvalid
        JOIN pg_class c ON c.oid = i.indexrelid AND c.relname = s.index_name
    ), cuts AS (
        SELECT p.partition, p.from_at AS at FROM parts p UNION SELECT p.partition, p.to_at FROM parts p
        UNION SELECT r.partition, r.from_at FROM ready r UNION SELECT r.partition, r.to_at FROM ready r
    ), pieces AS (
        SELECT c.partition, c.at AS from_at, lead(c.at) OVER (PARTITION BY c.partition ORDER BY c.at) AS to_at
        FROM cuts c
    )
    SELECT p.from_at, p.to_at, EXISTS (SELECT FROM ready r WHERE r.partition = p.partition AND r.from_at <= p.from_at
        AND r.to_at >= p.to_at)
    FROM pieces p WHERE p.to_at IS NOT NULL ORDER BY p.to_at DESC
$$;

-- 14_operate.sql

-- What people do with runs: `cancel_run`, `retry_run`, `delete_run`, `act_on_runs` for a page of them, and
-- `bulk_actions` for all that a filter finds, carried out in batches by workers (`start_bulk_action`,
-- `advance_bulk_action`). `run_views` are saved filters.

-- Cancels a waiting run at once ('cancelled'), and asks the worker of a running one ('requested'). One that has
-- expired ends as expired.
-- Called by: act_on_runs, delete_job, settle_full, sql/runs/cancel.sql, sql/schedules/cancel_others.sql, users.
CREATE FUNCTION rota.cancel_run(run_id bigint, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    who    text := coalesce(cancel_run.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    why    text := 'cancelled by ' || who || coalesce(': ' || cancel_run.reason, '');
    held   record;
    answer text;
BEGIN
    PERFORM rota.settle_expired(cancel_run.run_id);
    FOR try IN 1..3 LOOP
        SELECT o.state, o.worker, o.attempt, o.tenant INTO held FROM rota.open_runs o WHERE o.id = cancel_run.run_id;
        EXIT WHEN NOT FOUND;
        IF held.state = 'running' THEN
            -- Not a lock on the run: the batch that ends it would wait for this transaction.
            INSERT INTO rota.cancel_requests (run_id, worker, attempt, requested_by, reason)
            VALUES (cancel_run.run_id, held.worker, held.attempt, who, cancel_run.reason)
            ON CONFLICT (run_id) DO UPDATE SET worker = excluded.worker, attempt = excluded.attempt,
                requested_by = excluded.requested_by, reason = excluded.reason, requested_at = excluded.requested_at;
            PERFORM pg_notify('rota', 'cancel ' || held.worker);
            answer := 'requested';
        ELSIF EXISTS (SELECT FROM rota.end_waiting_runs(ARRAY[cancel_run.run_id], 'cancelled', why)) THEN
            answer := 'cancelled';
        END IF;
        IF answer IS NOT NULL THEN
            PERFORM rota.write_audit(who, 'run.cancelled', 'run', cancel_run.run_id::text,
                jsonb_build_object('state', held.state), jsonb_build_object('state', answer), cancel_run.reason,
                held.tenant);
            RETURN answer;
        END IF;
    END LOOP;
    answer := (rota.find_ended(cancel_run.run_id)).state;
    IF answer IS NULL THEN
        RAISE EXCEPTION 'there is no run %', cancel_run.run_id USING ERRCODE = 'RO004';
    END IF;
    RAISE EXCEPTION 'run % has already ended (%)', cancel_run.run_id, answer
        USING ERRCODE = 'RO005', HINT = 'Only a run that has not ended can be cancelled.';
END $$;

-- The same run, under its id, once more: attempt numbers go on, the allowance rises by the job's number, its key is
-- taken again, its last error keeps its group, and the limits are those that hold now.
-- Called by: act_on_runs, sql/runs/retry.sql, users.
CREATE FUNCTION rota.retry_run(
    run_id bigint, payload jsonb DEFAULT NULL, delay interval DEFAULT NULL, reason text DEFAULT NULL,
    actor text DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock  timestamptz := rota.now();
    old    rota.ended_runs;
    place  record;
    extra  integer;
    schema jsonb;
    wrong  text;
    holder bigint;
    open_state text;
    at     timestamptz;
    keys   text[];
    capped boolean := false;
BEGIN
    PERFORM rota.settle_expired(retry_run.run_id);
    place := rota.find_ended(retry_run.run_id);
    DELETE FROM rota.ended_runs r
    WHERE r.id = retry_run.run_id AND r.keep_class = place.keep_class AND r.finished_at = place.finished_at
      AND r.state IN ('failed', 'cancelled')
    RETURNING r.* INTO old;
    IF NOT FOUND THEN
        open_state := coalesce((SELECT o.state FROM rota.open_runs o WHERE o.id = retry_run.run_id), place.state);
        IF open_state IS NULL THEN
            RAISE EXCEPTION 'there is no run %', retry_run.run_id USING ERRCODE = 'RO004';
        END IF;
        RAISE EXCEPTION 'run % is %', retry_run.run_id, open_state
            USING ERRCODE = 'RO005', HINT = 'Only a run that failed or was cancelled can be retried.';
    END IF;
    SELECT j.max_attempts, j.payload_schema INTO extra, schema FROM rota.jobs j WHERE j.name = old.job;
    IF NOT FOUND THEN
        PERFORM rota.unknown_job(old.job);
    END IF;
    wrong := CASE WHEN jsonb_typeof(retry_run.payload) = 'object'
        THEN rota.payload_problem(schema, retry_run.payload) END;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'run %: the payload does not fit job "%": %', old.id, old.job, wrong
            USING ERRCODE = 'RO018', HINT = 'rota.jobs.payload_schema describes its arguments.';
    END IF;
    PERFORM rota.check_options(old.job, coalesce(retry_run.payload, '{}'), s.payload_bytes, NULL, NULL, NULL, NULL,
        NULL, NULL, delay => retry_run.delay) FROM rota.settings s;
    at := clock + coalesce(retry_run.delay, '0');
    IF old.key IS NOT NULL THEN
        DELETE FROM rota.keys k WHERE k.tenant = old.tenant AND k.job = old.job AND k.key = old.key
            AND k.run_id = old.id;
        holder := rota.take_key(old.tenant, old.job, old.key, old.id);
        IF holder <> old.id THEN
            RAISE EXCEPTION 'run % cannot be retried: its key "%" is held by run %', old.id, old.key, holder
                USING ERRCODE = 'RO003', DETAIL = holder::text;
        END IF;
    END IF;
    DELETE FROM rota.cancel_requests c WHERE c.run_id = old.id;
    IF EXISTS (SELECT FROM rota.settings s WHERE old.queue = ANY (s.capped_queues)) THEN
        capped := rota.check_cap(old.queue);
    END IF;
    IF EXISTS (SELECT FROM rota.settings s WHERE s.has_limits) THEN
        keys := rota.limit_keys_of(old.job, old.queue, old.tenant, old.schedule,
            coalesce(retry_run.payload, old.payload));
    END IF;
    -- The last attempt lived in the row that goes; it becomes a past one. What the last
    -- attempt had spent stays spent, and the allowance rises above it.
    IF old.attempt_state IS NOT NULL THEN
        INSERT INTO rota.past_attempts (run_id, attempt, state, worker, started_at, finished_at, duration_ms,
            is_redelivery, is_spent, job, tenant, message, details, error_type, error, traceback)
        VALUES (old.id, old.attempt, old.attempt_state, old.worker, old.started_at, old.finished_at, old.duration_ms,
            old.is_redelivery, old.attempt_state <> 'cancelled', old.job, old.tenant, old.message, old.details,
            old.error_type, old.error, old.traceback);
    END IF;
    INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, queue, job, tenant, payload, priority,
        attempt, attempts_used, max_attempts, expires_at, timeout_seconds, key, key_seconds, backoff, tags, metadata,
        triggered_by, schedule, scheduled_for, schedule_id, last_error, error_group, limit_keys, limit_key, held_by,
        is_capped)
    VALUES (old.id, nextval('rota.run_ids'), old.created_at, clock_timestamp(), at,
        CASE WHEN at > clock THEN 'scheduled' ELSE 'queued' END, old.queue, old.job, old.tenant,
        coalesce(retry_run.payload, old.payload), old.priority, old.attempt,
        old.attempts_used, least(greatest(old.max_attempts, old.attempts_used + extra), 32767), NULL,
        old.timeout_seconds, old.key, old.key_seconds, old.backoff, old.tags, old.metadata, old.triggered_by,
        old.schedule, old.scheduled_for, old.schedule_id, old.error, old.error_group,
        keys, keys[1], CASE WHEN keys IS NOT NULL AND at <= clock THEN 'limit' END, capped);
    PERFORM rota.write_audit(retry_run.actor, 'run.retried', 'run', old.id::text,
        jsonb_build_object('state', old.state, 'payload', old.payload),
        jsonb_build_object('state', CASE WHEN at > clock THEN 'scheduled' ELSE 'queued' END, 'payload',
            coalesce(retry_run.payload, old.payload)), retry_run.reason, old.tenant);
    IF at > clock THEN
        PERFORM rota.wake_later(at - clock);
    ELSIF keys IS NOT NULL THEN
        PERFORM rota.wake_admission();
    ELSE
        PERFORM rota.wake(ARRAY[old.queue]);
    END IF;
    RETURN old.id;
END $$;

-- Deletes attempts and lines of these runs, none of which was created before the instant.
-- Called by: delete_run, delete_tenant_part, prune_runs, prune_tenant, prune_traces.
CREATE FUNCTION rota.delete_traces(ids bigint[], since timestamptz) RETURNS bigint LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET plan_cache_mode = force_custom_plan SET jit = off AS $$
DECLARE
    attempts bigint;
    lines    bigint;
BEGIN
    DELETE FROM rota.past_attempts p WHERE p.run_id = ANY (ids) AND p.finished_at >= since;
    GET DIAGNOSTICS attempts = ROW_COUNT;
    DELETE FROM rota.logs l WHERE l.run_id = ANY (ids) AND l.at >= since;
    GET DIAGNOSTICS lines = ROW_COUNT;
    RETURN attempts + lines;
END $$;

-- Deletes an ended run with its attempts and lines. Its payload goes too: whoever deletes it wants it gone, so the
-- audit has no copy. Attempts and lines are looked for from the mark of its id on: a run that was created while the
-- clock was ahead has some that are older than it.
-- Called by: act_on_runs, sql/runs/delete.sql, users.
CREATE FUNCTION rota.delete_run(run_id bigint, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    place record := rota.find_ended(delete_run.run_id);
    old   rota.ended_runs;
    open_state text;
BEGIN
    PERFORM rota.settle_expired(delete_run.run_id); place := rota.find_ended(delete_run.run_id);
    DELETE FROM rota.ended_runs r
    WHERE r.id = delete_run.run_id AND r.keep_class = place.keep_class AND r.finished_at = place.finished_at
    RETURNING r.* INTO old;
    IF NOT FOUND THEN
        SELECT o.state INTO open_state FROM rota.open_runs o WHERE o.id = delete_run.run_id;
        IF open_state IS NULL THEN
            RAISE EXCEPTION 'there is no run %', delete_run.run_id USING ERRCODE = 'RO004';
        END IF;
        RAISE EXCEPTION 'run % is %', delete_run.run_id, open_state
            USING ERRCODE = 'RO005', HINT = 'Only a run that has ended can be deleted: cancel it first.';
    END IF;
    PERFORM rota.delete_traces(ARRAY[old.id], least(old.created_at, rota.created_after(old.id)));
    PERFORM rota.write_audit(delete_run.actor, 'run.deleted', 'run', old.id::text,
        jsonb_build_object('job', old.job, 'state', old.state, 'finished_at', old.finished_at), NULL, delete_run.reason,
        old.tenant);
END $$;

-- One action on many runs, each on its own: neither a refused run nor one that cannot be written stops the others of
-- its batch. Fewer than 64 in a call, because each is a subtransaction and more of them make every other snapshot
-- slow.
-- Called by: sql/runs/act_on_many.sql, users.
CREATE FUNCTION rota.act_on_runs(
    action text, ids bigint[], payload jsonb DEFAULT NULL, delay interval DEFAULT NULL, reason text DEFAULT NULL,
    actor text DEFAULT NULL
) RETURNS TABLE (run_id bigint, answer text, refusal text, code text) LANGUAGE plpgsql VOLATILE
SET lock_timeout = '2s' SET jit = off AS $$
#variable_conflict use_variable
BEGIN
    IF action NOT IN ('cancel', 'retry', 'delete') THEN
        RAISE EXCEPTION 'unknown action "%"', action
            USING ERRCODE = 'RO002', HINT = 'Choose from cancel, retry, delete.';
    END IF;
    -- In one order, so that two who act on the same runs do not wait for each other.
    FOR run_id IN SELECT DISTINCT one FROM unnest(ids) AS one ORDER BY one LOOP
        answer := NULL;
        refusal := NULL;
        code := NULL;
        BEGIN
            CASE action
            WHEN 'cancel' THEN answer := rota.cancel_run(run_id => run_id, reason => reason, actor => actor);
            WHEN 'retry' THEN
                PERFORM rota.retry_run(run_id => run_id, payload => payload, delay => delay, reason => reason,
                    actor => actor);
                answer := 'retried';
            WHEN 'delete' THEN
                PERFORM rota.delete_run(run_id => run_id, reason => reason, actor => actor);
                answer := 'deleted';
            END CASE;
        EXCEPTION
            WHEN lock_not_available THEN
                code := SQLSTATE;
                refusal := format('run %s is locked by another transaction', run_id);
            WHEN OTHERS THEN
                -- Of class 22 and 23: something in this one row cannot be written.
                IF SQLSTATE !~ '^(RO|22|23)' THEN
                    RAISE;
                END IF;
                code := SQLSTATE;
                refusal := SQLERRM;
        END;
        RETURN NEXT;
    END LOOP;
END $$;

-- An action on all runs of a filter, as an object of its own. Workers carry it out in small batches: a batch and what
-- it did to the counts and the place are one transaction, so whoever takes over after a crash begins where the last
-- batch ended.
CREATE TABLE rota.bulk_actions (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    verb          text NOT NULL CHECK (verb IN ('retry', 'cancel', 'delete')),
    filter        jsonb NOT NULL CONSTRAINT bulk_actions_filter
        CHECK (jsonb_typeof(filter) = 'object' AND filter - 'system' <> '{}'),
    payload       jsonb CONSTRAINT bulk_actions_payload
        CHECK (payload IS NULL OR (verb = 'retry' AND jsonb_typeof(payload) = 'object')),
    delay_seconds double precision CONSTRAINT bulk_actions_delay CHECK (delay_seconds IS NULL
        OR (verb = 'retry' AND delay_seconds BETWEEN 0 AND 3153600000)),
    most          bigint CHECK (most > 0),
    -- Runs a second.
    rate          double precision CHECK (rate BETWEEN 0.01 AND 1000000),
    actor         text NOT NULL,
    reason        text,
    state         text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'paused', 'stopped', 'finished')),
    done          bigint NOT NULL DEFAULT 0,
    skipped       bigint NOT NULL DEFAULT 0,
    failed        bigint NOT NULL DEFAULT 0,
    -- Runs below this id are still to be looked at; NULL: all have been.
    below_id      bigint,
    -- How many there are is counted beside the work, and may be late.
    counted       bigint NOT NULL DEFAULT 0,
    counted_below bigint,
    -- Runs that somebody's transaction had locked: tried again at the end.
    held          bigint[] NOT NULL DEFAULT '{}',
    held_tries    integer NOT NULL DEFAULT 0,
    problems      jsonb NOT NULL DEFAULT '[]',
    error         text,
    created_at    timestamptz NOT NULL,
    changed_at    timestamptz NOT NULL,
    -- Of the next batch, by the real clock.
    next_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at   timestamptz
);
CREATE INDEX bulk_actions_open ON rota.bulk_actions (next_at) WHERE state = 'running';
COMMENT ON TABLE rota.bulk_actions
    IS 'Bulk actions on all runs that match a filter: the action, its progress, the actor and the reason.';

-- Begins one action on all runs that a filter finds; workers carry it out in batches (advance_bulk_action). Runs
-- that come later are not touched.
-- Called by: sql/bulk/start.sql, users.
CREATE FUNCTION rota.start_bulk_action(
    verb text, filter jsonb, payload jsonb DEFAULT NULL, delay_seconds double precision DEFAULT NULL,
    most bigint DEFAULT NULL, rate double precision DEFAULT NULL, reason text DEFAULT NULL, actor text DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    who  text := coalesce(start_bulk_action.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    -- No run that comes later is touched.
    high bigint := (SELECT s.last_value + 1 FROM rota.run_ids s);
    made bigint;
    known constant text[] := '{states,job,queue,tenant,tag,key,schedule,worker,text,error,error_group,payload_fields,'
        'since,until,ended_since,ended_until,dead,handled,system}';
    odd  text;
BEGIN
    -- Left out, it would fit more runs than somebody meant.
    SELECT k INTO odd FROM jsonb_object_keys(start_bulk_action.filter) k
    WHERE jsonb_typeof(start_bulk_action.filter) = 'object' AND k <> ALL (known) LIMIT 1;
    IF odd IS NOT NULL THEN
        RAISE EXCEPTION 'unknown filter "%"', odd
            USING ERRCODE = 'RO002', HINT = 'Choose from ' || array_to_string(known, ', ') || '.';
    END IF;
    INSERT INTO rota.bulk_actions (verb, filter, payload, delay_seconds, most, rate, actor, reason, below_id,
        counted_below, created_at, changed_at)
    VALUES (start_bulk_action.verb, start_bulk_action.filter, start_bulk_action.payload,
            start_bulk_action.delay_seconds, start_bulk_action.most, start_bulk_action.rate, who,
            start_bulk_action.reason, high, high, rota.now(), rota.now())
    RETURNING id INTO made;
    PERFORM rota.write_audit(who, 'bulk.started', 'bulk', made::text, NULL, jsonb_strip_nulls(jsonb_build_object(
        'verb', start_bulk_action.verb, 'filter', start_bulk_action.filter, 'most', start_bulk_action.most, 'rate',
        start_bulk_action.rate)), start_bulk_action.reason);
    PERFORM pg_notify('rota', 'bulk');
    RETURN made;
END $$;

-- Notes how far a bulk action has come, after a batch and in its transaction, by whoever has locked the row. The
-- last one writes to the audit what came of it.
-- Called by: sql/bulk/advance.sql.
CREATE FUNCTION rota.advance_bulk_action(
    action_id bigint, below_id bigint, done integer, skipped integer, failed integer, held bigint[], held_tries integer,
    problems jsonb, counted bigint, counted_below bigint, is_over boolean, pause_seconds double precision
) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    new rota.bulk_actions;
BEGIN
    UPDATE rota.bulk_actions b SET below_id = advance_bulk_action.below_id, done = b.done + advance_bulk_action.done,
        skipped = b.skipped + advance_bulk_action.skipped, failed = b.failed + advance_bulk_action.failed,
        held = advance_bulk_action.held, held_tries = advance_bulk_action.held_tries,
        -- A few say what was wrong; all of them would be as many as the runs.
        problems = jsonb_path_query_array(b.problems || advance_bulk_action.problems, '$[0 to 19]'),
        counted = advance_bulk_action.counted, counted_below = advance_bulk_action.counted_below, error = NULL,
        state = CASE WHEN is_over THEN 'finished' ELSE b.state END, finished_at = CASE WHEN is_over THEN rota.now() END,
        changed_at = rota.now(), next_at = clock_timestamp() + make_interval(secs => pause_seconds)
    WHERE b.id = action_id RETURNING b.* INTO new;
    IF is_over THEN
        PERFORM rota.write_audit(new.actor, 'bulk.finished', 'bulk', action_id::text, NULL, jsonb_build_object(
            'verb', new.verb, 'done', new.done, 'skipped', new.skipped, 'failed', new.failed), new.reason);
    END IF;
END $$;

-- Moves a bulk action to a state, from one of those that may become it; waits for the batch that is under way.
-- Returns whether it wrote: false if it was in that state already.
-- Called by: pause_bulk_action, resume_bulk_action, stop_bulk_action.
-- Locks: rows.
CREATE FUNCTION rota.move_bulk_action(action_id bigint, wanted text, fitting text[], word text, reason text, actor text)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET lock_timeout = '10s' SET jit = off AS $$
DECLARE
    old rota.bulk_actions;
BEGIN
    SELECT * INTO old FROM rota.bulk_actions b WHERE b.id = action_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no bulk action %', action_id USING ERRCODE = 'RO011';
    END IF;
    IF old.state = wanted THEN
        RETURN false;
    ELSIF old.state <> ALL (fitting) THEN
        RAISE EXCEPTION 'bulk action % is %', action_id, old.state USING ERRCODE = 'RO005';
    END IF;
    UPDATE rota.bulk_actions b SET state = wanted, changed_at = rota.now(), next_at = clock_timestamp(), error = NULL,
        finished_at = CASE WHEN wanted = 'stopped' THEN rota.now() END
    WHERE b.id = action_id;
    PERFORM rota.write_audit(actor, 'bulk.' || word, 'bulk', action_id::text, jsonb_build_object('state', old.state),
        jsonb_build_object('state', wanted, 'verb', old.verb, 'done', old.done, 'skipped', old.skipped, 'failed',
            old.failed), reason);
    PERFORM pg_notify('rota', 'bulk');
    RETURN true;
END $$;

-- Pauses a bulk action between two of its batches.
-- Called by: sql/bulk/pause.sql, users.
CREATE FUNCTION rota.pause_bulk_action(action_id bigint, reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS boolean LANGUAGE sql VOLATILE SET jit = off AS $$
    SELECT rota.move_bulk_action(action_id, 'paused', ARRAY['running'], 'paused', reason, actor)
$$;

-- A paused bulk action goes on.
-- Called by: sql/bulk/resume.sql, users.
CREATE FUNCTION rota.resume_bulk_action(action_id bigint, reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS boolean LANGUAGE sql VOLATILE SET jit = off AS $$
    SELECT rota.move_bulk_action(action_id, 'running', ARRAY['paused'], 'resumed', reason, actor)
$$;

-- Changes how many runs a second a bulk action acts on.
-- Called by: sql/bulk/throttle.sql, users.
-- Locks: rows.
CREATE FUNCTION rota.throttle_bulk_action(action_id bigint, rate double precision, reason text DEFAULT NULL,
    actor text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE SET lock_timeout = '10s' SET jit = off AS $$
DECLARE
    old rota.bulk_actions;
BEGIN
    SELECT * INTO old FROM rota.bulk_actions b WHERE b.id = action_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no bulk action %', action_id USING ERRCODE = 'RO011';
    END IF;
    IF old.state NOT IN ('running', 'paused') THEN
        RAISE EXCEPTION 'bulk action % is %', action_id, old.state USING ERRCODE = 'RO005';
    END IF;
    UPDATE rota.bulk_actions b SET rate = throttle_bulk_action.rate, changed_at = rota.now(),
        next_at = clock_timestamp() WHERE b.id = action_id;
    PERFORM rota.write_audit(throttle_bulk_action.actor, 'bulk.throttled', 'bulk', action_id::text,
        jsonb_build_object('rate', old.rate), jsonb_build_object('rate', throttle_bulk_action.rate),
        throttle_bulk_action.reason);
    PERFORM pg_notify('rota', 'bulk');
END $$;

-- Ends a bulk action between two of its batches; what is done stays done.
-- Called by: sql/bulk/stop.sql, users.
CREATE FUNCTION rota.stop_bulk_action(action_id bigint, reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS boolean LANGUAGE sql VOLATILE SET jit = off AS $$
    SELECT rota.move_bulk_action(action_id, 'stopped', ARRAY['running', 'paused'], 'stopped', reason, actor)
$$;

-- Filters of the list of runs that somebody has given a name, for everybody who looks at it.
CREATE TABLE rota.run_views (
    name       text COLLATE "C" PRIMARY KEY CHECK (name <> '' AND length(name) <= 100),
    query      text NOT NULL CHECK (query <> '' AND length(query) <= 4000),
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT rota.now()
);
COMMENT ON TABLE rota.run_views IS 'Saved filters of the list of runs, by name.';

-- Saves a view of runs under a name, or replaces it: the query that lists of runs take.
-- Called by: sql/views/save.sql, users.
-- Locks: rows.
CREATE FUNCTION rota.save_run_view(name text, query text, reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    who text := coalesce(save_run_view.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    old text;
BEGIN
    SELECT v.query INTO old FROM rota.run_views v WHERE v.name = save_run_view.name FOR UPDATE;
    INSERT INTO rota.run_views AS v (name, query, created_by) VALUES (save_run_view.name, save_run_view.query, who)
    ON CONFLICT ON CONSTRAINT run_views_pkey DO UPDATE SET query = excluded.query, created_by = excluded.created_by,
        created_at = excluded.created_at;
    PERFORM rota.write_audit(who, 'view.saved', 'view', save_run_view.name,
        CASE WHEN old IS NOT NULL THEN jsonb_build_object('query', old) END,
        jsonb_build_object('query', save_run_view.query), save_run_view.reason);
END $$;

-- Deletes a saved view of runs.
-- Called by: sql/views/delete.sql, users.
CREATE FUNCTION rota.delete_run_view(name text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    old text;
BEGIN
    DELETE FROM rota.run_views v WHERE v.name = delete_run_view.name RETURNING v.query INTO old;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no view "%"', delete_run_view.name USING ERRCODE = 'RO014';
    END IF;
    PERFORM rota.write_audit(delete_run_view.actor, 'view.deleted', 'view', delete_run_view.name,
        jsonb_build_object('query', old), NULL, delete_run_view.reason);
END $$;

-- 15_schedules.sql

-- `schedules` with `calendars` and `schedule_templates`; `ledger`, one row for each nominal time and the decision
-- about it; `backfills`. People write the tables, triggers check and audit. The times are computed by the tick
-- (16_tick), never here: SQL knows no cron.

-- When a schedule is closed or open. The definition is read by Python.
CREATE TABLE rota.calendars (
    name        text COLLATE "C" PRIMARY KEY CHECK (name <> '' AND length(name) <= 100),
    description text NOT NULL DEFAULT '',
    definition  jsonb NOT NULL CHECK (jsonb_typeof(definition) = 'object'),
    updated_at  timestamptz NOT NULL DEFAULT rota.now(),
    version     bigint NOT NULL DEFAULT 1
);
COMMENT ON TABLE rota.calendars IS 'Holidays, weekends and closed windows, shared by schedules.';
CREATE TRIGGER calendars_version BEFORE UPDATE ON rota.calendars FOR EACH ROW
    EXECUTE FUNCTION rota.raise_version('{version,updated_at}');

-- The zone of a calendar is checked as that of a schedule (29_values). What else is wrong with a definition, the tick
-- says.
CREATE TRIGGER calendars_audit AFTER INSERT OR UPDATE OR DELETE ON rota.calendars FOR EACH ROW
    EXECUTE FUNCTION rota.audit_row('calendar', 'created', 'updated', 'deleted', '{version,updated_at}');

-- Cron lines with a name, offered where somebody makes a schedule.
CREATE TABLE rota.schedule_templates (
    name        text PRIMARY KEY CHECK (name <> '' AND length(name) <= 100),
    cron        text NOT NULL,
    description text NOT NULL DEFAULT '',
    version     bigint NOT NULL DEFAULT 1
);
CREATE TRIGGER schedule_templates_version BEFORE UPDATE ON rota.schedule_templates FOR EACH ROW
    EXECUTE FUNCTION rota.raise_version('{version}');

INSERT INTO rota.schedule_templates (name, cron, description) VALUES
    ('Every 5 minutes', '*/5 * * * *', 'Every five minutes'),
    ('Every 15 minutes', '*/15 * * * *', 'Every quarter of an hour'),
    ('Hourly', '0 * * * *', 'Every hour on the hour'),
    ('Every 6 hours', '0 */6 * * *', 'At 00:00, 06:00, 12:00 and 18:00'),
    ('Daily midnight', '0 0 * * *', 'Every day at midnight'),
    ('Daily 3 AM', '0 3 * * *', 'Every day at 3 AM, a quiet hour for upkeep'),
    ('Daily 9 AM', '0 9 * * *', 'Every day at 9 AM'),
    ('Weekdays 9 AM', '0 9 * * 1-5', 'Monday to Friday at 9 AM'),
    ('Weekly Monday 8 AM', '0 8 * * 1', 'Every Monday at 8 AM'),
    ('Weekly Sunday midnight', '0 0 * * 0', 'Every Sunday at midnight'),
    ('Monthly first midnight', '0 0 1 * *', 'The first of every month at midnight'),
    ('Monthly last day 6 PM', '0 18 L * *', 'The last day of every month at 6 PM'),
    ('Quarterly', '0 0 1 1,4,7,10 *', 'The first day of every quarter at midnight'),
    ('Yearly', '0 0 1 1 *', 'The first of January at midnight');
-- After the rows that every installation has.
CREATE TRIGGER schedule_templates_audit AFTER INSERT OR UPDATE OR DELETE ON rota.schedule_templates FOR EACH ROW
    EXECUTE FUNCTION rota.audit_row('template', 'added', 'updated', 'removed', '{version}');

-- Whether a cron expression has as many fields as it must; a macro (@daily) has none. Python reads what they say.
-- Called by: check_schedule_words, check_template.
CREATE FUNCTION rota.has_cron_fields(cron text, fields integer[]) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT cron ~ '^\s*@' OR array_length(regexp_split_to_array(btrim(cron), '\s+'), 1) = ANY (fields)
$$;

-- Trigger: refuses a template whose cron expression can be none.
CREATE FUNCTION rota.check_template() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF NOT rota.has_cron_fields(NEW.cron, '{5,6}') THEN
        RAISE EXCEPTION 'template "%": cron "%" does not have 5 or 6 fields', NEW.name, NEW.cron
            USING ERRCODE = 'RO002', HINT = 'Six fields begin with the seconds.';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER schedule_templates_check BEFORE INSERT OR UPDATE OF cron ON rota.schedule_templates FOR EACH ROW
    EXECUTE FUNCTION rota.check_template();

-- One row for each schedule: what it runs, when, and how far it has come. People edit it, the tick moves it on;
-- `tick_version` tells the tick that a row has changed since it was read, `version` tells people that somebody has
-- edited it since.
CREATE TABLE rota.schedules (
    id                   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant               text COLLATE "C" NOT NULL DEFAULT '',
    name                 text COLLATE "C" NOT NULL CHECK (name <> '' AND length(name) <= 200),
    job                  text COLLATE "C" NOT NULL,
    description          text NOT NULL DEFAULT '',
    tags                 text[] NOT NULL DEFAULT '{}',
    metadata             jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    -- When: exactly one of four.
    cron                 text,
    interval_seconds     double precision CHECK (interval_seconds >= 1),
    run_at               timestamptz,
    init                 text CHECK (init IN ('once', 'release', 'start')),
    has_seconds          boolean NOT NULL DEFAULT false,
    timezone             text NOT NULL DEFAULT 'UTC',
    gap                  text NOT NULL DEFAULT 'run_after' CHECK (gap IN ('run_after', 'skip')),
    fold                 text NOT NULL DEFAULT 'first' CHECK (fold IN ('first', 'second', 'both')),
    every_from           text NOT NULL DEFAULT 'start' CHECK (every_from IN ('start', 'end')),
    start_at             timestamptz,
    end_at               timestamptz,
    max_runs             integer CHECK (max_runs >= 1),
    jitter_seconds       double precision NOT NULL DEFAULT 0 CHECK (jitter_seconds >= 0),
    calendar             text,
    on_closed            text NOT NULL DEFAULT 'skip' CHECK (on_closed IN ('skip', 'next_day')),
    -- Policies.
    catch_up             text NOT NULL DEFAULT 'latest' CHECK (catch_up IN ('none', 'latest', 'all')),
    catch_up_seconds     double precision CHECK (catch_up_seconds >= 0),
    catch_up_limit       integer NOT NULL DEFAULT 100 CHECK (catch_up_limit >= 1),
    grace_seconds        double precision NOT NULL DEFAULT 60 CHECK (grace_seconds >= 0),
    overlap              text NOT NULL DEFAULT 'skip'
        CHECK (overlap IN ('skip', 'queue_one', 'queue_all', 'cancel_running', 'allow')),
    max_concurrent_runs  integer NOT NULL DEFAULT 1 CHECK (max_concurrent_runs >= 1),
    pause_after_failures integer CHECK (pause_after_failures >= 1),
    requires             jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(requires) = 'array'),
    is_shadow            boolean NOT NULL DEFAULT false,
    delete_when_finished boolean NOT NULL DEFAULT false,
    -- What its runs get.
    payload              jsonb CHECK (jsonb_typeof(payload) = 'object'),
    queue                text COLLATE "C" CHECK (queue <> ''),
    priority             smallint CHECK (priority BETWEEN 0 AND 9),
    max_attempts         smallint CHECK (max_attempts BETWEEN 1 AND 100),
    timeout_seconds      real CHECK (timeout_seconds > 0),
    run_tags             text[],
    run_metadata         jsonb CHECK (jsonb_typeof(run_metadata) = 'object'),
    -- What operators say.
    is_enabled           boolean NOT NULL DEFAULT true,
    paused_at            timestamptz,
    paused_by            text,
    pause_reason         text,
    paused_until         timestamptz,
    is_system            boolean NOT NULL DEFAULT false,
    created_at           timestamptz NOT NULL DEFAULT rota.now(),
    updated_at           timestamptz NOT NULL DEFAULT rota.now(),
    updated_by           text,
    -- Where it stands: written by the tick and by the ends of its runs.
    tick_version         bigint NOT NULL DEFAULT 1,
    anchor_at            timestamptz,
    cursor_at            timestamptz,                 -- everything up to here is decided
    next_run_at          timestamptz,                 -- NULL: the next tick computes it
    -- Stretches that end before now and are decided already, each with the timing it had:
    -- [{timing, until, decision, reason}], oldest first.
    segments             jsonb NOT NULL DEFAULT '[]',
    moved_to             timestamptz,                 -- an instant that an operator set for the next time
    finished_at          timestamptz,
    parked_at            timestamptz,
    error                text,
    run_count            bigint NOT NULL DEFAULT 0,
    failures_in_a_row    integer NOT NULL DEFAULT 0,
    last_enqueued_at     timestamptz,
    last_run_at          timestamptz,
    last_run_success     boolean,
    last_success_at      timestamptz,
    last_success_for     timestamptz,
    is_ticking           boolean NOT NULL GENERATED ALWAYS AS (is_enabled AND finished_at IS NULL AND parked_at IS NULL
                                                               AND (paused_at IS NULL
                                                                   OR paused_until IS NOT NULL)) STORED,
    origin               text CHECK (origin IN ('definition', 'code')),
    code                 jsonb CHECK (jsonb_typeof(code) = 'object'),
    edited               jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(edited) = 'object'),
    version              bigint NOT NULL DEFAULT 1,
    parked_times         integer NOT NULL DEFAULT 0,  -- in a row
    retry_at             timestamptz,                 -- when a parked one is tried again
    -- When a tick has something to do: at the end of the pause, at once, or at the next time.
    due_at               timestamptz GENERATED ALWAYS AS (
        CASE WHEN paused_at IS NOT NULL THEN paused_until
             WHEN segments <> '[]' OR next_run_at IS NULL THEN '1000-01-01 00:00Z'
             ELSE next_run_at END) STORED,
    -- Schedules that are due at one instant are spread over a few seconds, unless they say burst_allowed. The start of
    -- the run moves (run_at), the nominal time does not.
    burst_allowed        boolean NOT NULL DEFAULT false,
    -- Whose code says it at its start (app.schedule), so that a line that was removed is seen; NULL: nobody's, or said
    -- at run time.
    application          text COLLATE "C",
    CONSTRAINT schedules_name UNIQUE (tenant, name),
    CONSTRAINT schedules_timing CHECK (num_nonnulls(cron, interval_seconds, run_at, init) = 1),
    CONSTRAINT schedules_pause CHECK (paused_at IS NOT NULL OR (paused_until IS NULL AND pause_reason IS NULL)),
    CONSTRAINT schedules_bounds CHECK (end_at > start_at),
    CONSTRAINT schedules_every_from CHECK (every_from = 'start' OR interval_seconds IS NOT NULL)
) WITH (fillfactor = 70);
CREATE INDEX schedules_job ON rota.schedules (job);
CREATE INDEX schedules_finished ON rota.schedules (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX schedules_parked ON rota.schedules (retry_at) WHERE parked_at IS NOT NULL;
CREATE INDEX schedules_due ON rota.schedules (due_at, id) WHERE is_ticking AND init IS NULL;
CREATE INDEX schedules_stopped ON rota.schedules (paused_at) WHERE paused_by = 'rota' AND paused_at IS NOT NULL;
CREATE TRIGGER schedules_edits BEFORE UPDATE OF description, tags, metadata, cron, interval_seconds, run_at, init,
    has_seconds, timezone, gap, fold, every_from, start_at, end_at, max_runs, jitter_seconds, burst_allowed, calendar,
    on_closed, catch_up, catch_up_seconds, catch_up_limit, grace_seconds, overlap, max_concurrent_runs,
    pause_after_failures, requires, is_shadow, payload, queue, priority, max_attempts, timeout_seconds, run_tags,
    run_metadata, is_enabled, delete_when_finished ON rota.schedules FOR EACH ROW WHEN ((old.code IS NOT NULL))
    EXECUTE FUNCTION rota.note_edits();
CREATE TRIGGER schedules_guard_system BEFORE DELETE ON rota.schedules FOR EACH ROW WHEN (OLD.is_system)
    EXECUTE FUNCTION rota.keep_system();

-- Refuses a schedule (RO002), in words that name it.
-- Called by: check_requires, check_schedule_timeout, check_schedule_words, move_schedule, pause_schedule, reschedule.
CREATE FUNCTION rota.bad_schedule(name text, what text, hint text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
BEGIN
    IF hint IS NULL THEN
        RAISE EXCEPTION 'schedule "%": %', name, what USING ERRCODE = 'RO002';
    END IF;
    RAISE EXCEPTION 'schedule "%": %', name, what USING ERRCODE = 'RO002', HINT = hint;
END $$;

-- Everything of a schedule that says when: what a stretch of the past was decided by.
-- Called by: check_schedule.
CREATE FUNCTION rota.timing_of(s rota.schedules) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'cron', s.cron, 'interval_seconds', s.interval_seconds, 'run_at', s.run_at, 'has_seconds', s.has_seconds,
        'timezone', s.timezone, 'gap', s.gap, 'fold', s.fold, 'every_from', s.every_from,
        'start_at', s.start_at, 'end_at', s.end_at, 'anchor_at', s.anchor_at)
$$;

-- Checks what SQL can check; the tick parks the rest with its error.
-- Called by: check_schedule.
CREATE FUNCTION rota.check_schedule_words(s rota.schedules) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    fields constant integer := CASE WHEN s.has_seconds THEN 6 ELSE 5 END;
BEGIN
    IF NOT EXISTS (SELECT FROM rota.jobs j WHERE j.name = s.job) THEN
        PERFORM rota.unknown_job(s.job);
    END IF;
    IF s.calendar IS NOT NULL AND NOT EXISTS (SELECT FROM rota.calendars c WHERE c.name = s.calendar) THEN
        PERFORM rota.bad_schedule(s.name, format('there is no calendar "%s"', s.calendar));
    END IF;
    IF NOT rota.has_cron_fields(s.cron, ARRAY[fields]) THEN
        PERFORM rota.bad_schedule(s.name, format('cron "%s" does not have %s fields', s.cron, fields),
            'Six fields (seconds first) require has_seconds.');
    END IF;
END $$;

-- Checks what a schedule requires: names of schedules or jobs that exist, each with a period or not. Those that code
-- declares together may require each other; the process that declares them checks that.
-- Called by: check_schedule.
CREATE FUNCTION rota.check_requires(s rota.schedules) RETURNS void LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    is_code boolean := s.origin IS NOT NULL OR coalesce(current_setting('rota' || '.syncing', true), '') = 'on';
    one     jsonb;
BEGIN
    FOR one IN SELECT e FROM jsonb_array_elements(s.requires) e LOOP
        IF (CASE WHEN jsonb_typeof(one) <> 'object' THEN true
                 WHEN coalesce(one ->> 'name', '') = '' OR one - '{name,within_seconds}'::text[] <> '{}' THEN true
                 WHEN jsonb_typeof(one -> 'within_seconds') = 'number' THEN (one ->> 'within_seconds')::numeric <= 0
                 ELSE jsonb_typeof(one -> 'within_seconds') <> 'null' END) THEN
            PERFORM rota.bad_schedule(s.name, format('requires cannot contain %s', left(one::text, 100)),
                'Write for example [{"name": "import", "within_seconds": 3600}].');
        ELSIF NOT is_code AND NOT EXISTS (SELECT FROM rota.jobs j WHERE j.name = one ->> 'name')
            AND NOT EXISTS (SELECT FROM rota.schedules o WHERE o.tenant = s.tenant AND o.name = one ->> 'name') THEN
            PERFORM rota.bad_schedule(s.name, format('requires "%s": no schedule or job has that name',
                one ->> 'name'));
        END IF;
    END LOOP;
END $$;

-- Trigger: checks a schedule and works out what an edit means for its times. Cron cannot be computed here:
-- next_run_at becomes NULL, and the tick, or the Python that edits, fills it in.
CREATE FUNCTION rota.check_schedule() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    clock    timestamptz := rota.now();
    told     text;
    is_timed boolean;       -- another timing
BEGIN
    -- The tick counts tick_version up itself: what it writes is no edit.
    IF TG_OP = 'UPDATE' AND NEW.tick_version <> OLD.tick_version THEN
        RETURN NEW;
    END IF;
    -- Only what is new: the end of a run may pause a schedule whose calendar is gone, and must not fail.
    IF TG_OP = 'INSERT' OR (NEW.job, NEW.calendar, NEW.timezone, NEW.cron, NEW.has_seconds)
       IS DISTINCT FROM (OLD.job, OLD.calendar, OLD.timezone, OLD.cron, OLD.has_seconds) THEN
        PERFORM rota.check_schedule_words(NEW);
    END IF;
    IF jsonb_typeof(NEW.requires) = 'array' AND (TG_OP = 'INSERT' OR NEW.requires IS DISTINCT FROM OLD.requires) THEN
        PERFORM rota.check_requires(NEW);
    END IF;

    IF TG_OP = 'INSERT' THEN
        -- It owes nothing from before it was made. A start a moment ago still counts.
        NEW.anchor_at := coalesce(NEW.anchor_at, NEW.start_at, clock);
        NEW.cursor_at := coalesce(NEW.cursor_at, least(clock, CASE
            WHEN coalesce(NEW.start_at, NEW.run_at) > clock - make_interval(secs => NEW.grace_seconds)
            THEN coalesce(NEW.start_at, NEW.run_at) - interval '1 microsecond' ELSE clock END));
        IF NEW.next_run_at IS NOT NULL THEN
            NEW := rota.move_schedule(NEW, NEW.next_run_at);
        END IF;
        RETURN NEW;
    END IF;

    told := CASE WHEN NOT OLD.is_enabled THEN 'disabled' WHEN OLD.paused_at IS NOT NULL THEN 'paused' END;
    NEW.tick_version := OLD.tick_version + 1;
    NEW.updated_at := clock;
    NEW.updated_by := coalesce(nullif(current_setting('rota' || '.actor', true), ''), session_user);
    IF NEW.interval_seconds IS DISTINCT FROM OLD.interval_seconds OR NEW.start_at IS DISTINCT FROM OLD.start_at THEN
        NEW.anchor_at := coalesce(NEW.start_at, clock);
    END IF;
    is_timed := rota.timing_of(OLD) <> rota.timing_of(NEW) OR NEW.init IS DISTINCT FROM OLD.init;
    IF is_timed OR (NOT OLD.is_enabled AND NEW.is_enabled) OR (OLD.paused_at IS NOT NULL AND NEW.paused_at IS NULL) THEN
        IF OLD.init IS NULL AND OLD.finished_at IS NULL AND clock > OLD.cursor_at THEN
            NEW.segments := OLD.segments || jsonb_build_object('timing', rota.timing_of(OLD), 'until', clock,
                'decision', CASE WHEN told IS NULL THEN 'superseded' ELSE 'skipped' END, 'reason',
                coalesce(told, 'edited'));
        ELSE
            NEW.cursor_at := greatest(OLD.cursor_at, clock);
        END IF;
    END IF;
    -- Any edit revives; if there is nothing left to do, the tick finishes it again. It owes nothing meanwhile.
    IF OLD.finished_at IS NOT NULL THEN
        NEW.finished_at := NULL;
        NEW.cursor_at := greatest(OLD.cursor_at, clock);
    END IF;
    IF OLD.paused_at IS NOT NULL AND NEW.paused_at IS NULL THEN
        NEW.failures_in_a_row := 0;
    END IF;
    NEW.parked_at := NULL;
    NEW.error := NULL;
    NEW.parked_times := 0;
    NEW.retry_at := NULL;
    IF NEW.next_run_at IS DISTINCT FROM OLD.next_run_at AND NEW.next_run_at IS NOT NULL THEN
        NEW := rota.move_schedule(NEW, NEW.next_run_at);
    ELSE
        -- An edit of the timing also decides the next time; other edits keep a time that an operator set.
        NEW.moved_to := CASE WHEN NOT is_timed THEN NEW.moved_to END;
        NEW.next_run_at := NEW.moved_to;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER schedules_check BEFORE INSERT OR UPDATE OF name, tenant, job, cron, interval_seconds, run_at, init,
    has_seconds, timezone, gap, fold, every_from, start_at, end_at, max_runs, jitter_seconds, burst_allowed, calendar,
    on_closed, catch_up, catch_up_seconds, catch_up_limit, grace_seconds, overlap, max_concurrent_runs,
    pause_after_failures, requires, is_shadow, payload, queue, priority, max_attempts, timeout_seconds, run_tags,
    run_metadata, is_enabled, paused_at, paused_until, pause_reason ON rota.schedules FOR EACH ROW
    EXECUTE FUNCTION rota.check_schedule();

-- Trigger: schedules have the same least timeout as jobs and runs.
CREATE FUNCTION rota.check_schedule_timeout() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF TG_OP = 'INSERT' OR NEW.timeout_seconds IS DISTINCT FROM OLD.timeout_seconds THEN
        PERFORM rota.bad_schedule(NEW.name, format('timeout_seconds %s is less than 0.001 (a millisecond)',
            NEW.timeout_seconds));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER schedules_least_timeout BEFORE INSERT OR UPDATE OF timeout_seconds ON rota.schedules
FOR EACH ROW WHEN (NEW.timeout_seconds < real '0.001') EXECUTE FUNCTION rota.check_schedule_timeout();

-- Whether a JSON value may be of a type of a JSON schema. Says yes wherever the handler's types might take it: a number
-- may come as text, an instant as a number, and what is behind a reference is not looked at.
-- Called by: payload_problem.
CREATE FUNCTION rota.fits_type(schema jsonb, given jsonb) RETURNS boolean LANGUAGE plpgsql IMMUTABLE
SET jit = off AS $$
DECLARE
    kind text := jsonb_typeof(given);
    said text := given #>> '{}';
BEGIN
    IF jsonb_typeof(schema -> 'anyOf') = 'array' THEN
        RETURN EXISTS (SELECT FROM jsonb_array_elements(schema -> 'anyOf') a WHERE rota.fits_type(a, given));
    END IF;
    RETURN CASE schema ->> 'type'
        WHEN 'string' THEN kind = 'string' OR (kind = 'number' AND schema ? 'format')
        WHEN 'integer' THEN kind = 'boolean' OR (kind = 'number' AND said::numeric % 1 = 0)
            OR (kind = 'string' AND said ~ '[0-9]')
        WHEN 'number' THEN kind IN ('boolean', 'number') OR (kind = 'string' AND said ~ '[0-9]')
        WHEN 'boolean' THEN kind = 'boolean' OR (kind IN ('number', 'string') AND
            said ~* '^(0|1|0\.0|1\.0|t|f|y|n|true|false|yes|no|on|off)$')
        WHEN 'array' THEN kind = 'array'
        WHEN 'object' THEN kind = 'object'
        WHEN 'null' THEN kind = 'null'
        ELSE true END;
END $$;

-- What keeps a payload from being that of a job, in words, by the top level of the job's JSON schema: arguments that
-- are missing, unknown or of another type. NULL: nothing that can be seen here; a job whose arguments are not known
-- (a SQL function) takes all.
-- Called by: check_default_payload, check_schedule_payload, retry_run, sql/schedules/payload_problems.sql,
-- trigger_schedule.
CREATE FUNCTION rota.payload_problem(schema jsonb, payload jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE
SET jit = off AS $$
DECLARE
    known constant jsonb := CASE WHEN jsonb_typeof(schema -> 'properties') = 'object' THEN schema -> 'properties'
        ELSE '{}' END;
    names constant text := coalesce((SELECT string_agg(k, ', ') FROM jsonb_object_keys(known) k), 'none');
    given record;
BEGIN
    FOR given IN SELECT r.name FROM jsonb_array_elements_text(CASE WHEN jsonb_typeof(schema -> 'required') = 'array'
        THEN schema -> 'required' ELSE '[]' END) r (name) LOOP
        IF NOT payload ? given.name THEN
            RETURN format('argument %s is missing', given.name);
        END IF;
    END LOOP;
    FOR given IN SELECT e.key, e.value FROM jsonb_each(payload) e LOOP
        IF known ? given.key AND NOT rota.fits_type(known -> given.key, given.value) THEN
            RETURN format('argument %s has the wrong type: %s', given.key, left(given.value::text, 60));
        ELSIF NOT known ? given.key AND schema -> 'additionalProperties' = 'false' THEN
            RETURN format('unknown argument %s; the job takes %s', given.key, names);
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

-- Trigger: refuses a payload that the schedule's job would not take, where it is written. What code declares is checked
-- by the process that declares it, which knows the types: a build that is older than what the job says now must start.
CREATE FUNCTION rota.check_schedule_payload() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    problem text;
BEGIN
    IF rota.is_syncing() OR (TG_OP = 'INSERT' AND NEW.code IS NOT NULL)
        OR (TG_OP = 'UPDATE' AND (NEW.job, NEW.payload) IS NOT DISTINCT FROM (OLD.job, OLD.payload)) THEN
        RETURN NEW;
    END IF;
    -- One that is no object is refused by its constraint.
    SELECT rota.payload_problem(j.payload_schema, p.given) INTO problem
    FROM rota.jobs j, LATERAL (SELECT coalesce(NEW.payload, j.default_payload, '{}') AS given) p
    WHERE j.name = NEW.job AND jsonb_typeof(p.given) = 'object';
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'schedule "%": its payload does not fit job "%": %', NEW.name, NEW.job, problem
            USING ERRCODE = 'RO018', HINT =
            'rota.jobs.payload_schema describes its arguments; without a payload, the default payload of the job is '
            'used.';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER schedules_payload BEFORE INSERT OR UPDATE OF job, payload ON rota.schedules FOR EACH ROW
    EXECUTE FUNCTION rota.check_schedule_payload();

-- Trigger: a plain UPDATE of next_run_at is a reschedule. Whoever counts tick_version up has computed it.
CREATE FUNCTION rota.check_next_run() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    at timestamptz := CASE WHEN NEW.next_run_at IS DISTINCT FROM OLD.next_run_at THEN NEW.next_run_at
        ELSE NEW.moved_to END;
BEGIN
    IF at IS NULL THEN
        NEW.moved_to := NULL;
        NEW.next_run_at := NULL;
    ELSE
        NEW := rota.move_schedule(NEW, at);
    END IF;
    NEW.tick_version := OLD.tick_version + 1;
    NEW.version := OLD.version + 1;
    NEW.updated_at := rota.now();
    NEW.updated_by := coalesce(nullif(current_setting('rota' || '.actor', true), ''), session_user);
    RETURN NEW;
END $$;
CREATE TRIGGER schedules_check_next BEFORE UPDATE OF next_run_at, moved_to ON rota.schedules FOR EACH ROW
WHEN (NEW.tick_version = OLD.tick_version
      AND (NEW.next_run_at, NEW.moved_to) IS DISTINCT FROM (OLD.next_run_at, OLD.moved_to))
EXECUTE FUNCTION rota.check_next_run();

-- Trigger: version grows with every edit. What a tick and the end of a run write is no edit, and neither is a
-- pause that they begin or end.
CREATE FUNCTION rota.raise_schedule_version() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    hidden text[] :=
        '{tick_version,version,anchor_at,cursor_at,next_run_at,segments,moved_to,finished_at,parked_at,'
        'error,run_count,failures_in_a_row,last_enqueued_at,last_run_at,last_run_success,last_success_at,'
        'last_success_for,is_ticking,due_at,updated_at,updated_by,created_at,origin,code,edited}';
BEGIN
    -- A trigger at the end of a run begins it, the tick ends it under the name of Rota.
    IF (NEW.paused_by = 'rota' AND pg_trigger_depth() > 1) OR current_setting('rota' || '.actor', true) = 'rota' THEN
        hidden := hidden || '{paused_at,paused_by,paused_until,pause_reason}'::text[];
    END IF;
    NEW.version := OLD.version + (to_jsonb(OLD) - hidden IS DISTINCT FROM to_jsonb(NEW) - hidden)::integer;
    RETURN NEW;
END $$;
CREATE TRIGGER schedules_version BEFORE UPDATE OF name, tenant, job, description, tags, metadata, cron,
    interval_seconds, run_at, init, has_seconds, timezone, gap, fold, every_from, start_at, end_at, max_runs,
    jitter_seconds, burst_allowed, calendar, on_closed, catch_up, catch_up_seconds, catch_up_limit, grace_seconds,
    overlap, max_concurrent_runs, pause_after_failures, requires, is_shadow, payload, queue, priority, max_attempts,
    timeout_seconds, run_tags, run_metadata, is_enabled, paused_at, paused_until, pause_reason, delete_when_finished
    ON rota.schedules FOR EACH ROW EXECUTE FUNCTION rota.raise_schedule_version();

-- Trigger: writes who changed what, and wakes the tick.
CREATE FUNCTION rota.audit_schedule() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    hidden constant text[] :=
        '{tick_version,version,anchor_at,cursor_at,next_run_at,segments,moved_to,run_count,'
        'failures_in_a_row,last_enqueued_at,last_run_at,last_run_success,last_success_at,last_success_for,is_ticking,'
        'due_at,updated_at,updated_by,created_at,id}';
    before jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) - hidden END;
    after  jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) - hidden END;
BEGIN
    IF before IS DISTINCT FROM after THEN
        PERFORM rota.write_audit(NULL, CASE TG_OP WHEN 'INSERT' THEN 'schedule.created' WHEN 'DELETE'
            THEN 'schedule.deleted'
            ELSE CASE WHEN OLD.paused_at IS NULL AND NEW.paused_at IS NOT NULL THEN 'schedule.paused'
                      WHEN OLD.paused_at IS NOT NULL AND NEW.paused_at IS NULL THEN 'schedule.resumed'
                      WHEN NOT OLD.is_enabled AND NEW.is_enabled THEN 'schedule.enabled'
                      WHEN OLD.is_enabled AND NOT NEW.is_enabled THEN 'schedule.disabled'
                      ELSE 'schedule.updated' END END,
            'schedule', coalesce(NEW.name, OLD.name),
            CASE WHEN TG_OP = 'UPDATE' THEN (SELECT jsonb_object_agg(o.key, o.value) FROM jsonb_each(before) o
                WHERE o.value IS DISTINCT FROM after -> o.key) ELSE before END,
            CASE WHEN TG_OP = 'UPDATE' THEN (SELECT jsonb_object_agg(n.key, n.value) FROM jsonb_each(after) n
                WHERE n.value IS DISTINCT FROM before -> n.key) ELSE after END,
            CASE WHEN TG_OP = 'UPDATE' AND NEW.pause_reason IS DISTINCT FROM OLD.pause_reason THEN NEW.pause_reason END,
            coalesce(NEW.tenant, OLD.tenant));
    END IF;
    PERFORM pg_notify('rota', 'schedules');
    RETURN NULL;
END $$;
CREATE TRIGGER schedules_audit AFTER INSERT OR DELETE OR UPDATE OF name, tenant, job, description, tags, metadata, cron,
    interval_seconds, run_at, init, has_seconds, timezone, gap, fold, every_from, start_at, end_at, max_runs,
    jitter_seconds, burst_allowed, calendar, on_closed, catch_up, catch_up_seconds, catch_up_limit, grace_seconds,
    overlap, max_concurrent_runs, pause_after_failures, requires, is_shadow, payload, queue, priority, max_attempts,
    timeout_seconds, run_tags, run_metadata, is_enabled, paused_at, paused_until, pause_reason, delete_when_finished,
    moved_to ON rota.schedules FOR EACH ROW EXECUTE FUNCTION rota.audit_schedule();

-- Trigger: writes to the audit that somebody moved the next time of a schedule, and wakes the tick.
CREATE FUNCTION rota.audit_next_run() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF NEW.moved_to IS DISTINCT FROM OLD.moved_to AND NEW.moved_to IS NOT NULL THEN
        PERFORM rota.write_audit(NULL, 'schedule.rescheduled', 'schedule', NEW.name,
            jsonb_build_object('next_run_at', OLD.next_run_at), jsonb_build_object('next_run_at', NEW.next_run_at),
            NULL, NEW.tenant);
    END IF;
    PERFORM pg_notify('rota', 'schedules');
    RETURN NULL;
END $$;
CREATE TRIGGER schedules_audit_next AFTER UPDATE OF next_run_at, moved_to ON rota.schedules FOR EACH ROW
WHEN (NEW.version <> OLD.version)
EXECUTE FUNCTION rota.audit_next_run();

-- The ledger of a schedule outlives it, and is found by its name.
CREATE TABLE rota.deleted_schedules (
    schedule_id bigint PRIMARY KEY,
    tenant      text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    deleted_at  timestamptz NOT NULL DEFAULT rota.now()
);
CREATE INDEX deleted_schedules_name ON rota.deleted_schedules (tenant, name);
CREATE INDEX deleted_schedules_at ON rota.deleted_schedules (deleted_at);

-- Trigger: remembers deleted schedules by their number, for as long as their ledger may be read.
CREATE FUNCTION rota.note_deleted_schedule() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    INSERT INTO rota.deleted_schedules (schedule_id, tenant, name) VALUES (OLD.id, OLD.tenant, OLD.name);
    -- Longer than any ledger is kept.
    DELETE FROM rota.deleted_schedules d WHERE d.deleted_at < rota.now() - interval '400 days';
    RETURN NULL;
END $$;
CREATE TRIGGER schedules_deleted AFTER DELETE ON rota.schedules FOR EACH ROW
    EXECUTE FUNCTION rota.note_deleted_schedule();

-- What was decided about each nominal time, or about a stretch of them. Outlives runs and schedules.
CREATE TABLE rota.ledger (
    schedule_id bigint NOT NULL,
    nominal_at  timestamptz NOT NULL,
    through_at  timestamptz NOT NULL,
    count       integer NOT NULL DEFAULT 1 CHECK (count >= 1),
    decision    text COLLATE "C" NOT NULL CHECK (decision IN ('ran', 'caught_up', 'skipped', 'missed', 'superseded')),
    reason      text COLLATE "C",
    tenant      text COLLATE "C" NOT NULL,
    schedule    text COLLATE "C" NOT NULL,
    is_moved    boolean NOT NULL DEFAULT false,  -- an instant that an operator set
    details     jsonb,
    claimed_at  timestamptz NOT NULL,
    decided_at  timestamptz NOT NULL,
    decided_by  bigint,
    enqueued_at timestamptz,
    run_id      bigint,
    -- How its run ended: the ledger outlives the runs.
    state       text COLLATE "C",
    success     boolean,
    duration_ms real,
    lateness_ms double precision,
    error       text,
    CONSTRAINT ledger_pkey PRIMARY KEY (schedule_id, nominal_at),
    CONSTRAINT ledger_span CHECK (through_at >= nominal_at AND (count = 1) = (through_at = nominal_at)),
    CONSTRAINT ledger_run CHECK ((run_id IS NOT NULL) = (decision IN ('ran', 'caught_up'))),
    CONSTRAINT ledger_reason CHECK (decision IN ('ran', 'caught_up') OR reason IS NOT NULL)
) PARTITION BY RANGE (nominal_at);
-- Missed times of the last day, and schedules that were paused because their runs failed: few rows among many.
CREATE INDEX ledger_missed ON rota.ledger (decided_at) WHERE decision = 'missed';

-- A week back too: what was missed while nobody was there is written into the week of its nominal time.
INSERT INTO rota.partitioned VALUES ('ledger', 7);
SELECT rota.ensure_partitions(rota.now() - interval '8 days', rota.now() + interval '7 days');

-- Makes partitions of the ledger for the weeks of these instants only: times far back have a decision too (a
-- schedule enabled again after years).
-- Called by: sql/schedules/ensure_ledger.sql.
-- Locks: "partitions".
CREATE FUNCTION rota.ensure_ledger(instants timestamptz[]) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET jit = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    monday date;
BEGIN
    PERFORM rota.take_lock('partitions');
    FOR monday IN SELECT DISTINCT date_trunc('week', at AT TIME ZONE 'UTC')::date FROM unnest(instants) AS at LOOP
        CONTINUE WHEN to_regclass('rota.ledger_' || to_char(monday, 'YYYYMMDD')) IS NOT NULL;
        EXECUTE format(
            'CREATE TABLE rota.%I (LIKE rota.ledger INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE)',
                       'ledger_' || to_char(monday, 'YYYYMMDD'));
        EXECUTE format('ALTER TABLE rota.ledger ATTACH PARTITION rota.%I FOR VALUES FROM (%L) TO (%L)',
                       'ledger_' || to_char(monday, 'YYYYMMDD'),
                       monday::timestamp AT TIME ZONE 'UTC', (monday + 7)::timestamp AT TIME ZONE 'UTC');
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION rota.ensure_ledger(timestamptz[]) FROM PUBLIC;

-- A request to run nominal times of the past; backfill_times has one row for each.
CREATE TABLE rota.backfills (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    schedule_id bigint NOT NULL,
    from_at     timestamptz NOT NULL,
    until_at    timestamptz NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT rota.now(),
    created_by  text NOT NULL,
    reason      text
);
CREATE INDEX backfills_created ON rota.backfills (created_at);

-- One nominal time of a backfill, and its run.
CREATE TABLE rota.backfill_times (
    backfill_id bigint NOT NULL REFERENCES rota.backfills ON DELETE CASCADE,
    schedule_id bigint NOT NULL,
    nominal_at  timestamptz NOT NULL,
    run_id      bigint NOT NULL,
    PRIMARY KEY (backfill_id, nominal_at)
);
CREATE INDEX backfill_times_schedule ON rota.backfill_times (schedule_id, nominal_at);

-- The state of a run, wherever it is; NULL once retention has deleted it.
-- Called by: backfill_states, occurrences, sql/schedules/history_only.sql.
CREATE FUNCTION rota.run_state(run_id bigint) RETURNS text LANGUAGE sql STABLE STRICT SET jit = off AS $$
    SELECT coalesce((SELECT CASE WHEN rota.is_over(o.state, o.expires_at) THEN 'cancelled' ELSE o.state END
                     FROM rota.open_runs o WHERE o.id = run_state.run_id),
                    (SELECT e.state FROM rota.find_ended(run_state.run_id) e))
$$;

-- How the backfills of a stretch of a schedule ended: for each of its latest 1,000 times the last run, counted by
-- state. Runs that retention has deleted are left out.
-- Called by: occurrences, sql/schedules/history_only.sql.
CREATE FUNCTION rota.backfill_states(of_schedule bigint, from_at timestamptz, through_at timestamptz) RETURNS jsonb
LANGUAGE sql STABLE SET jit = off AS $$
    SELECT jsonb_object_agg(s.state, s.times)
    FROM (SELECT rota.run_state(t.run_id) AS state, count(*) AS times
          FROM (SELECT max(b.run_id) AS run_id FROM rota.backfill_times b
                WHERE b.schedule_id = of_schedule AND b.nominal_at BETWEEN from_at AND backfill_states.through_at
                GROUP BY b.nominal_at ORDER BY b.nominal_at DESC LIMIT 1000) t
          GROUP BY 1) s
    WHERE s.state IS NOT NULL
$$;

CREATE VIEW rota.occurrences AS
SELECT l.schedule, l.tenant, l.nominal_at, l.through_at, l.count, l.decision, l.reason, l.claimed_at, l.decided_at,
       l.decided_by, l.enqueued_at, l.run_id,
       (SELECT max(b.run_id) FROM rota.backfill_times b
        WHERE b.schedule_id = l.schedule_id AND b.nominal_at BETWEEN l.nominal_at AND l.through_at) AS backfill_run_id,
       l.state, l.success, l.duration_ms, l.lateness_ms, l.error, l.is_moved, l.details, l.schedule_id,
       (SELECT rota.run_state(max(b.run_id)) FROM rota.backfill_times b
        WHERE b.schedule_id = l.schedule_id AND b.nominal_at BETWEEN l.nominal_at AND l.through_at) AS backfill_state,
       (SELECT count(DISTINCT b.nominal_at) FROM rota.backfill_times b
        WHERE b.schedule_id = l.schedule_id AND b.nominal_at BETWEEN l.nominal_at AND l.through_at) AS backfill_count,
       CASE WHEN EXISTS (SELECT FROM rota.backfill_times b WHERE b.schedule_id = l.schedule_id
                         AND b.nominal_at BETWEEN l.nominal_at AND l.through_at)
            THEN rota.backfill_states(l.schedule_id, l.nominal_at, l.through_at) END AS backfill_states
FROM rota.ledger l;
COMMENT ON VIEW rota.occurrences IS 'Every nominal time of every schedule, with the decision made for it.';

-- 16_tick.sql

-- How due schedules become runs. A ticker takes a stretch of what is due (`hold_due`), reads it (`read_due`),
-- decides in Python, writes cursors, ledger and runs (`write_ticks`), and lets go (`release_hold`). No leader: any
-- number of tickers may do so, and each nominal time is decided once. `schedule_ends` tells schedules how their runs
-- ended (`settle_schedule_ends`).

-- Stretches of due schedules that some ticker works on, each until a time. Not logged: a hold that is lost costs
-- nothing.
CREATE UNLOGGED TABLE rota.schedule_holds (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    first_due timestamptz NOT NULL,
    first_id  bigint NOT NULL,
    last_due  timestamptz NOT NULL,
    last_id   bigint NOT NULL,
    until     timestamptz NOT NULL
);

-- When the tick has something to do: zero while something is due that nobody holds; else the seconds until the next
-- due time, or until a stretch with something due is free again. NULL: nothing will ever be due.
-- Called by: quiet_seconds, sql/schedules/next_due.sql.
CREATE FUNCTION rota.next_schedule_seconds() RETURNS double precision LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    clock   timestamptz := rota.now();
    soonest interval;
    held    interval;
    parked  interval;
BEGIN
    IF rota.find_due(clock, 1) <> '{}' THEN
        RETURN 0;
    END IF;
    SELECT s.due_at - clock INTO soonest FROM rota.schedules s
    WHERE s.is_ticking AND s.init IS NULL AND s.due_at > clock AND s.due_at < 'infinity' ORDER BY s.due_at LIMIT 1;
    SELECT min(h.until) - clock_timestamp() INTO held FROM rota.schedule_holds h WHERE h.until > clock_timestamp()
    AND EXISTS (SELECT FROM rota.schedules s WHERE s.is_ticking AND s.init IS NULL AND s.due_at <= clock);
    SELECT s.retry_at - clock INTO parked FROM rota.schedules s WHERE s.parked_at IS NOT NULL ORDER BY s.retry_at
    LIMIT 1;
    soonest := least(soonest, held, parked);
    RETURN CASE WHEN soonest IS NOT NULL THEN greatest(extract(epoch FROM soonest), 0) END;
END $$;

-- The tick begins: takes a stretch of what is due, one ticker at a time, until the commit, so that the next one sees
-- what this one took. A hold is a courtesy: a ticker that does not get the lock in time goes on without one, and its
-- tick is right all the same.
-- Called by: sql/schedules/hold_due.sql.
-- Locks: "hold_due", rows that nobody else has locked.
CREATE FUNCTION rota.hold_due(max_schedules integer, hold_seconds double precision, OUT hold bigint, OUT ids bigint[])
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
BEGIN
    -- Nobody has to wait for the disk: a stretch that is lost costs nothing, and neither does a tick (see write_ticks).
    PERFORM set_config('synchronous_commit', 'off', true);
    IF EXISTS (SELECT FROM rota.schedule_ends) THEN
        PERFORM rota.settle_schedule_ends(1000);
    END IF;
    IF EXISTS (SELECT FROM rota.schedules s WHERE s.parked_at IS NOT NULL AND s.retry_at <= rota.now()) THEN
        PERFORM rota.retry_parked(max_schedules);
    END IF;
    ids := rota.find_due(rota.now(), max_schedules);
    IF ids = '{}' THEN
        RETURN;
    END IF;
    BEGIN
        PERFORM rota.take_lock('hold_due', 1000);
    EXCEPTION WHEN lock_not_available THEN
        RETURN;
    END;
    ids := rota.find_due(rota.now(), max_schedules);
    IF ids = '{}' THEN
        RETURN;
    END IF;
    DELETE FROM rota.schedule_holds h WHERE h.id = ANY (ARRAY(
        SELECT o.id FROM rota.schedule_holds o WHERE o.until < clock_timestamp() FOR UPDATE SKIP LOCKED));
    INSERT INTO rota.schedule_holds (first_due, first_id, last_due, last_id, until)
    SELECT f.due_at, f.id, l.due_at, l.id, clock_timestamp() + make_interval(secs => hold_seconds)
    FROM rota.schedules f, rota.schedules l WHERE f.id = ids[1] AND l.id = ids[cardinality(ids)]
    RETURNING id INTO hold;
END $$;

-- Parked schedules whose wait is over are due again, so many at most. Rows that somebody holds are passed over.
-- Called by: hold_due.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.retry_parked(most integer) RETURNS void LANGUAGE plpgsql VOLATILE SET enable_seqscan = off
SET jit = off AS $$
BEGIN
    UPDATE rota.schedules s SET parked_at = NULL, retry_at = NULL, tick_version = s.tick_version + 1
    WHERE s.id = ANY (ARRAY(SELECT p.id FROM rota.schedules p WHERE p.parked_at IS NOT NULL AND p.retry_at <= rota.now()
                            ORDER BY p.retry_at LIMIT most FOR UPDATE SKIP LOCKED));
END $$;

-- What is due and in no stretch that somebody holds, oldest first: one probe for each gap between the stretches.
-- Called by: hold_due, next_schedule_seconds.
CREATE FUNCTION rota.find_due(clock timestamptz, most integer) RETURNS bigint[] LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
    held    record;
    at_due  timestamptz := '-infinity';
    at_id   bigint := 0;
    found   bigint[] := '{}';
BEGIN
    FOR held IN SELECT h.first_due, h.first_id, h.last_due, h.last_id FROM rota.schedule_holds h
        WHERE h.until > clock_timestamp()
                ORDER BY h.first_due, h.first_id
    LOOP
        IF (held.first_due, held.first_id) > (at_due, at_id) THEN
            found := found || rota.due_between(at_due, at_id, held.first_due, held.first_id, most - cardinality(found));
        END IF;
        IF (held.last_due, held.last_id) > (at_due, at_id) THEN
            at_due := held.last_due;
            at_id := held.last_id;
        END IF;
    END LOOP;
    RETURN found || rota.due_between(at_due, at_id, clock, 9223372036854775807, most - cardinality(found));
END $$;

-- The due schedules from one place in the order to another, both left out.
-- Called by: find_due.
CREATE FUNCTION rota.due_between(due_after timestamptz, id_after bigint, due_before timestamptz, id_before bigint,
    most integer)
RETURNS bigint[] LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
BEGIN
    RETURN ARRAY(SELECT s.id FROM rota.schedules s
        WHERE s.is_ticking AND s.init IS NULL AND (s.due_at, s.id) > (due_after, id_after)
          AND (s.due_at, s.id) < (due_before, id_before)
        ORDER BY s.due_at, s.id LIMIT most);
END $$;

-- The tick, first half: everything that deciding about these schedules needs, read in one statement.
-- Called by: sql/schedules/read_due.sql.
CREATE FUNCTION rota.read_due(ids bigint[])
RETURNS TABLE (schedule json, clock timestamptz, unfinished integer, is_job_enabled boolean, calendar_definition jsonb)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    at timestamptz := rota.now();
BEGIN
    RETURN QUERY
    SELECT row_to_json(d), at,
           (SELECT count(*)::integer FROM rota.open_runs o WHERE o.schedule_id = d.id),
           coalesce((SELECT j.is_enabled AND j.deleted_from_code_at IS NULL FROM rota.jobs j WHERE j.name = d.job),
               false),
           (SELECT c.definition FROM rota.calendars c WHERE c.name = d.calendar)
    FROM (
        SELECT s.id, s.tenant, s.name, s.job, s.tick_version, s.anchor_at, s.cursor_at, s.cron, s.interval_seconds,
               s.run_at, s.has_seconds, s.timezone, s.gap, s.fold, s.every_from, s.start_at, s.end_at, s.max_runs,
               s.jitter_seconds, s.calendar, s.on_closed, s.catch_up, s.catch_up_seconds, s.catch_up_limit,
               s.grace_seconds, s.overlap, s.max_concurrent_runs, s.requires,
               s.is_shadow, s.paused_at, s.paused_until, s.next_run_at, s.moved_to, s.segments, s.run_count,
               s.last_success_for
        -- One by one and by id: by due times it would walk over all that is due for each of them.
        FROM unnest(ids) WITH ORDINALITY AS f (id, n)
        CROSS JOIN LATERAL (SELECT * FROM rota.schedules WHERE id = f.id OFFSET 0) s
        WHERE s.is_ticking AND s.init IS NULL AND s.due_at <= at ORDER BY f.n
    ) d;
END $$;

-- The unfinished runs of a schedule that make up for missed times: they follow one another, and are not each other's
-- overlap.
-- Called by: sql/schedules/read_due.sql.
CREATE FUNCTION rota.count_made_up(schedule_id bigint) RETURNS integer LANGUAGE sql STABLE
SET enable_seqscan = off SET jit = off AS $$
    SELECT count(*)::integer FROM rota.open_runs o
    WHERE o.schedule_id = count_made_up.schedule_id AND o.triggered_by ->> 'type' = 'catch_up'
$$;

-- An instant at which many are due: how many there were when the first of them was looked at, and how many have been
-- given a place.
CREATE TABLE rota.bursts (
    at        timestamptz PRIMARY KEY,
    schedules integer NOT NULL,
    taken     integer NOT NULL,
    noted_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE rota.bursts IS 'Times at which many schedules are due, and how many of these have been spread so far.';

-- The places, from 0, of schedules that a tick is about to decide, and how many are due at the same instant; nothing of
-- those that are not spread: because they say so, spread themselves (jitter), enqueue nothing (shadow), or are no more
-- than `free` at that instant. Ticks take schedules by their numbers, so that one has about the same place each time.
-- Called by: sql/schedules/read_due.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.take_places(ids bigint[], free integer) RETURNS TABLE (id bigint, place integer, crowd integer)
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    IF ids = '{}' THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH due AS MATERIALIZED (
        SELECT s.id, s.due_at, row_number() OVER (PARTITION BY s.due_at ORDER BY s.id) AS n,
            count(*) OVER (PARTITION BY s.due_at) AS here
        FROM unnest(ids) AS u (id) CROSS JOIN LATERAL (SELECT * FROM rota.schedules WHERE id = u.id OFFSET 0) s
        WHERE s.is_ticking AND s.init IS NULL AND s.due_at = s.next_run_at AND NOT s.burst_allowed
          AND s.jitter_seconds = 0 AND NOT s.is_shadow
    ), noted AS (
        INSERT INTO rota.bursts AS b (at, schedules, taken)
        SELECT d.due_at, c.schedules, d.here FROM due d CROSS JOIN LATERAL (
            -- Those of the first ticks are no longer due: what the first one counted holds.
            SELECT coalesce((SELECT k.schedules FROM rota.bursts k WHERE k.at = d.due_at), (
                SELECT count(*)::integer FROM rota.schedules s
                WHERE s.is_ticking AND s.init IS NULL AND s.due_at = d.due_at
                   -- OFFSET: counted once, though it is asked twice
                   AND s.due_at = s.next_run_at AND NOT s.burst_allowed AND s.jitter_seconds = 0 AND NOT s.is_shadow))
                       AS schedules OFFSET 0) c
        WHERE d.n = 1 AND c.schedules > free ORDER BY d.due_at
        ON CONFLICT (at) DO UPDATE SET taken = b.taken + excluded.taken
        RETURNING b.at, b.schedules, b.taken
    )
    SELECT d.id, (n.taken - d.here + d.n - 1)::integer, n.schedules FROM due d JOIN noted n ON n.at = d.due_at;
    IF FOUND THEN
        DELETE FROM rota.bursts b WHERE b.at = ANY (ARRAY(
            SELECT o.at FROM rota.bursts o WHERE o.noted_at < clock_timestamp() - interval '1 hour' ORDER BY o.at
            LIMIT 1000 FOR UPDATE SKIP LOCKED));
    END IF;
END $$;

-- The tick, second half: one statement writes cursors, ledger and runs, for those schedules only that are as they
-- were read. ticks is an array of {id, tick_version, cursor_at, new_cursor_at, next_run_at, segments, is_resumed,
-- is_moved, is_finished, occurrences: [{nominal_at, through_at, count, decision, reason, is_moved, start_at,
-- is_held, details}]}. Returns the ids that were written; the others have changed and are due again, or somebody
-- holds them: those are passed over, and not waited for. Runs under limits wait for their admission.
-- Called by: sql/schedules/write_ticks.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.write_ticks(for_worker bigint, ticks jsonb) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET lock_timeout = '5s' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    written bigint[];
    resumed bigint[];
    arrived bigint[];
    touched text[];
    soonest timestamptz;
    limited boolean := (SELECT s.has_limits FROM rota.settings s);
    capped  text[] := (SELECT s.capped_queues FROM rota.settings s);
BEGIN
    -- A tick that a crash of the server forgets is one that never was: its runs are gone with it, and the next tick
    -- decides again. Whoever claimed one of them has flushed the tick too, as commits are flushed in their order.
    PERFORM set_config('synchronous_commit', 'off', true);
    WITH decided AS MATERIALIZED (
        SELECT t.* FROM jsonb_to_recordset(ticks) AS t (
            id bigint, tick_version bigint, cursor_at timestamptz, new_cursor_at timestamptz, next_run_at timestamptz,
            segments jsonb, is_resumed boolean, is_finished boolean, is_moved boolean, occurrences jsonb)
        CROSS JOIN LATERAL (SELECT FROM rota.schedules f WHERE f.id = t.id FOR NO KEY UPDATE SKIP LOCKED) free
    ), moved AS (
        -- No column that people edit, as the triggers of edits go by the columns that are named.
        UPDATE rota.schedules s
        SET cursor_at = t.new_cursor_at, next_run_at = t.next_run_at, segments = coalesce(t.segments, '[]'),
            finished_at = CASE WHEN t.is_finished THEN clock END,
            tick_version = s.tick_version + 1, error = NULL, parked_times = 0,
            run_count = s.run_count + (SELECT count(*) FROM jsonb_array_elements(t.occurrences) o
                WHERE o ->> 'decision' IN ('ran', 'caught_up')),
            last_enqueued_at = CASE WHEN t.occurrences @> '[{"decision": "ran"}]'
                OR t.occurrences @> '[{"decision": "caught_up"}]'
                               THEN clock ELSE s.last_enqueued_at END
        FROM decided t
        WHERE s.id = ANY (ARRAY[t.id]) AND s.tick_version = t.tick_version
            AND s.cursor_at IS NOT DISTINCT FROM t.cursor_at
          AND s.is_enabled AND (s.paused_at IS NULL OR t.is_resumed)
        RETURNING s.id, s.tenant, s.name, s.job, s.payload, s.queue, s.priority, s.max_attempts, s.timeout_seconds,
            s.run_tags, s.run_metadata, s.last_success_for, t.occurrences, t.is_resumed, t.is_moved AS was_moved
    ), in_order AS MATERIALIZED (
        -- Numbers are claimed in their order: given by priority, then by nominal time.
        SELECT m.id, m.tenant, m.name, m.job, m.payload, m.queue, coalesce(m.priority, j.priority) AS priority,
            m.max_attempts, m.timeout_seconds, m.run_tags, m.run_metadata, m.last_success_for, o.*
        FROM moved m LEFT JOIN rota.jobs j ON j.name = m.job CROSS JOIN LATERAL jsonb_to_recordset(m.occurrences) AS o (
            nominal_at timestamptz, through_at timestamptz, count integer, decision text, reason text, is_moved boolean,
            start_at timestamptz, is_held boolean, details jsonb)
        ORDER BY coalesce(m.priority, j.priority), o.nominal_at
    ), wanted AS MATERIALIZED (
        SELECT i.*, CASE WHEN i.decision IN ('ran', 'caught_up') THEN nextval('rota.run_ids') END AS new_run_id
        FROM in_order i
    ), noted AS (
        INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, count, decision, reason, tenant, schedule,
            is_moved, details, claimed_at, decided_at, decided_by, enqueued_at, run_id, state)
        SELECT w.id, w.nominal_at, coalesce(w.through_at, w.nominal_at), coalesce(w.count, 1), w.decision, w.reason,
            w.tenant, w.name, coalesce(w.is_moved, false), w.details, clock, clock_timestamp() + (SELECT clock_offset
                FROM rota.settings), for_worker,
            CASE WHEN w.new_run_id IS NOT NULL THEN clock END, w.new_run_id, CASE WHEN w.new_run_id IS NOT NULL
                THEN 'queued' END
        FROM wanted w ORDER BY w.id, w.nominal_at
        ON CONFLICT (schedule_id, nominal_at) DO NOTHING
        RETURNING run_id
    ), enqueued AS (
        INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, held_by, queue, job, tenant,
            payload, priority, max_attempts, timeout_seconds, tags, metadata, triggered_by, schedule, scheduled_for,
            schedule_id, limit_keys, limit_key, is_capped, expires_at)
        SELECT n.run_id, n.run_id, clock, clock_timestamp(), d.at,
            CASE WHEN d.at > clock AND w.is_held IS NOT TRUE THEN 'scheduled' ELSE 'queued' END,
            CASE WHEN w.is_held THEN 'overlap' WHEN k.keys IS NOT NULL AND d.at <= clock THEN 'limit' END,
            coalesce(w.queue, j.queue), w.job, d.tenant, coalesce(w.payload, j.default_payload, '{}'), w.priority,
            coalesce(w.max_attempts, j.max_attempts), w.timeout_seconds, coalesce(w.run_tags, nullif(j.tags, '{}')),
            coalesce(j.metadata || w.run_metadata, nullif(j.metadata, '{}')),
            jsonb_build_object('type', CASE w.decision WHEN 'caught_up' THEN 'catch_up' ELSE 'scheduler' END,
                'schedule', w.name,
                               'since', w.last_success_for),
            w.name, w.nominal_at, w.id, k.keys, k.keys[1], coalesce(w.queue, j.queue) = ANY (capped),
            d.at + make_interval(secs => j.expires_in_seconds)
        FROM noted n JOIN wanted w ON w.new_run_id = n.run_id JOIN rota.jobs j ON j.name = w.job
        CROSS JOIN LATERAL (SELECT w.start_at + make_interval(secs => coalesce(j.delay_seconds, 0)) AS at,
            coalesce(nullif(w.tenant, ''), j.tenant, '') AS tenant) d
        CROSS JOIN LATERAL (SELECT CASE WHEN limited
            THEN rota.limit_keys_of(w.job, coalesce(w.queue, j.queue), d.tenant, w.name,
            coalesce(w.payload, j.default_payload, '{}')) END AS keys) k
        ORDER BY n.run_id
        RETURNING queue, state, run_at, held_by
    )
    SELECT (SELECT array_agg(id) FROM moved), (SELECT array_agg(id) FROM moved WHERE is_resumed),
           (SELECT array_agg(id) FROM moved WHERE was_moved),
           (SELECT array_agg(DISTINCT queue) FROM enqueued WHERE state = 'queued' AND held_by IS NULL),
           (SELECT min(run_at) FROM enqueued WHERE state = 'scheduled')
    INTO written, resumed, arrived, touched, soonest;
    IF resumed IS NOT NULL THEN
        PERFORM rota.act_as('rota');
        UPDATE rota.schedules s
        SET paused_at = NULL, paused_by = NULL, pause_reason = NULL, paused_until = NULL, failures_in_a_row = 0,
            tick_version = s.tick_version + 1
        WHERE s.id = ANY (resumed);
    END IF;
    IF arrived IS NOT NULL THEN
        UPDATE rota.schedules s SET moved_to = NULL, tick_version = s.tick_version + 1 WHERE s.id = ANY (arrived);
    END IF;
    IF EXISTS (SELECT FROM rota.open_runs o WHERE o.held_by = 'overlap') THEN
        -- A run that ended between the reading and now would not free what was just held because of it, and an edit may
        -- have made room.
        PERFORM rota.free_held_runs(written);
    END IF;
    IF touched IS NOT NULL THEN
        PERFORM rota.wake(touched);
    END IF;
    IF limited THEN
        PERFORM rota.wake_admission();
    END IF;
    IF soonest IS NOT NULL THEN
        PERFORM rota.wake_later(soonest - clock);
    END IF;
    IF ticks @> '[{"is_finished": true}]' THEN
        DELETE FROM rota.schedules s WHERE s.id = ANY (written) AND s.finished_at IS NOT NULL
            AND s.delete_when_finished;
    END IF;
    RETURN QUERY SELECT unnest(written);
END $$;

-- Leaves schedules alone for a while that were taken and could not be decided. Neighbours of the batch are one
-- stretch.
-- Called by: sql/schedules/pass_over.sql.
CREATE FUNCTION rota.pass_over(batch bigint[], passed bigint[], for_seconds double precision) RETURNS void
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO rota.schedule_holds (first_due, first_id, last_due, last_id, until)
    SELECT (array_agg(p.due_at ORDER BY p.n))[1], (array_agg(p.id ORDER BY p.n))[1],
           (array_agg(p.due_at ORDER BY p.n DESC))[1], (array_agg(p.id ORDER BY p.n DESC))[1],
           clock_timestamp() + make_interval(secs => for_seconds)
    FROM (SELECT s.id, s.due_at, b.n, b.n - row_number() OVER (ORDER BY b.n) AS island
          FROM unnest(batch) WITH ORDINALITY AS b (id, n) JOIN rota.schedules s ON s.id = b.id
          WHERE b.id = ANY (passed)) p
    GROUP BY p.island;
END $$;

-- The ticker is done with its stretch of due schedules.
-- Called by: sql/schedules/release.sql.
CREATE FUNCTION rota.release_hold(hold bigint) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    DELETE FROM rota.schedule_holds h WHERE h.id = hold;
END $$;

-- A schedule that cannot be read stops no other: it is parked with its error, and tried again after a minute, then
-- after ever longer waits of at most an hour. False if it was edited meanwhile, or somebody holds it.
-- Called by: sql/schedules/park.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.park_schedule(schedule_id bigint, read_version bigint, why text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    UPDATE rota.schedules s SET parked_at = rota.now(), error = why, parked_times = s.parked_times + 1,
        retry_at = rota.now() + least(interval '1 hour', interval '1 minute' * 2 ^ least(s.parked_times, 10))
    WHERE s.id IN (SELECT p.id FROM rota.schedules p
                   WHERE p.id = park_schedule.schedule_id AND p.tick_version = read_version
                   FOR UPDATE SKIP LOCKED);
    RETURN FOUND;
END $$;

-- The ends of scheduled runs. What an end changes about its schedule waits here while somebody else holds the
-- schedule's row: the end itself, and those written with it, do not wait.
CREATE TABLE rota.schedule_ends (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    schedule_id   bigint NOT NULL,
    run_id        bigint NOT NULL,
    scheduled_for timestamptz,
    state         text COLLATE "C" NOT NULL,
    error         text,
    duration_ms   real,
    lateness_ms   double precision,
    finished_at   timestamptz NOT NULL,
    is_init       boolean NOT NULL
);
CREATE INDEX schedule_ends_schedule ON rota.schedule_ends (schedule_id);

-- Trigger: the end of a scheduled run locks the schedule, whatever it changes: a tick that holds a run back because
-- of this one is then either seen here, or sees this end. Where the tick has the lock, the end is settled after both
-- (schedule_ends).
CREATE FUNCTION rota.schedule_run_ended() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    ended rota.schedule_ends;
BEGIN
    ended.schedule_id := NEW.schedule_id;
    ended.run_id := NEW.id;
    ended.scheduled_for := NEW.scheduled_for;
    ended.state := NEW.state;
    ended.error := NEW.error;
    ended.duration_ms := NEW.duration_ms;
    ended.lateness_ms := CASE WHEN isfinite(NEW.run_at) THEN extract(epoch FROM NEW.started_at - NEW.run_at) * 1000 END;
    ended.finished_at := NEW.finished_at;
    ended.is_init := NEW.triggered_by ? 'init';
    IF rota.lock_schedule_end(NEW.schedule_id, NEW.id, NEW.scheduled_for) THEN
        PERFORM rota.note_schedule_end(ended);
        PERFORM rota.free_held_runs(ARRAY[NEW.schedule_id]);
    ELSE
        INSERT INTO rota.schedule_ends (schedule_id, run_id, scheduled_for, state, error, duration_ms, lateness_ms,
            finished_at, is_init)
        VALUES (ended.schedule_id, ended.run_id, ended.scheduled_for, ended.state, ended.error, ended.duration_ms,
                ended.lateness_ms, ended.finished_at, coalesce(ended.is_init, false));
        PERFORM pg_notify('rota', 'schedules');
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER ended_runs_schedule AFTER INSERT ON rota.ended_runs FOR EACH ROW WHEN (NEW.schedule_id IS NOT NULL)
EXECUTE FUNCTION rota.schedule_run_ended();

-- Locks all rows that note_schedule_end writes, or none: false where somebody holds one. Ends that are settled days
-- later are counted for their own day, whose row nobody else writes any more.
-- Called by: schedule_run_ended, settle_schedule_ends.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.lock_schedule_end(of_schedule bigint, of_run bigint, nominal timestamptz) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
DECLARE
    since date := (rota.now() AT TIME ZONE 'UTC')::date - 1;
BEGIN
    PERFORM FROM rota.schedules s WHERE s.id = of_schedule FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND AND EXISTS (SELECT FROM rota.schedules s WHERE s.id = of_schedule) THEN
        RETURN false;
    END IF;
    IF EXISTS (SELECT FROM rota.schedule_days d WHERE d.schedule_id = of_schedule AND d.day >= since AND d.day NOT IN (
            SELECT f.day FROM (SELECT o.day FROM rota.schedule_days o
                WHERE o.schedule_id = of_schedule AND o.day >= since
                               FOR NO KEY UPDATE SKIP LOCKED) f)) THEN
        RETURN false;
    END IF;
    PERFORM FROM rota.ledger l WHERE l.schedule_id = of_schedule AND l.nominal_at = nominal AND l.run_id = of_run
        FOR NO KEY UPDATE SKIP LOCKED;
    RETURN FOUND OR NOT EXISTS (
        SELECT FROM rota.ledger l WHERE l.schedule_id = of_schedule AND l.nominal_at = nominal AND l.run_id = of_run);
END $$;

-- Writes the end of a schedule's run into the ledger, which outlives the run; into the schedule; and into the counts
-- of its days. The rows are locked. A run without a nominal time was triggered by somebody: its failure is not one
-- of the failures in a row, and its end moves no time.
-- Called by: schedule_run_ended, settle_schedule_ends.
CREATE FUNCTION rota.note_schedule_end(e rota.schedule_ends) RETURNS void LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    ok      boolean := e.state = 'succeeded';
    is_time boolean := e.scheduled_for IS NOT NULL OR e.is_init;
BEGIN
    UPDATE rota.ledger l
    SET state = e.state, success = ok, duration_ms = e.duration_ms, error = e.error, lateness_ms = e.lateness_ms
    WHERE l.schedule_id = e.schedule_id AND l.nominal_at = e.scheduled_for AND l.run_id = e.run_id;
    UPDATE rota.schedules s
    SET last_run_at = greatest(s.last_run_at, e.finished_at),
        last_run_success = CASE WHEN s.last_run_at > e.finished_at THEN s.last_run_success ELSE ok END,
        last_success_at = CASE WHEN ok THEN greatest(s.last_success_at, e.finished_at) ELSE s.last_success_at END,
        last_success_for = CASE WHEN ok THEN greatest(s.last_success_for, e.scheduled_for) ELSE s.last_success_for END,
        failures_in_a_row = CASE WHEN ok THEN 0 WHEN e.state = 'failed' AND is_time THEN s.failures_in_a_row + 1
            ELSE s.failures_in_a_row END,
        finished_at = CASE WHEN ok AND e.is_init AND s.init = 'once' THEN e.finished_at ELSE s.finished_at END
    WHERE s.id = e.schedule_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF is_time THEN
        -- One that counts from the end of its run is due so long after it.
        UPDATE rota.schedules s SET next_run_at = rota.after(e.finished_at, least(s.interval_seconds, 3153600000)),
            tick_version = s.tick_version + 1
        WHERE s.id = e.schedule_id AND s.every_from = 'end' AND s.moved_to IS NULL;
        PERFORM pg_notify('rota', 'schedules') WHERE FOUND;
    END IF;
    UPDATE rota.schedules s
    SET paused_at = rota.now(), paused_by = 'rota',
        pause_reason = CASE s.failures_in_a_row WHEN 1 THEN '1 run failed'
            ELSE format('%s runs failed in a row', s.failures_in_a_row) END
    WHERE s.id = e.schedule_id AND s.failures_in_a_row >= s.pause_after_failures AND s.paused_at IS NULL;
    IF e.is_init THEN
        UPDATE rota.init_runs i SET state = e.state WHERE i.run_id = e.run_id;
    END IF;
    INSERT INTO rota.schedule_days AS d (schedule_id, day, succeeded, failed, cancelled, timed, duration_ms, longest_ms)
    VALUES (e.schedule_id, (e.finished_at AT TIME ZONE 'UTC')::date, ok::integer, (e.state = 'failed')::integer,
            (e.state = 'cancelled')::integer, (e.duration_ms IS NOT NULL)::integer, coalesce(e.duration_ms, 0),
            coalesce(e.duration_ms, 0))
    ON CONFLICT (schedule_id, day) DO UPDATE SET
        succeeded = d.succeeded + excluded.succeeded, failed = d.failed + excluded.failed,
        cancelled = d.cancelled + excluded.cancelled, timed = d.timed + excluded.timed,
        duration_ms = d.duration_ms + excluded.duration_ms, longest_ms = greatest(d.longest_ms, excluded.longest_ms);
END $$;

-- Settles ends that wait in schedule_ends, in their order, where the rows are free again; the next runs that waited
-- for those may go.
-- Called by: hold_due, sql/upkeep/settle_ends.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.settle_schedule_ends(most integer) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off SET lock_timeout = '5s' AS $$
DECLARE
    of_schedule bigint;
    one         rota.schedule_ends;
    settled     integer := 0;
    is_locked   boolean;
BEGIN
    PERFORM rota.act_as('rota');
    FOR of_schedule IN SELECT DISTINCT e.schedule_id FROM rota.schedule_ends e LOOP
        BEGIN
            is_locked := false;
            FOR one IN SELECT e.* FROM rota.schedule_ends e WHERE e.schedule_id = of_schedule ORDER BY e.id LIMIT most
                FOR UPDATE SKIP LOCKED LOOP
                EXIT WHEN NOT rota.lock_schedule_end(one.schedule_id, one.run_id, one.scheduled_for);
                is_locked := true;
                PERFORM rota.note_schedule_end(one);
                DELETE FROM rota.schedule_ends e WHERE e.id = one.id;
                settled := settled + 1;
            END LOOP;
            IF is_locked THEN
                PERFORM rota.free_held_runs(ARRAY[of_schedule]);
            END IF;
        EXCEPTION WHEN data_exception OR integrity_constraint_violation OR raise_exception THEN
            RAISE WARNING 'the results of runs of schedule % could not be recorded: %', of_schedule, SQLERRM;
        END;
    END LOOP;
    RETURN settled;
END $$;

-- Runs that an overlap policy holds may go as soon as there is room: the oldest first. One that is meant for later
-- (jitter, the next allowed day) waits for its time; one under a limit waits for its admission next.
-- Called by: schedule_run_ended, settle_schedule_ends, write_ticks.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.free_held_runs(schedules bigint[]) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    touched text[];
    soonest timestamptz;
BEGIN
    WITH waiting AS (
        SELECT w.schedule_id, coalesce(min(s.max_concurrent_runs), 1) AS room,
            coalesce(bool_or(s.overlap = 'allow'), false) AS is_free
        FROM rota.open_runs w LEFT JOIN rota.schedules s ON s.id = w.schedule_id
        WHERE w.schedule_id = ANY (schedules) AND w.held_by = 'overlap' GROUP BY w.schedule_id
    ), chosen AS (
        SELECT o.id FROM waiting w CROSS JOIN LATERAL (
            SELECT h.id FROM rota.open_runs h WHERE h.schedule_id = w.schedule_id AND h.held_by = 'overlap'
            ORDER BY h.scheduled_for
            LIMIT CASE WHEN w.is_free THEN NULL ELSE greatest(0, w.room - (
                SELECT count(*) FROM rota.open_runs r
                WHERE r.schedule_id = w.schedule_id AND r.held_by IS DISTINCT FROM 'overlap')) END
            FOR UPDATE SKIP LOCKED) o
    ), freed AS (
        UPDATE rota.open_runs o
        SET held_by = CASE WHEN o.limit_keys IS NOT NULL AND o.run_at <= clock THEN 'limit' END,
            limit_key = o.limit_keys[1],
            seq = nextval('rota.run_ids'), enqueued_at = clock_timestamp(),
            state = CASE WHEN o.run_at > clock THEN 'scheduled' ELSE 'queued' END
        WHERE o.id = ANY (ARRAY(SELECT id FROM chosen)) RETURNING o.queue, o.state, o.run_at
    )
    SELECT array_agg(DISTINCT queue) FILTER (WHERE state = 'queued'), min(run_at) FILTER (WHERE state = 'scheduled')
    INTO touched, soonest FROM freed;
    PERFORM rota.wake(touched), rota.wake_admission() WHERE touched IS NOT NULL;
    PERFORM rota.wake_later(soonest - clock) WHERE soonest IS NOT NULL;
END $$;

-- 17_schedule_operations.sql

-- What people do with schedules: `put_schedule`, `enable_schedule`, `disable_schedule`, `pause_schedule`,
-- `resume_schedule`, `reschedule`, `trigger_schedule`, `backfill_schedule`, `delete_schedule`. `schedule_days`
-- counts by day, the view `schedule_status` says how each stands.

-- The schedule of this name, or RO007.
-- Called by: many.
CREATE FUNCTION rota.find_schedule(name text, tenant text) RETURNS rota.schedules LANGUAGE plpgsql STABLE
SET jit = off AS $$
DECLARE
    found rota.schedules;
BEGIN
    SELECT s.* INTO found FROM rota.schedules s WHERE s.tenant = find_schedule.tenant AND s.name = find_schedule.name;
    IF found.id IS NULL THEN
        RAISE EXCEPTION 'no schedule is named "%"', find_schedule.name
            USING ERRCODE = 'RO007', HINT = 'rota.schedules lists them.';
    END IF;
    RETURN found;
END $$;

-- Before an edit in the same transaction: the row is still as it was when somebody looked (else RO008), and stays
-- locked until the edit. Jobs, queues, schedules, calendars, templates and tenants have versions.
-- Called by: sql/versions/expect.sql, users.
-- Locks: rows.
CREATE FUNCTION rota.expect_version(kind text, name text, version bigint, tenant text DEFAULT '') RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    stored bigint;
BEGIN
    CASE kind
        WHEN 'schedule' THEN
            PERFORM rota.find_schedule(expect_version.name, expect_version.tenant);
            SELECT s.version INTO stored FROM rota.schedules s
            WHERE s.tenant = expect_version.tenant AND s.name = expect_version.name FOR UPDATE;
        WHEN 'job' THEN
            SELECT j.version INTO stored FROM rota.jobs j WHERE j.name = expect_version.name FOR UPDATE;
            IF stored IS NULL THEN
                PERFORM rota.unknown_job(expect_version.name);
            END IF;
        WHEN 'calendar' THEN
            SELECT c.version INTO stored FROM rota.calendars c WHERE c.name = expect_version.name FOR UPDATE;
        WHEN 'template' THEN
            SELECT t.version INTO stored FROM rota.schedule_templates t WHERE t.name = expect_version.name FOR UPDATE;
        WHEN 'queue' THEN
            SELECT q.version INTO stored FROM rota.queues q WHERE q.name = expect_version.name FOR UPDATE;
            stored := coalesce(stored, 1);              -- nobody has said anything about it
        WHEN 'tenant' THEN
            SELECT t.version INTO stored FROM rota.tenants t WHERE t.name = expect_version.name FOR UPDATE;
            stored := coalesce(stored, 1);
        ELSE
            RAISE EXCEPTION 'unknown kind "%"; choose from schedule, job, calendar, template, queue, tenant', kind
                USING ERRCODE = 'RO002';
    END CASE;
    IF stored IS NULL THEN
        RAISE EXCEPTION 'no % is named "%"', kind, expect_version.name USING ERRCODE = 'RO002';
    ELSIF stored <> expect_version.version THEN
        RAISE EXCEPTION '% "%" has changed: it is at version %, not %', kind, expect_version.name, stored,
            expect_version.version
            USING ERRCODE = 'RO008', DETAIL = stored::text, HINT = 'Read it again, then repeat the change.';
    END IF;
END $$;

-- What code says about a schedule (`app.schedule`), again and again: makes it, brings the fields that no operator has
-- touched up to what is said, and writes nothing when the same was said before. A field that is not said stays. Answers
-- whether it wrote.
-- Called by: sql/schedules/put.sql.
-- Locks: rows.
CREATE FUNCTION rota.put_schedule(name text, declared jsonb, tenant text DEFAULT '', actor text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    wanted rota.schedules := jsonb_populate_record(NULL::rota.schedules, declared);
    said   jsonb := rota.pick(to_jsonb(wanted), declared - 'job');
    was    text[] := rota.say_why(put_schedule.actor, NULL);
    stored rota.schedules;
BEGIN
    LOOP
        SELECT s.* INTO stored FROM rota.schedules s
        WHERE s.tenant = put_schedule.tenant AND s.name = put_schedule.name FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO rota.schedules (tenant, name, job, origin, code, is_enabled,
            description, tags, metadata, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold,
            every_from, start_at, end_at, max_runs, jitter_seconds, burst_allowed, calendar, on_closed, catch_up,
            catch_up_seconds, catch_up_limit, grace_seconds, overlap, max_concurrent_runs, pause_after_failures,
            requires, is_shadow, delete_when_finished, payload, queue, priority,
            max_attempts, timeout_seconds, run_tags, run_metadata)
        VALUES (put_schedule.tenant, put_schedule.name, wanted.job, 'code', said, coalesce(wanted.is_enabled, true),
            wanted.description, wanted.tags, wanted.metadata, wanted.cron, wanted.interval_seconds, wanted.run_at,
            wanted.init, wanted.has_seconds, wanted.timezone, wanted.gap, wanted.fold, wanted.every_from,
            wanted.start_at, wanted.end_at, wanted.max_runs, wanted.jitter_seconds,
            coalesce(wanted.burst_allowed, false), wanted.calendar, wanted.on_closed, wanted.catch_up,
            wanted.catch_up_seconds, wanted.catch_up_limit, wanted.grace_seconds, wanted.overlap,
            wanted.max_concurrent_runs, wanted.pause_after_failures, wanted.requires, wanted.is_shadow,
            wanted.delete_when_finished, wanted.payload, wanted.queue, wanted.priority,
            wanted.max_attempts, wanted.timeout_seconds, wanted.run_tags, wanted.run_metadata)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            PERFORM rota.unsay(was);
            RETURN true;
        END IF;
    END LOOP;
    IF stored.origin = 'definition' THEN
        RAISE EXCEPTION 'schedule "%" is one of the schedules that job "%" declares', stored.name, stored.job
            USING ERRCODE = 'RO005', HINT = 'Rename one of them.';
    ELSIF stored.code IS NOT DISTINCT FROM said AND stored.job = wanted.job THEN
        PERFORM rota.unsay(was);
        RETURN false;
    END IF;
    -- Said by code: no edit of an operator.
    PERFORM set_config('rota' || '.syncing', 'on', true);
    UPDATE rota.schedules s SET job = wanted.job, origin = 'code', code = said,
        edited = rota.still_edited(to_jsonb(s), s.edited, said), (is_enabled,
            description, tags, metadata, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold,
            every_from, start_at, end_at, max_runs, jitter_seconds, burst_allowed, calendar, on_closed, catch_up,
            catch_up_seconds, catch_up_limit, grace_seconds, overlap, max_concurrent_runs, pause_after_failures,
            requires, is_shadow, delete_when_finished, payload, queue, priority,
            max_attempts, timeout_seconds, run_tags, run_metadata) = (
        SELECT r.is_enabled,
            r.description, r.tags, r.metadata, r.cron, r.interval_seconds, r.run_at, r.init, r.has_seconds, r.timezone,
            r.gap, r.fold, r.every_from, r.start_at, r.end_at, r.max_runs, r.jitter_seconds,
            coalesce(r.burst_allowed, false), r.calendar, r.on_closed, r.catch_up, r.catch_up_seconds,
            r.catch_up_limit, r.grace_seconds, r.overlap, r.max_concurrent_runs, r.pause_after_failures, r.requires,
            r.is_shadow, r.delete_when_finished, r.payload, r.queue, r.priority, r.max_attempts, r.timeout_seconds,
            r.run_tags, r.run_metadata
        FROM jsonb_populate_record(s, said - rota.kept_fields(s.edited)) r)
    WHERE s.id = stored.id;
    PERFORM set_config('rota' || '.syncing', '', true), rota.unsay(was);
    RETURN true;
END $$;

-- Many schedules that code declares, one for each tenant for example, in one statement. A document is said once,
-- however many schedules have it: `places` says which of the documents each has, from 1. What is as declared is found
-- by one join; what is new or changed is written as put_schedule writes one. Returns how many were written.
-- `application`: whose code says so at its start; what is said at run time names none.
-- Called by: sql/schedules/put_many.sql.
-- Locks: rows that nobody else has locked, rows.
CREATE FUNCTION rota.put_schedules(tenants text[], names text[], places integer[], documents text[],
    actor text DEFAULT NULL, application text DEFAULT NULL)
RETURNS integer LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    declared jsonb[] := ARRAY(SELECT d.doc::jsonb FROM unnest(documents) WITH ORDINALITY AS d (doc, n) ORDER BY d.n);
    said     jsonb[] := ARRAY(SELECT rota.pick(to_jsonb(jsonb_populate_record(NULL::rota.schedules, d.doc)),
        d.doc - 'job')
                              FROM unnest(declared) WITH ORDINALITY AS d (doc, n) ORDER BY d.n);
    taken    record;
    made     integer;
    changed  integer;
    was      text[] := rota.say_why(put_schedules.actor, NULL);
BEGIN
    -- By tenant and name, so that two starting processes cannot deadlock.
    INSERT INTO rota.schedules (tenant, name, job, origin, code, is_enabled,
        description, tags, metadata, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold, every_from,
        start_at, end_at, max_runs, jitter_seconds, burst_allowed, calendar, on_closed, catch_up, catch_up_seconds,
        catch_up_limit, grace_seconds, overlap, max_concurrent_runs, pause_after_failures, requires, is_shadow,
        delete_when_finished, payload, queue, priority, max_attempts, timeout_seconds, run_tags, run_metadata)
    SELECT w.tenant, w.name, r.job, 'code', said[w.place], coalesce(r.is_enabled, true),
        r.description, r.tags, r.metadata, r.cron, r.interval_seconds, r.run_at, r.init, r.has_seconds, r.timezone,
        r.gap, r.fold, r.every_from, r.start_at, r.end_at, r.max_runs, r.jitter_seconds,
        coalesce(r.burst_allowed, false), r.calendar, r.on_closed, r.catch_up, r.catch_up_seconds, r.catch_up_limit,
        r.grace_seconds, r.overlap, r.max_concurrent_runs, r.pause_after_failures, r.requires, r.is_shadow,
        r.delete_when_finished, r.payload, r.queue, r.priority, r.max_attempts, r.timeout_seconds, r.run_tags,
        r.run_metadata
    FROM unnest(put_schedules.tenants, names, places) AS w (tenant, name, place)
    CROSS JOIN LATERAL jsonb_populate_record(NULL::rota.schedules, declared[w.place]) r
    WHERE NOT EXISTS (SELECT FROM rota.schedules s WHERE s.tenant = w.tenant AND s.name = w.name)
    ORDER BY w.tenant COLLATE "C", w.name COLLATE "C"
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS made = ROW_COUNT;
    SELECT s.name, s.job INTO taken FROM unnest(put_schedules.tenants, names) AS w (tenant, name)
    JOIN rota.schedules s ON s.tenant = w.tenant AND s.name = w.name WHERE s.origin = 'definition' LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'schedule "%" is one of the schedules that job "%" declares', taken.name, taken.job
            USING ERRCODE = 'RO005', HINT = 'Rename one of them.';
    END IF;
    PERFORM FROM (SELECT s.id FROM unnest(put_schedules.tenants, names, places) AS w (tenant, name, place)
                  JOIN rota.schedules s ON s.tenant = w.tenant AND s.name = w.name
                  WHERE s.code IS DISTINCT FROM said[w.place] OR s.job <> declared[w.place] ->> 'job'
                  ORDER BY s.tenant COLLATE "C", s.name COLLATE "C" FOR UPDATE OF s) held;
    -- Said by code: no edit of an operator.
    PERFORM set_config('rota' || '.syncing', 'on', true);
    UPDATE rota.schedules s SET job = declared[w.place] ->> 'job', origin = 'code', code = said[w.place],
        edited = rota.still_edited(to_jsonb(s), s.edited, said[w.place]), (is_enabled,
        description, tags, metadata, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold, every_from,
        start_at, end_at, max_runs, jitter_seconds, burst_allowed, calendar, on_closed, catch_up, catch_up_seconds,
        catch_up_limit, grace_seconds, overlap, max_concurrent_runs, pause_after_failures, requires, is_shadow,
        delete_when_finished, payload, queue, priority, max_attempts, timeout_seconds, run_tags, run_metadata) = (
        SELECT r.is_enabled,
        r.description, r.tags, r.metadata, r.cron, r.interval_seconds, r.run_at, r.init, r.has_seconds, r.timezone,
        r.gap, r.fold, r.every_from, r.start_at, r.end_at, r.max_runs, r.jitter_seconds,
        coalesce(r.burst_allowed, false), r.calendar, r.on_closed, r.catch_up, r.catch_up_seconds, r.catch_up_limit,
        r.grace_seconds, r.overlap, r.max_concurrent_runs, r.pause_after_failures, r.requires, r.is_shadow,
        r.delete_when_finished, r.payload, r.queue, r.priority, r.max_attempts, r.timeout_seconds, r.run_tags,
        r.run_metadata
        FROM jsonb_populate_record(s, said[w.place] - rota.kept_fields(s.edited)) r)
    FROM unnest(put_schedules.tenants, names, places) AS w (tenant, name, place)
    WHERE s.tenant = w.tenant AND s.name = w.name
      AND (s.code IS DISTINCT FROM said[w.place] OR s.job <> declared[w.place] ->> 'job');
    GET DIAGNOSTICS changed = ROW_COUNT;
    PERFORM set_config('rota' || '.syncing', '', true), rota.unsay(was);
    -- By itself: no trigger of edits looks at this column. A row that somebody holds is noted at the next start.
    UPDATE rota.schedules s SET application = put_schedules.application WHERE s.id = ANY (ARRAY(
        SELECT o.id FROM unnest(put_schedules.tenants, names) AS w (tenant, name)
        JOIN rota.schedules o ON o.tenant = w.tenant AND o.name = w.name
        WHERE put_schedules.application IS NOT NULL AND o.application IS DISTINCT FROM put_schedules.application
        FOR NO KEY UPDATE OF o SKIP LOCKED));
    RETURN made + changed;
END $$;

-- The next time is this instant; regular ones before it are superseded, the timing goes on after it.
-- Called by: sql/schedules/reschedule.sql, users.
CREATE FUNCTION rota.reschedule(name text, at timestamptz, tenant text DEFAULT '', reason text DEFAULT NULL,
    actor text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found rota.schedules := rota.find_schedule(reschedule.name, reschedule.tenant);
    was   text[];
BEGIN
    IF reschedule.at IS NULL THEN
        PERFORM rota.bad_schedule(found.name, 'the new time must be in the future');
    ELSIF NOT rota.is_instant(reschedule.at) THEN
        PERFORM rota.bad_schedule(found.name, format('the new time must be finite, not %s', reschedule.at),
            'To stop it, use rota.pause_schedule or rota.disable_schedule; next_run_at = NULL recomputes its next '
            'time.');
    END IF;
    was := rota.say_why(reschedule.actor, reschedule.reason);
    UPDATE rota.schedules s SET next_run_at = reschedule.at, moved_to = reschedule.at WHERE s.id = found.id;
    PERFORM rota.unsay(was);
END $$;

-- Moves the next time of a schedule to this instant, for reschedule and plain UPDATEs: regular times before it are
-- superseded, the timing goes on after it.
-- Called by: check_next_run, check_schedule.
CREATE FUNCTION rota.move_schedule(s rota.schedules, at timestamptz) RETURNS rota.schedules
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF s.init IS NOT NULL THEN
        PERFORM rota.bad_schedule(s.name, 'an init schedule has no next time');
    ELSIF NOT rota.is_instant(at) THEN
        PERFORM rota.bad_schedule(s.name, format('its next time must be finite, not %s', at),
            'To stop it, use rota.pause_schedule or rota.disable_schedule; next_run_at = NULL recomputes its next '
            'time.');
    ELSIF at < rota.now() - interval '1 minute' THEN
        PERFORM rota.bad_schedule(s.name, format('its next time must be in the future, not %s', at),
            'next_run_at = NULL recomputes it; rota.trigger_schedule runs it now.');
    END IF;
    s.moved_to := greatest(at, s.cursor_at + interval '1 microsecond');
    s.next_run_at := s.moved_to;
    s.finished_at := NULL;
    s.parked_at := NULL;
    s.error := NULL;
    s.parked_times := 0;
    s.retry_at := NULL;
    RETURN s;
END $$;

-- What enable_schedule and disable_schedule do. The trigger of edits writes the audit. Returns whether it wrote: false
-- if it was so already.
-- Called by: disable_schedule, enable_schedule, sql/schedules/set_enabled.sql, users.
CREATE FUNCTION rota.set_schedule_enabled(name text, enabled boolean, tenant text DEFAULT '', reason text DEFAULT NULL,
    actor text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found rota.schedules := rota.find_schedule(set_schedule_enabled.name, set_schedule_enabled.tenant);
    was   text[] := rota.say_why(set_schedule_enabled.actor, set_schedule_enabled.reason);
    wrote bigint;
BEGIN
    UPDATE rota.schedules s SET is_enabled = enabled WHERE s.id = found.id AND s.is_enabled <> enabled;
    GET DIAGNOSTICS wrote = ROW_COUNT;
    PERFORM rota.unsay(was);
    RETURN wrote > 0;
END $$;

-- It goes on with its next time. False: it was enabled already.
-- Called by: users.
CREATE FUNCTION rota.enable_schedule(name text, tenant text DEFAULT '', reason text DEFAULT NULL,
    actor text DEFAULT NULL)
RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT rota.set_schedule_enabled(enable_schedule.name, true, enable_schedule.tenant, enable_schedule.reason,
        enable_schedule.actor)
$$;

-- Its times are skipped and recorded until it is enabled. False: it was disabled already.
-- Called by: users.
CREATE FUNCTION rota.disable_schedule(name text, tenant text DEFAULT '', reason text DEFAULT NULL,
    actor text DEFAULT NULL)
RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT rota.set_schedule_enabled(disable_schedule.name, false, disable_schedule.tenant, disable_schedule.reason,
        disable_schedule.actor)
$$;

-- Its times are skipped and recorded until it is resumed, or until that time. If it is paused already, a new end or
-- reason replaces the old one. Returns whether it wrote: false if nothing differs.
-- Called by: sql/schedules/pause.sql, users.
CREATE FUNCTION rota.pause_schedule(name text, reason text DEFAULT NULL, until timestamptz DEFAULT NULL,
    tenant text DEFAULT '', actor text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found rota.schedules := rota.find_schedule(pause_schedule.name, pause_schedule.tenant);
    was   text[];
    wrote bigint;
BEGIN
    IF pause_schedule.until <= rota.now() THEN
        PERFORM rota.bad_schedule(found.name, 'the end of a pause must be in the future');
    END IF;
    was := rota.say_why(pause_schedule.actor, pause_schedule.reason);
    UPDATE rota.schedules s
    SET paused_at = coalesce(s.paused_at, rota.now()), paused_until = pause_schedule.until,
        pause_reason = coalesce(pause_schedule.reason, CASE WHEN s.paused_until <= rota.now() THEN NULL
            ELSE s.pause_reason END),
        paused_by = rota.who()
    WHERE s.id = found.id AND (s.paused_at IS NULL OR s.paused_until IS DISTINCT FROM pause_schedule.until
        OR s.pause_reason IS DISTINCT FROM coalesce(pause_schedule.reason, s.pause_reason));
    GET DIAGNOSTICS wrote = ROW_COUNT;
    PERFORM rota.unsay(was);
    RETURN wrote > 0;
END $$;

-- A paused schedule goes on from now; with catch_up, the times since the pause are treated as missed and the policy
-- decides. Returns whether it wrote: false if it was not paused.
-- Called by: sql/schedules/resume.sql, users.
CREATE FUNCTION rota.resume_schedule(name text, catch_up boolean DEFAULT false, tenant text DEFAULT '',
    reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found rota.schedules := rota.find_schedule(resume_schedule.name, resume_schedule.tenant);
    was   text[];
BEGIN
    IF found.paused_at IS NULL THEN
        RETURN false;
    END IF;
    was := rota.say_why(resume_schedule.actor, resume_schedule.reason);
    UPDATE rota.schedules s SET paused_at = NULL, paused_by = NULL, pause_reason = NULL, paused_until = NULL,
        failures_in_a_row = 0
    WHERE s.id = found.id;
    IF resume_schedule.catch_up THEN
        -- The trigger has noted the stretch of the pause as skipped; it is owed after all.
        UPDATE rota.schedules s SET segments = s.segments - -1
        WHERE s.id = found.id AND jsonb_array_length(s.segments) > jsonb_array_length(found.segments);
    END IF;
    PERFORM rota.unsay(was);
    RETURN true;
END $$;

-- Runs a schedule now, whatever its state; the cursor stays where it is. The run belongs to its schedule: lists,
-- status, requirements, overlap and limits count it. It takes no nominal time. RO002: the job would not take the
-- payload.
-- Called by: sql/schedules/trigger.sql, users.
CREATE FUNCTION rota.trigger_schedule(
    name text, payload jsonb DEFAULT NULL, tenant text DEFAULT '', reason text DEFAULT NULL, actor text DEFAULT NULL,
    metadata jsonb DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found rota.schedules := rota.find_schedule(trigger_schedule.name, trigger_schedule.tenant);
    who   text := coalesce(trigger_schedule.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    its   rota.jobs := (SELECT j FROM rota.jobs j WHERE j.name = found.job);
    -- JSON's null is no payload either.
    given jsonb := coalesce(nullif(trigger_schedule.payload, 'null'), found.payload, its.default_payload, '{}');
    wrong text := CASE WHEN jsonb_typeof(given) = 'object' THEN rota.payload_problem(its.payload_schema, given) END;
    made  bigint;
BEGIN
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'schedule "%": the payload does not fit job "%": %', found.name, found.job, wrong
            USING ERRCODE = 'RO018', HINT = 'rota.jobs.payload_schema describes its arguments.';
    END IF;
    SELECT r.run_id INTO made FROM rota.enqueue_run(
        job => found.job, payload => given, queue => found.queue, priority => found.priority::integer,
            tenant => found.tenant, max_attempts => found.max_attempts::integer,
        timeout_seconds => found.timeout_seconds::double precision, tags => found.run_tags,
        metadata => coalesce(trigger_schedule.metadata || found.run_metadata, trigger_schedule.metadata,
        found.run_metadata), triggered_by => jsonb_build_object('type', 'manual', 'actor', who, 'schedule',
        found.name)) r;
    UPDATE rota.open_runs o SET schedule = found.name, schedule_id = found.id WHERE o.id = made;
    PERFORM rota.limit_run(made);
    PERFORM rota.write_audit(who, 'schedule.triggered', 'schedule', found.name, NULL,
        jsonb_build_object('run_id', made), trigger_schedule.reason, found.tenant);
    RETURN jsonb_build_object('success', true, 'run_id', made, 'job', found.job, 'job_name', found.job, 'schedule',
        found.name);
END $$;

-- Runs for nominal times of the past, which Python has listed. The decisions taken about them stay as they are: a
-- backfill has rows of its own. Its runs are not the schedule's (no overlap is counted, no last success is moved),
-- but they are under its limits.
-- Called by: sql/schedules/backfill.sql.
CREATE FUNCTION rota.backfill_schedule(
    name text, times timestamptz[], since timestamptz[], starts timestamptz[], from_at timestamptz,
    until_at timestamptz, priority integer DEFAULT NULL, reason text DEFAULT NULL, tenant text DEFAULT '',
    actor text DEFAULT NULL, backfill bigint DEFAULT NULL, total integer DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found rota.schedules := rota.find_schedule(backfill_schedule.name, backfill_schedule.tenant);
    who   text := coalesce(backfill_schedule.actor, nullif(current_setting('rota' || '.actor', true), ''),
        session_user);
    its   rota.jobs := (SELECT j FROM rota.jobs j WHERE j.name = found.job);
    made  bigint := backfill_schedule.backfill;
    runs  bigint[];
BEGIN
    IF made IS NULL THEN
        INSERT INTO rota.backfills (schedule_id, from_at, until_at, created_by, reason)
        VALUES (found.id, backfill_schedule.from_at, backfill_schedule.until_at, who, backfill_schedule.reason)
        RETURNING id INTO made;
        PERFORM rota.write_audit(who, 'schedule.backfilled', 'schedule', found.name, NULL,
            jsonb_build_object('backfill', made, 'from', backfill_schedule.from_at, 'until', backfill_schedule.until_at,
                               'runs', coalesce(total, cardinality(times), 0)), backfill_schedule.reason, found.tenant);
    END IF;
    WITH wanted AS MATERIALIZED (
        SELECT t.nominal_at, t.since, t.start_at, r.run_id
        FROM unnest(times, backfill_schedule.since, starts) WITH ORDINALITY AS t (nominal_at, since, start_at, n)
        CROSS JOIN LATERAL rota.enqueue_run(
            job => found.job,
            payload => coalesce(found.payload, its.default_payload, '{}'), queue => found.queue,
            priority => coalesce(backfill_schedule.priority, found.priority::integer),
            run_at => rota.after(t.start_at, coalesce(its.delay_seconds, 0)), tenant => found.tenant,
            max_attempts => found.max_attempts::integer,
            timeout_seconds => found.timeout_seconds::double precision, tags => found.run_tags,
            metadata => found.run_metadata, triggered_by => jsonb_build_object('type', 'backfill', 'actor', who,
                'schedule', found.name, 'backfill', made, 'since', t.since)) r
        ORDER BY t.n
    ), noted AS (
        INSERT INTO rota.backfill_times (backfill_id, schedule_id, nominal_at, run_id)
        SELECT made, found.id, w.nominal_at, w.run_id FROM wanted w
    )
    SELECT array_agg(w.run_id ORDER BY w.nominal_at) INTO runs FROM wanted w;
    UPDATE rota.open_runs o SET schedule = found.name, scheduled_for = b.nominal_at
    FROM rota.backfill_times b WHERE b.backfill_id = made AND b.run_id = ANY (runs) AND o.id = b.run_id;
    PERFORM rota.limit_run(r) FROM unnest(runs) r;
    RETURN jsonb_build_object('backfill_id', made, 'run_ids', to_jsonb(coalesce(runs, '{}')));
END $$;

-- Deletes a schedule, and on request cancels its runs that wait; returns how many. What ran stays in history and
-- ledger.
-- Called by: delete_job, sql/schedules/delete.sql, users.
CREATE FUNCTION rota.delete_schedule(name text, cancel_waiting boolean DEFAULT false, tenant text DEFAULT '',
    reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS integer LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found     rota.schedules := rota.find_schedule(delete_schedule.name, delete_schedule.tenant);
    cancelled integer := 0;
    was       text[];
BEGIN
    IF found.is_system THEN
        RAISE EXCEPTION 'schedule "%" belongs to Rota and cannot be deleted', found.name
            USING ERRCODE = 'RO005', HINT = 'Disable it instead.';
    END IF;
    was := rota.say_why(delete_schedule.actor, delete_schedule.reason);
    DELETE FROM rota.schedules s WHERE s.id = found.id;
    IF cancel_waiting THEN
        SELECT count(*) INTO cancelled FROM rota.end_waiting_runs(
            ARRAY(SELECT o.id FROM rota.open_runs o WHERE o.schedule_id = found.id AND o.state <> 'running'),
            'cancelled', 'its schedule was deleted');
    END IF;
    PERFORM rota.unsay(was);
    RETURN cancelled;
END $$;

-- Trigger: a calendar that can be read again brings back the schedules that it parked. Whatever they missed
-- meanwhile, their catch-up decides.
CREATE FUNCTION rota.revive_schedules() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    UPDATE rota.schedules s SET parked_at = NULL, error = NULL, parked_times = 0, retry_at = NULL,
        tick_version = s.tick_version + 1
    WHERE s.calendar = NEW.name AND s.parked_at IS NOT NULL;
    PERFORM pg_notify('rota', 'schedules') WHERE FOUND;
    RETURN NULL;
END $$;
CREATE TRIGGER calendars_revive AFTER INSERT OR UPDATE OF definition ON rota.calendars FOR EACH ROW
    EXECUTE FUNCTION rota.revive_schedules();

-- Counts are kept, not counted: the ends of a schedule's runs by day. The ledger may be cut, these stay.
CREATE TABLE rota.schedule_days (
    schedule_id bigint NOT NULL,
    day         date NOT NULL,              -- in UTC
    succeeded   bigint NOT NULL,
    failed      bigint NOT NULL,
    cancelled   bigint NOT NULL,
    timed       bigint NOT NULL,            -- those that have a duration
    duration_ms double precision NOT NULL,  -- their sum
    longest_ms  real NOT NULL,
    PRIMARY KEY (schedule_id, day)
) WITH (fillfactor = 70);

-- What lists show of each schedule.
CREATE VIEW rota.schedule_status AS
SELECT s.name, s.tenant, s.job,
       CASE WHEN s.parked_at IS NOT NULL THEN 'parked'
            WHEN s.finished_at IS NOT NULL THEN 'finished'
            WHEN NOT s.is_enabled THEN 'disabled'
            WHEN s.paused_at IS NOT NULL AND coalesce(s.paused_until, 'infinity') > rota.now() THEN 'paused'
            WHEN s.init IS NULL AND s.next_run_at IS NULL THEN 'pending'
            ELSE 'active' END AS state,
       s.is_enabled AS enabled, s.paused_until, s.pause_reason,
       s.last_run_at, s.last_run_success, s.last_success_at, s.last_enqueued_at,
       -- One that counts from the end of its run has no next time while that runs.
       CASE WHEN s.is_ticking THEN nullif(greatest(s.next_run_at, s.paused_until), 'infinity') END AS next_run_at,
       coalesce(d.runs, 0) AS total_runs,
       round(100.0 * d.succeeded / nullif(d.succeeded + d.failed, 0), 1)::double precision AS success_rate_percent,
       d.duration_ms / nullif(d.timed, 0) AS avg_duration_ms,
       d.longest_ms AS max_duration_ms, d.longest_ms_7d AS max_duration_ms_7d,
       s.error, s.is_system, s.id AS schedule_id
FROM rota.schedules s
LEFT JOIN LATERAL (
    SELECT sum(c.succeeded + c.failed + c.cancelled)::bigint AS runs, sum(c.succeeded) AS succeeded,
           sum(c.failed) AS failed, sum(c.timed) AS timed, sum(c.duration_ms) AS duration_ms,
           max(c.longest_ms) FILTER (WHERE c.timed > 0) AS longest_ms,
           max(c.longest_ms) FILTER (WHERE c.timed > 0 AND c.day > (rota.now() AT TIME ZONE 'UTC')::date - 7)
           AS longest_ms_7d
    FROM rota.schedule_days c WHERE c.schedule_id = s.id
) d ON true;
COMMENT ON VIEW rota.schedule_status
    IS 'The status of each schedule: its last runs, its next time, the durations of its runs.';

-- 18_definitions.sql

-- What code declares. `register_jobs` writes what is new or changed, leaves what a person has edited, and marks what
-- no code declares any more; the newest build of an application speaks for it (`may_speak`). `job_applications` says
-- who declares what, `dropped_schedules` what people deleted, `init_runs` which starts have had their run
-- (`run_inits`). Why: docs/decisions/0011-definition-sync.md.

-- A job is deleted from code when the last application that declared it no longer does.
CREATE TABLE rota.job_applications (
    job           text COLLATE "C" NOT NULL,
    application   text COLLATE "C" NOT NULL,
    hash          text NOT NULL,
    first_seen_at timestamptz NOT NULL DEFAULT rota.now(),
    PRIMARY KEY (job, application)
);
CREATE INDEX job_applications_application ON rota.job_applications (application);

-- Which starts, releases or once an init schedule has had its run for.
CREATE TABLE rota.init_runs (
    schedule_id bigint NOT NULL,
    marker      text COLLATE "C" NOT NULL,  -- once, release 2026-01-31, start 7
    run_id      bigint NOT NULL,
    state       text COLLATE "C" NOT NULL DEFAULT 'queued',
    enqueued_at timestamptz NOT NULL DEFAULT rota.now(),
    PRIMARY KEY (schedule_id, marker)
);
CREATE INDEX init_runs_run ON rota.init_runs (run_id);

-- Declared schedules that an operator deleted: they stay deleted.
CREATE TABLE rota.dropped_schedules (
    tenant     text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    dropped_at timestamptz NOT NULL DEFAULT rota.now(),
    dropped_by text NOT NULL,
    PRIMARY KEY (tenant, name)
);

-- The fields of a row that a declaration names, as the columns hold them (a real column rounds).
-- Called by: put_schedule, put_schedules, read_definitions, read_schedules, sql/jobs/plan.sql.
CREATE FUNCTION rota.pick(stored jsonb, declared jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(jsonb_object_agg(k, stored -> k), '{}') FROM jsonb_object_keys(declared) k
$$;

-- The definitions that a process sends, as rows; code holds what they say of the columns of rota.jobs.
-- Called by: changed_jobs, read_schedules, register_jobs, sql/jobs/plan.sql, write_definitions.
CREATE FUNCTION rota.read_definitions(definitions jsonb) RETURNS TABLE (
    name text, hash text, source text, executor text, payload_schema jsonb, code jsonb, schedules jsonb
) LANGUAGE sql STABLE AS $$
    SELECT w.name, w.hash, w.source, w.executor, w.payload_schema, rota.pick(to_jsonb(r), w.defaults), w.schedules
    FROM jsonb_to_recordset(definitions) AS w (
        name text, hash text, source text, executor text, payload_schema jsonb, defaults jsonb, schedules jsonb)
    CROSS JOIN LATERAL jsonb_populate_record(NULL::rota.jobs, w.defaults) r
$$;

-- The schedules inside these definitions, as rows.
-- Called by: sql/jobs/plan.sql, sync_schedules.
CREATE FUNCTION rota.read_schedules(definitions jsonb, of_jobs text[]) RETURNS TABLE (name text, job text, code jsonb)
LANGUAGE sql STABLE AS $$
    SELECT v ->> 'name', w.name, rota.pick(to_jsonb(r), v - 'name')
    FROM rota.read_definitions(definitions) w CROSS JOIN LATERAL jsonb_array_elements(w.schedules) v
    CROSS JOIN LATERAL jsonb_populate_record(NULL::rota.schedules, v) r
    WHERE w.name = ANY (of_jobs)
$$;

-- Whether this build may say what jobs are: it is the newest, or it takes over. An old build takes over when a worker
-- runs it and no live worker runs a newer one (a roll-back), or when no worker is live at all. A newer build that no
-- worker has run yet is a deployment under way.
-- Called by: must_sync, register_jobs.
CREATE FUNCTION rota.may_speak(of_application text, of_build text, for_worker bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT mine.number IS NULL OR mine.number = newest.number OR CASE
        WHEN for_worker IS NULL THEN NOT EXISTS (SELECT FROM rota.live_workers(of_application))
        ELSE newest.has_worked AND NOT EXISTS (
            SELECT FROM rota.live_workers(of_application) w JOIN rota.builds b ON b.application = w.application
                AND b.build = w.build
            WHERE b.number > mine.number) END
    FROM (SELECT 1) one
    LEFT JOIN rota.builds mine ON mine.application = of_application AND mine.build = of_build
    LEFT JOIN LATERAL (SELECT * FROM rota.builds b WHERE b.application = of_application ORDER BY b.number DESC
        LIMIT 1) newest ON true
$$;

-- Whether a job follows this application: one that two applications declare follows the first, while that one
-- declares it and has a worker.
-- Called by: changed_jobs, write_definitions.
CREATE FUNCTION rota.may_follow(j rota.jobs, of_application text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT j.application = of_application OR j.code IS NULL
        OR NOT EXISTS (SELECT FROM rota.job_applications a WHERE a.job = j.name AND a.application = j.application)
        OR NOT EXISTS (SELECT FROM rota.live_workers(j.application))
$$;

-- Notes that this build is the newest of its application.
-- Called by: register_jobs.
CREATE FUNCTION rota.speak(of_application text, of_build text, for_worker bigint) RETURNS void
LANGUAGE sql VOLATILE SET jit = off AS $$
    WITH newest AS (SELECT coalesce(max(b.number), 0) AS number FROM rota.builds b WHERE b.application = of_application)
    INSERT INTO rota.builds AS b (application, build, number, has_worked)
    SELECT of_application, of_build, n.number + 1, for_worker IS NOT NULL FROM newest n
    ON CONFLICT (application, build) DO UPDATE
    SET number = CASE WHEN b.number = excluded.number - 1 THEN b.number ELSE excluded.number END,
        has_worked = b.has_worked OR excluded.has_worked
    WHERE b.number < excluded.number - 1 OR b.has_worked < excluded.has_worked;
    DELETE FROM rota.builds b WHERE b.application = of_application
        AND b.number < (SELECT max(m.number) - 200 FROM rota.builds m WHERE m.application = of_application);
$$;

-- The names of the definitions that say something new of their job.
-- Called by: register_jobs.
CREATE FUNCTION rota.changed_jobs(of_application text, definitions jsonb, forced text[]) RETURNS SETOF text
LANGUAGE sql STABLE AS $$
    SELECT w.name FROM rota.read_definitions(definitions) w
    LEFT JOIN rota.jobs j ON j.name = w.name
    LEFT JOIN rota.job_applications a ON a.job = w.name AND a.application = of_application
    WHERE j.name IS NULL OR a.hash IS DISTINCT FROM w.hash OR j.deleted_from_code_at IS NOT NULL
      OR w.name = ANY (forced)
       OR (j.definition_hash IS DISTINCT FROM w.hash AND rota.may_follow(j, of_application))
    ORDER BY w.name COLLATE "C"
$$;

-- What this application declared before and does no longer. A person who says so (is_told) is contradicted by live
-- workers only; else by every worker that kept_jobs counts.
-- Called by: must_sync, register_jobs, sql/jobs/plan.sql.
CREATE FUNCTION rota.gone_jobs(of_application text, names text[], is_told boolean) RETURNS SETOF text
LANGUAGE sql STABLE SET jit = off AS $$
    SELECT a.job FROM rota.job_applications a
    WHERE a.application = of_application AND a.job <> ALL (names) AND CASE
        WHEN is_told THEN NOT EXISTS (SELECT FROM rota.live_workers(of_application) w WHERE a.job = ANY (w.jobs))
        ELSE a.job NOT IN (SELECT rota.kept_jobs(of_application)) END
$$;

-- Whether registering again would write something; workers ask every few seconds.
-- Called by: sql/jobs/refresh.sql.
CREATE FUNCTION rota.must_sync(for_worker bigint) RETURNS boolean LANGUAGE sql STABLE SET jit = off AS $$
    SELECT EXISTS (SELECT FROM unnest(w.jobs) n JOIN rota.jobs j ON j.name = n AND j.code IS NOT NULL
                   WHERE NOT EXISTS (SELECT FROM rota.job_applications a
                       WHERE a.job = n AND a.application = w.application))
        OR (rota.may_speak(w.application, w.build, w.id) AND (
            w.build IS DISTINCT FROM (SELECT b.build FROM rota.builds b WHERE b.application = w.application
                ORDER BY b.number DESC LIMIT 1)
            OR EXISTS (SELECT FROM rota.gone_jobs(w.application, w.jobs, false))))
    FROM rota.workers w WHERE w.id = for_worker AND w.application IS NOT NULL
$$;

-- Tells the database what a process declares; returns the names of those that were written. names: all that the
-- process declares, so that what is gone can be marked; NULL: do not look for that. Without a worker and with names,
-- somebody has asked for it. Nothing is written when nothing has changed; one process at a time writes. A worker's
-- own jobs are its application's whatever its build: what was marked deleted is revived, as its code says; nothing
-- else of older code counts. A job that somebody holds is left for the next time, and its build is not the newest
-- until then, so that its workers register again; what somebody forces, waits.
-- Called by: sql/jobs/register.sql.
-- Locks: "definitions".
CREATE FUNCTION rota.register_jobs(
    of_application text, of_build text, definitions jsonb, for_worker bigint DEFAULT NULL, names text[] DEFAULT NULL,
    forced text[] DEFAULT '{}'
) RETURNS SETOF text LANGUAGE plpgsql VOLATILE SET lock_timeout = '5s' SET jit = off AS $$
DECLARE
    actor   text := current_setting('rota' || '.actor', true);
    is_told boolean := for_worker IS NULL AND names IS NOT NULL;
    changed text[] := ARRAY(SELECT rota.changed_jobs(of_application, definitions, forced));
    gone    text[] := ARRAY(SELECT rota.gone_jobs(of_application, names, is_told) WHERE names IS NOT NULL);
    held    text[];
BEGIN
    IF definitions = '[]' AND names IS NULL THEN
        RETURN;                                         -- no application: somebody who looks around
    END IF;
    IF changed = '{}' AND gone = '{}' AND EXISTS (
        SELECT FROM rota.builds b WHERE b.application = of_application AND b.build = of_build
            AND (b.has_worked OR for_worker IS NULL)
        AND b.number = (SELECT max(m.number) FROM rota.builds m WHERE m.application = of_application)) THEN
        RETURN;
    END IF;
    PERFORM rota.take_lock('definitions');
    PERFORM set_config('rota' || '.syncing', 'on', true),
            set_config('rota' || '.actor', coalesce(nullif(actor, ''), 'code:' || of_application), true);
    changed := ARRAY(SELECT rota.changed_jobs(of_application, definitions, forced));
    gone := ARRAY(SELECT rota.gone_jobs(of_application, names, is_told) WHERE names IS NOT NULL);
    held := ARRAY(SELECT c FROM unnest(changed || gone) c WHERE c <> ALL (forced) AND NOT rota.lock_definition(c));
    changed := ARRAY(SELECT c FROM unnest(changed) c WHERE c <> ALL (held));
    gone := ARRAY(SELECT c FROM unnest(gone) c WHERE c <> ALL (held));
    IF is_told OR rota.may_speak(of_application, of_build, for_worker) THEN
        PERFORM rota.speak(of_application, of_build, for_worker) WHERE held = '{}';
        DELETE FROM rota.job_applications a WHERE a.application = of_application AND a.job = ANY (gone);
        UPDATE rota.jobs j SET deleted_from_code_at = rota.now()
        WHERE j.name = ANY (gone) AND NOT EXISTS (SELECT FROM rota.job_applications a WHERE a.job = j.name);
    ELSE
        gone := '{}';
        INSERT INTO rota.job_applications (job, application, hash)
        SELECT w.name, of_application, w.hash FROM rota.read_definitions(definitions) w
        JOIN rota.jobs j ON j.name = w.name
        WHERE for_worker IS NOT NULL AND w.name = ANY (changed) ORDER BY w.name COLLATE "C"
        ON CONFLICT (job, application) DO NOTHING;
        changed := ARRAY(SELECT c FROM unnest(changed) c LEFT JOIN rota.jobs j ON j.name = c
                         WHERE j.name IS NULL OR (for_worker IS NOT NULL AND j.deleted_from_code_at IS NOT NULL));
    END IF;
    PERFORM rota.write_definitions(of_application, definitions, changed, forced);
    PERFORM set_config('rota' || '.syncing', '', true), set_config('rota' || '.actor', coalesce(actor, ''), true);
    IF held <> '{}' THEN
        RAISE WARNING 'the definitions of % are locked by an open transaction and will be written when it ends',
            array_to_string(held, ', ');
    END IF;
    RETURN QUERY SELECT unnest(changed || gone);
END $$;

-- Writes what code says into jobs that are new or changed, without what somebody has edited since.
-- Called by: register_jobs.
CREATE FUNCTION rota.write_definitions(of_application text, definitions jsonb, changed text[], forced text[])
RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    other text := (SELECT min(j.name) FROM rota.jobs j
        WHERE j.name = ANY (changed) AND to_jsonb(j) ->> 'kind' <> 'python');
BEGIN
    IF other IS NOT NULL THEN
        PERFORM rota.bad_job(other, 'the code declares it, but in the database it is not a Python job',
            'Rename one of them.');
    END IF;
    INSERT INTO rota.job_applications AS a (job, application, hash)
    SELECT w.name, of_application, w.hash FROM rota.read_definitions(definitions) w
    WHERE w.name = ANY (changed) ORDER BY w.name COLLATE "C"
    ON CONFLICT (job, application) DO UPDATE SET hash = excluded.hash WHERE a.hash <> excluded.hash;
    INSERT INTO rota.jobs (name, application, definition_hash, code, source, executor, payload_schema,
        description, queue, priority, max_attempts, timeout_seconds, backoff, tags, metadata, default_payload,
        is_enabled, events, delay_seconds, expires_in_seconds, key, tenant)
    SELECT w.name, of_application, w.hash, w.code, w.source, w.executor, w.payload_schema,
        r.description, r.queue, r.priority, r.max_attempts, r.timeout_seconds, r.backoff, r.tags, r.metadata,
        r.default_payload, r.is_enabled, coalesce(r.events, '{}'), r.delay_seconds, r.expires_in_seconds, r.key,
        r.tenant
    FROM rota.read_definitions(definitions) w CROSS JOIN LATERAL jsonb_populate_record(NULL::rota.jobs, w.code) r
    WHERE w.name = ANY (changed) ORDER BY w.name COLLATE "C"
    ON CONFLICT (name) DO NOTHING;
    UPDATE rota.jobs j SET
        application = of_application, definition_hash = w.hash, code = w.code, source = w.source, executor = w.executor,
        payload_schema = w.payload_schema, deleted_from_code_at = NULL,
        edited = CASE WHEN w.name = ANY (forced) THEN '{}' ELSE rota.still_edited(to_jsonb(j), j.edited, w.code) END,
        (description, queue, priority, max_attempts, timeout_seconds, backoff, tags, metadata, default_payload,
            is_enabled, events, delay_seconds, expires_in_seconds, key, tenant) = (
        SELECT r.description, r.queue, r.priority, r.max_attempts, r.timeout_seconds, r.backoff, r.tags, r.metadata,
            r.default_payload, r.is_enabled, r.events, r.delay_seconds, r.expires_in_seconds, r.key, r.tenant
        FROM jsonb_populate_record(j, w.code - CASE WHEN w.name = ANY (forced) THEN '{}'::text[]
            ELSE rota.kept_fields(j.edited) END) r)
    FROM rota.read_definitions(definitions) w
    WHERE j.name = w.name AND w.name = ANY (changed) AND (
        w.name = ANY (forced) OR ((j.definition_hash IS DISTINCT FROM w.hash OR j.deleted_from_code_at IS NOT NULL)
                                  AND rota.may_follow(j, of_application)));
    PERFORM rota.sync_schedules(definitions,
        ARRAY(SELECT j.name FROM rota.jobs j WHERE j.name = ANY (changed) AND j.application = of_application), forced);
END $$;

-- Brings the schedules that jobs declare up to what the code says, of those jobs whose definition is written.
-- Called by: write_definitions.
CREATE FUNCTION rota.sync_schedules(definitions jsonb, of_jobs text[], forced text[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    DELETE FROM rota.dropped_schedules d
    WHERE d.tenant = '' AND d.name IN (SELECT w.name FROM rota.read_schedules(definitions, forced) w);
    -- No longer declared: an untouched one goes, one that somebody touched is theirs.
    DELETE FROM rota.schedules s
    WHERE s.origin = 'definition' AND s.job = ANY (of_jobs) AND s.edited = '{}'
      AND s.name NOT IN (SELECT w.name FROM rota.read_schedules(definitions, of_jobs) w);
    UPDATE rota.schedules s SET origin = NULL, code = NULL, edited = '{}'
    WHERE s.origin = 'definition' AND s.job = ANY (of_jobs)
      AND s.name NOT IN (SELECT w.name FROM rota.read_schedules(definitions, of_jobs) w);
    UPDATE rota.schedules s SET
        job = w.job, code = w.code,
        edited = CASE WHEN w.job = ANY (forced) THEN '{}' ELSE rota.still_edited(to_jsonb(s), s.edited, w.code) END,
        (description, tags, metadata, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold,
        every_from, start_at, end_at, max_runs, jitter_seconds, burst_allowed, calendar, on_closed, catch_up,
        catch_up_seconds, catch_up_limit, grace_seconds, overlap, max_concurrent_runs, pause_after_failures, requires,
        is_shadow, payload, queue, priority, max_attempts, timeout_seconds, run_tags,
        run_metadata, is_enabled, delete_when_finished) = (
        SELECT r.description, r.tags, r.metadata, r.cron, r.interval_seconds, r.run_at, r.init, r.has_seconds,
            r.timezone, r.gap, r.fold, r.every_from, r.start_at, r.end_at,
        r.max_runs, r.jitter_seconds, coalesce(r.burst_allowed, false), r.calendar, r.on_closed, r.catch_up,
        r.catch_up_seconds, r.catch_up_limit, r.grace_seconds, r.overlap,
        r.max_concurrent_runs, r.pause_after_failures, r.requires, r.is_shadow, r.payload, r.queue, r.priority,
        r.max_attempts, r.timeout_seconds, r.run_tags, r.run_metadata, r.is_enabled, r.delete_when_finished
        FROM jsonb_populate_record(s, w.code - CASE WHEN w.job = ANY (forced) THEN '{}'::text[]
            ELSE rota.kept_fields(s.edited) END) r)
    FROM rota.read_schedules(definitions, of_jobs) w
    WHERE s.tenant = '' AND s.name = w.name AND s.origin = 'definition'
      AND (s.code IS DISTINCT FROM w.code OR s.job <> w.job OR w.job = ANY (forced));
    INSERT INTO rota.schedules (name, job, origin, code,
        description, tags, metadata, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold, every_from,
        start_at, end_at, max_runs, jitter_seconds, burst_allowed, calendar, on_closed, catch_up, catch_up_seconds,
        catch_up_limit, grace_seconds, overlap, max_concurrent_runs, pause_after_failures, requires, is_shadow, payload,
        queue, priority, max_attempts, timeout_seconds, run_tags, run_metadata, is_enabled, delete_when_finished)
    SELECT w.name, w.job, 'definition', w.code,
        r.description, r.tags, r.metadata, r.cron, r.interval_seconds, r.run_at, r.init, r.has_seconds, r.timezone,
        r.gap, r.fold, r.every_from, r.start_at, r.end_at, r.max_runs, r.jitter_seconds,
        coalesce(r.burst_allowed, false), r.calendar, r.on_closed, r.catch_up, r.catch_up_seconds, r.catch_up_limit,
        r.grace_seconds, r.overlap, r.max_concurrent_runs, r.pause_after_failures, r.requires, r.is_shadow, r.payload,
        r.queue, r.priority, r.max_attempts, r.timeout_seconds, r.run_tags,
        r.run_metadata, r.is_enabled, r.delete_when_finished
    FROM rota.read_schedules(definitions, of_jobs) w
    CROSS JOIN LATERAL jsonb_populate_record(NULL::rota.schedules, w.code) r
    WHERE NOT EXISTS (SELECT FROM rota.dropped_schedules d WHERE d.tenant = '' AND d.name = w.name)
    ORDER BY w.name COLLATE "C"
    ON CONFLICT (tenant, name) DO NOTHING;
END $$;

-- The fields of a schedule that stay as they are although the code changed. Exactly one column says when, so an edit
-- of one of them holds them all.
-- Called by: put_schedule, put_schedules, sql/jobs/plan.sql, sync_schedules, write_definitions.
CREATE FUNCTION rota.kept_fields(edited jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY(SELECT jsonb_object_keys(edited)) ||
        CASE WHEN edited ?| timing THEN timing ELSE '{}' END
    FROM (SELECT '{cron,interval_seconds,run_at,init,has_seconds,every_from}'::text[] AS timing) t
$$;

-- What is left of the edits when the code changes: those that differ from what it says now.
-- Called by: put_schedule, put_schedules, sync_schedules, write_definitions.
CREATE FUNCTION rota.still_edited(stored jsonb, edited jsonb, code jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(jsonb_object_agg(e.key, e.value), '{}') FROM jsonb_each(edited) e
    WHERE code ? e.key AND stored -> e.key IS DISTINCT FROM code -> e.key
$$;

-- Trigger: remembers that a person deleted a schedule of the code, so that the next sync does not bring it back.
CREATE FUNCTION rota.drop_schedule() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    INSERT INTO rota.dropped_schedules (tenant, name, dropped_by) SELECT OLD.tenant, OLD.name, rota.who()
    WHERE NOT rota.is_syncing() ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER schedules_drop AFTER DELETE ON rota.schedules FOR EACH ROW
    WHEN (OLD.origin = 'definition' AND OLD.finished_at IS NULL)
EXECUTE FUNCTION rota.drop_schedule();

-- Trigger: a job with a key has no schedules: see check_run_defaults. One that code declares for a job that a person
-- has given a key is left out, with a warning.
CREATE FUNCTION rota.refuse_keyed_job() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found text := (SELECT j.key FROM rota.jobs j WHERE j.name = NEW.job);
BEGIN
    IF found IS NOT NULL AND rota.is_syncing() THEN
        RAISE WARNING 'schedule "%" is ignored: job "%" has the key "%"', NEW.name, NEW.job, found;
        RETURN NULL;
    ELSIF found IS NOT NULL THEN
        RAISE EXCEPTION 'schedule "%": job "%" has the key "%", so it cannot have a schedule', NEW.name, NEW.job,
            found USING ERRCODE = 'RO002',
            HINT = 'Declare a job without a key for it: the overlap policy of a schedule decides what happens while '
            'the previous run has not ended.';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER schedules_keyed_job BEFORE INSERT OR UPDATE OF job ON rota.schedules FOR EACH ROW
    EXECUTE FUNCTION rota.refuse_keyed_job();

-- Runs what an init schedule owes to this start; whoever writes the marker first enqueues. once: again until it
-- succeeded. One that somebody holds is answered without a run: it is still owed. Runs under limits wait for their
-- admission.
-- Called by: sql/schedules/run_inits.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.run_inits(for_worker bigint, of_release text) RETURNS TABLE (schedule text, run_id bigint)
LANGUAGE plpgsql VOLATILE SET lock_timeout = '5s' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    starter rota.workers;
    capped  text[] := (SELECT s.capped_queues FROM rota.settings s);
BEGIN
    SELECT * INTO starter FROM rota.workers w WHERE w.id = for_worker;
    IF NOT EXISTS (SELECT FROM rota.schedules s WHERE s.init IS NOT NULL) THEN
        RETURN;
    END IF;
    PERFORM rota.note_skipped_inits(for_worker, of_release);
    RETURN QUERY
    WITH due AS MATERIALIZED (
        SELECT s.*, j.queue AS job_queue, j.priority AS job_priority, j.max_attempts AS job_attempts, j.default_payload,
            m.marker, coalesce(nullif(s.tenant, ''), j.tenant, '') AS run_tenant,
            coalesce(s.run_tags, nullif(j.tags, '{}')) AS tags_of_run,
            coalesce(j.metadata || s.run_metadata, nullif(j.metadata, '{}')) AS metadata_of_run,
            clock + make_interval(secs => coalesce(j.delay_seconds, 0)) AS at,
            make_interval(secs => j.expires_in_seconds) AS expires_in
        FROM rota.schedules s JOIN rota.jobs j ON j.name = s.job
        CROSS JOIN LATERAL (SELECT CASE s.init WHEN 'once' THEN 'once' WHEN 'release' THEN 'release ' || of_release
            ELSE 'start ' || (SELECT f.number FROM rota.fleets f WHERE f.application = j.application) END AS marker) m
        WHERE s.init IS NOT NULL AND s.is_ticking AND coalesce(s.paused_until <= clock, s.paused_at IS NULL)
          AND NOT s.is_shadow AND m.marker IS NOT NULL
          AND j.is_enabled AND j.deleted_from_code_at IS NULL
          AND j.application IN ('', starter.application) AND (j.code IS NULL OR j.name = ANY (starter.jobs))
          AND coalesce(s.start_at <= clock, true) AND coalesce(s.end_at >= clock, true)
          AND coalesce(s.run_count < s.max_runs, true) AND (capped = '{}' OR NOT rota.has_full_queue(s.id))
    ), free AS MATERIALIZED (
        SELECT s.id FROM rota.schedules s WHERE s.id IN (SELECT d.id FROM due d) FOR NO KEY UPDATE SKIP LOCKED
    ), taken AS (
        INSERT INTO rota.init_runs AS i (schedule_id, marker, run_id)
        SELECT d.id, d.marker, nextval('rota.run_ids') FROM due d JOIN free f ON f.id = d.id ORDER BY d.id
        ON CONFLICT (schedule_id, marker) DO UPDATE SET run_id = excluded.run_id, state = 'queued',
            enqueued_at = excluded.enqueued_at
        WHERE i.marker = 'once' AND i.state IN ('failed', 'cancelled') AND NOT EXISTS (SELECT FROM rota.open_runs o
            WHERE o.id = i.run_id)
        RETURNING i.schedule_id, i.marker, i.run_id
    ), counted AS (
        UPDATE rota.schedules s SET run_count = s.run_count + 1, last_enqueued_at = clock,
            tick_version = s.tick_version + 1
        FROM taken t WHERE s.id = t.schedule_id
    ), noted AS (
        INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, decision, tenant, schedule, details, claimed_at,
            decided_at, decided_by, enqueued_at, run_id, state)
        SELECT d.id, clock, clock, 'ran', d.tenant, d.name, jsonb_build_object('init', t.marker), clock, clock,
            for_worker, clock, t.run_id, 'queued'
        FROM taken t JOIN due d ON d.id = t.schedule_id ORDER BY d.id
    ), enqueued AS (
        INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, queue, job, tenant, payload,
            priority, max_attempts, timeout_seconds, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id,
            limit_keys, limit_key, held_by, is_capped, expires_at)
        SELECT t.run_id, t.run_id, clock, clock_timestamp(), d.at, CASE WHEN d.at > clock THEN 'scheduled'
            ELSE 'queued' END, coalesce(d.queue, d.job_queue), d.job,
            d.run_tenant, coalesce(d.payload, d.default_payload, '{}'), coalesce(d.priority, d.job_priority),
            coalesce(d.max_attempts, d.job_attempts), d.timeout_seconds, d.tags_of_run, d.metadata_of_run,
            jsonb_build_object('type', 'scheduler', 'schedule', d.name, 'init', t.marker, 'since', d.last_success_for),
            d.name, clock, d.id, k.keys, k.keys[1], CASE WHEN k.keys IS NOT NULL AND d.at <= clock THEN 'limit' END,
            coalesce(d.queue, d.job_queue) = ANY (capped), d.at + d.expires_in
        FROM taken t JOIN due d ON d.id = t.schedule_id
        CROSS JOIN LATERAL (SELECT CASE WHEN (SELECT s.has_limits FROM rota.settings s)
            THEN rota.limit_keys_of(d.job, coalesce(d.queue, d.job_queue), d.run_tenant, d.name,
            coalesce(d.payload, d.default_payload, '{}')) END AS keys) k
        ORDER BY d.id
        RETURNING schedule, id, queue
    )
    SELECT e.schedule, e.id FROM enqueued e
    UNION ALL
    SELECT d.name, NULL FROM due d WHERE d.id NOT IN (SELECT f.id FROM free f)
       AND NOT EXISTS (SELECT FROM rota.init_runs i WHERE i.schedule_id = d.id AND i.marker = d.marker
           AND i.state NOT IN ('failed', 'cancelled'));
    PERFORM rota.wake_admission();
    PERFORM rota.wake(ARRAY(SELECT DISTINCT o.queue FROM rota.init_runs i JOIN rota.open_runs o ON o.id = i.run_id
        WHERE i.enqueued_at = clock));
END $$;

-- A start that an init schedule lets pass is a decision too: one row for each marker and reason, with the reason
-- that holds.
-- Called by: run_inits.
-- Locks: "fleet".
CREATE FUNCTION rota.note_skipped_inits(for_worker bigint, of_release text) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    clock   timestamptz := rota.now();
    starter rota.workers := (SELECT w FROM rota.workers w WHERE w.id = for_worker);
BEGIN
    -- Many may start at once; one of them writes.
    PERFORM rota.take_lock('fleet');
    INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, decision, reason, tenant, schedule, details,
        claimed_at, decided_at, decided_by)
    SELECT s.id, clock, clock, 'skipped', m.reason, s.tenant, s.name, jsonb_build_object('init', m.marker), clock,
        clock, for_worker
    FROM rota.schedules s JOIN rota.jobs j ON j.name = s.job
    CROSS JOIN LATERAL (SELECT
        CASE s.init WHEN 'once' THEN 'once' WHEN 'release' THEN 'release ' || of_release
             ELSE 'start ' || (SELECT f.number FROM rota.fleets f WHERE f.application = j.application) END AS marker,
        CASE WHEN NOT s.is_enabled THEN 'disabled'
             WHEN coalesce(s.paused_until > clock, s.paused_at IS NOT NULL) THEN 'paused'
             WHEN rota.job_refusal(j.name) IS NOT NULL THEN rota.job_refusal(j.name)
             WHEN s.is_shadow THEN 'shadow' WHEN rota.has_full_queue(s.id) THEN 'queue_full' END AS reason) m
    WHERE s.init IS NOT NULL AND s.finished_at IS NULL AND s.parked_at IS NULL AND m.marker IS NOT NULL
      AND m.reason IS NOT NULL
      AND j.application IN ('', starter.application)
      AND coalesce(s.start_at <= clock, true) AND coalesce(s.end_at >= clock, true)
      AND coalesce(s.run_count < s.max_runs, true)
      AND NOT EXISTS (SELECT FROM rota.init_runs i WHERE i.schedule_id = s.id AND i.marker = m.marker
          AND i.marker <> 'once')
      AND NOT EXISTS (SELECT FROM rota.ledger l WHERE l.schedule_id = s.id AND l.details ->> 'init' = m.marker
          AND l.reason = m.reason)
    ON CONFLICT (schedule_id, nominal_at) DO NOTHING;
END $$;

-- Whether a mark of an init schedule can go: a start that is over will not come again. Releases may, and what runs
-- once is remembered as long as its schedule.
-- Called by: prune_rows, sql/retention/count_rows.sql.
CREATE FUNCTION rota.is_old_init(i rota.init_runs, before_at timestamptz) RETURNS boolean LANGUAGE sql STABLE
SET jit = off AS $$
    SELECT i.enqueued_at < before_at AND NOT EXISTS (SELECT FROM rota.open_runs o WHERE o.id = i.run_id)
       AND (i.marker LIKE 'start %' OR NOT EXISTS (SELECT FROM rota.schedules s WHERE s.id = i.schedule_id))
$$;

-- 19_sql_jobs.sql

-- Jobs whose body is a function of the database. `find_job_function` says what can be one, `sql_job_call` what a
-- worker executes; `allow_run_as` lets jobs run as another role. The second half is one such job, `cleanup`, which
-- removes expired rows of users' tables by rules; `plan_cleanup` counts them.

-- The function that a job means by a name: one with these types of arguments, if the name lists them, else the one of
-- that name that can be called with a payload, or with nothing; else any of that name. Arguments with a default need
-- not be given. NULL: there is none.
-- Called by: find_job_function, sql/jobs/function.sql.
CREATE FUNCTION rota.job_function(given text) RETURNS oid LANGUAGE sql STABLE SET jit = off AS $$
    SELECT CASE WHEN given ~ '\)$' THEN to_regprocedure(given)::oid ELSE (
        SELECT p.oid FROM parse_ident(given) AS i (parts)
        JOIN pg_proc p ON p.proname = i.parts[cardinality(i.parts)]
        JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE CASE cardinality(i.parts) WHEN 1 THEN pg_function_is_visible(p.oid) ELSE n.nspname = i.parts[1] END
        ORDER BY p.pronargs - p.pronargdefaults <= 1 AND coalesce(p.proargtypes[0] = 'jsonb'::regtype, false) DESC,
            p.pronargs = p.pronargdefaults DESC, p.pronargs, p.oid LIMIT 1) END
$$;

-- What a function asks for that a job does not give, which is one jsonb or nothing; NULL: nothing.
-- Called by: find_job_function.
CREATE FUNCTION rota.unmet_arguments(function oid) RETURNS text LANGUAGE sql STABLE SET jit = off AS $$
    SELECT string_agg(trim(format('%s %s', coalesce(p.proargnames[coalesce(a.place, i.n)], 'number ' || i.n),
        format_type(i.type, NULL))), ', ' ORDER BY i.n)
    FROM pg_proc p CROSS JOIN LATERAL unnest(p.proargtypes::oid[]) WITH ORDINALITY AS i (type, n)
    -- With arguments that only come out, names are counted over all.
    LEFT JOIN LATERAL (SELECT m.place, row_number() OVER (ORDER BY m.place) AS n
        FROM unnest(p.proargmodes) WITH ORDINALITY AS m (mode, place) WHERE m.mode IN ('i', 'b', 'v')) a ON a.n = i.n
    WHERE p.oid = function AND i.n <= p.pronargs - p.pronargdefaults AND (i.n > 1 OR i.type <> 'jsonb'::regtype)
$$;

-- Functions that the call of this one may mean as well, as Postgres does not choose between arguments and defaults;
-- NULL: none.
-- Called by: find_job_function.
CREATE FUNCTION rota.also_called(function oid) RETURNS text LANGUAGE sql STABLE SET jit = off AS $$
    SELECT string_agg(o.oid::regprocedure::text, ' and ' ORDER BY o.oid)
    FROM pg_proc p
    CROSS JOIN LATERAL (SELECT CASE WHEN p.proargtypes[0] = 'jsonb'::regtype THEN 1 ELSE 0 END AS given) g
    JOIN pg_proc o ON o.proname = p.proname AND o.pronamespace = p.pronamespace AND o.oid <> p.oid
    WHERE p.oid = function AND g.given BETWEEN o.pronargs - o.pronargdefaults AND o.pronargs
      AND (g.given = 0 OR o.proargtypes[0] = 'jsonb'::regtype)
$$;

-- The function behind a job, looked up in the catalogue; the name itself never becomes SQL. full_name is qualified, so
-- that a worker with another search_path finds the same one. is_answering: it returns what it did.
-- Called by: check_sql_job, sql_job_call.
CREATE FUNCTION rota.find_job_function(job text, function_name text, transaction_mode text,
    OUT id oid, OUT full_name text, OUT call text, OUT is_answering boolean) LANGUAGE plpgsql STABLE
SET jit = off AS $$
#variable_conflict use_variable
DECLARE
    given  text := btrim(function_name);
    wanted "char" := CASE transaction_mode WHEN 'none' THEN 'p' ELSE 'f' END;
    kind   text := CASE transaction_mode WHEN 'none' THEN 'procedure' ELSE 'function' END;
    found  record;
    unmet  text;
    others text;
BEGIN
    BEGIN
        id := rota.job_function(given);
    EXCEPTION WHEN OTHERS THEN
        PERFORM rota.bad_job(job, format('"%s" is not the name of a function: %s', given, SQLERRM));
    END;
    IF id IS NULL THEN
        PERFORM rota.bad_job(job, format('there is no %s "%s" that takes no argument or one jsonb', kind, given),
            format('CREATE %s %s(payload jsonb) … first; name its schema.', upper(kind), given));
    END IF;
    SELECT n.nspname, p.*, format_type(p.prorettype, NULL) AS returns INTO found
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE p.oid = id;
    unmet := rota.unmet_arguments(id);
    others := rota.also_called(id);
    IF found.prokind <> wanted THEN
        PERFORM rota.bad_job(job, format('"%s" is not a %s', given, kind),
            'A function runs in one transaction with the end of the run; a procedure that commits by itself requires '
            'transaction_mode ''none''.');
    ELSIF unmet IS NOT NULL THEN
        PERFORM rota.bad_job(job, format('%s "%s" must take no argument or one jsonb, but requires: %s', kind, given,
            unmet),
            'A job passes its payload as one jsonb: give other arguments a default, or read them from the payload.');
    ELSIF others IS NOT NULL THEN
        PERFORM rota.bad_job(job, format('%s "%s" is ambiguous: the same call may mean %s', kind, given, others),
            'Rename or drop one of them.');
    ELSIF wanted = 'f' AND (found.prorettype <> 'jsonb'::regtype OR found.proretset) THEN
        PERFORM rota.bad_job(job, format('function "%s" returns %s%s, not jsonb', given,
            CASE WHEN found.proretset THEN 'a set of ' ELSE '' END, found.returns),
            'Return jsonb_build_object(''success'', true, ''message'', ''…'').');
    END IF;
    full_name := format('%I.%I', found.nspname, found.proname) || coalesce(substring(given FROM '\(.*\)$'), '');
    call := format('%s %I.%I(%s)', CASE wanted WHEN 'p' THEN 'CALL' ELSE 'SELECT' END, found.nspname, found.proname,
                   CASE WHEN found.proargtypes[0] = 'jsonb'::regtype THEN '$1::jsonb' ELSE '' END);
    is_answering := wanted = 'f' OR coalesce('b' = ANY (found.proargmodes), false);
END $$;

-- The function that calls others as this role; NULL where nobody has made it.
-- Called by: allow_run_as, check_sql_job, sql_job_call.
CREATE FUNCTION rota.find_run_as(role_name text) RETURNS oid LANGUAGE sql STABLE AS $$
    SELECT to_regprocedure(format('rota.%I(regprocedure,jsonb)', 'run_as_' || role_name))::oid
$$;

-- Trigger: a job of kind sql names a function that exists and takes what jobs give, and a role that jobs may run as.
CREATE FUNCTION rota.check_sql_job() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF NEW.function_name IS NULL THEN
        PERFORM rota.bad_job(NEW.name, 'a job of kind sql requires a function_name');
    END IF;
    SELECT f.full_name INTO NEW.function_name
    FROM rota.find_job_function(NEW.name, NEW.function_name, NEW.transaction_mode) f;
    -- Whoever inserts a job without one has the default of the column.
    IF NEW.executor NOT IN ('sql', CASE TG_OP WHEN 'INSERT' THEN 'async' ELSE OLD.executor END) THEN
        PERFORM rota.bad_job(NEW.name, format('executor "%s" is for Python jobs; a SQL function has the executor sql',
            NEW.executor), 'Omit executor.');
    END IF;
    IF NEW.run_as IS NOT NULL AND rota.find_run_as(NEW.run_as) IS NULL THEN
        PERFORM rota.bad_job(NEW.name, format('jobs may not run as role "%s"', NEW.run_as),
            format('Call allow_run_as(%L) in this schema, as a superuser or as its owner and member of that role.',
                NEW.run_as));
    END IF;
    NEW.executor := 'sql';
    RETURN NEW;
END $$;
CREATE TRIGGER jobs_check_sql BEFORE INSERT OR UPDATE OF kind, function_name, run_as, transaction_mode, executor
ON rota.jobs FOR EACH ROW WHEN (NEW.kind = 'sql') EXECUTE FUNCTION rota.check_sql_job();

-- Trigger: calls out a change of a SQL job, as workers know the SQL jobs of the database.
CREATE FUNCTION rota.call_sql_jobs() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF (TG_OP <> 'INSERT' AND OLD.kind = 'sql') OR (TG_OP <> 'DELETE' AND NEW.kind = 'sql') THEN
        PERFORM pg_notify('rota', 'jobs');
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_call AFTER INSERT OR DELETE OR UPDATE OF kind, function_name, run_as, transaction_mode,
    timeout_seconds, backoff ON rota.jobs
FOR EACH ROW EXECUTE FUNCTION rota.call_sql_jobs();

-- Nothing stays in it. The command number (cmin) of an insert that is taken back tells whether anything was written
-- since the last one.
CREATE UNLOGGED TABLE rota.command_marks ();

-- Makes the function through which jobs run as this role: SECURITY DEFINER and owned by the role, with no rights for
-- anybody until allow_run_as grants them. It refuses to run when it no longer separates the roles, and qualifies
-- every name inside with its schema.
-- Called by: allow_run_as.
CREATE FUNCTION rota.make_run_as(role_name text) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    place    regnamespace := (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'rota.jobs'::regclass);
    caller   text := 'run_as_' || role_name;
    is_given boolean := NOT has_schema_privilege(role_name, place::oid, 'CREATE');
BEGIN
    EXECUTE format($make$
        CREATE FUNCTION rota.%1$I(function regprocedure, payload jsonb) RETURNS jsonb LANGUAGE plpgsql VOLATILE
        SECURITY DEFINER AS $caller$
        DECLARE
            call    pg_catalog.text;
            answer  pg_catalog.jsonb;
            is_wall pg_catalog.bool := false;
        BEGIN
            BEGIN
                PERFORM pg_catalog.set_config('role', 'none', true);
            EXCEPTION WHEN insufficient_privilege THEN
                is_wall := true;
            END;
            IF NOT is_wall OR current_user OPERATOR(pg_catalog.<>) %2$L::pg_catalog.name THEN
                RAISE EXCEPTION 'the function that runs jobs as role "%%" was changed and is not safe', %2$L
                    USING ERRCODE = 'RO002', HINT = 'Find out who changed it, drop it, and call allow_run_as again.';
            END IF;
            IF function IS NOT NULL THEN
                SELECT pg_catalog.format('SELECT %%I.%%I(%%s)', n.nspname, p.proname, CASE WHEN p.proargtypes[0]
                    OPERATOR(pg_catalog.=) 'pg_catalog.jsonb'::pg_catalog.regtype::pg_catalog.oid THEN '$1' ELSE '' END)
                INTO call FROM pg_catalog.pg_proc p
                JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace
                WHERE p.oid OPERATOR(pg_catalog.=) function::pg_catalog.oid;
                EXECUTE call INTO answer USING payload;
            END IF;
            SET CONSTRAINTS ALL IMMEDIATE;
            EXECUTE 'CLOSE ALL';
            EXECUTE 'DEALLOCATE ALL';
            RETURN answer;
        END $caller$ $make$, caller, role_name);
    EXECUTE format('REVOKE ALL ON FUNCTION rota.%I(regprocedure, jsonb) FROM PUBLIC', caller);
    -- The owner of a function needs CREATE on its schema, for as long as it becomes the owner.
    IF is_given THEN
        EXECUTE format('GRANT CREATE ON SCHEMA %s TO %I', place, role_name);
    END IF;
    EXECUTE format('ALTER FUNCTION rota.%I(regprocedure, jsonb) OWNER TO %I', caller, role_name);
    IF is_given THEN
        EXECUTE format('REVOKE CREATE ON SCHEMA %s FROM %I', place, role_name);
    END IF;
END $$;

-- Lets workers that connect as worker_role run SQL jobs as role_name. SET ROLE would not protect the worker's role: the
-- job could call RESET ROLE. Inside a SECURITY DEFINER function that is refused.
-- Called by: users.
CREATE FUNCTION rota.allow_run_as(role_name text, worker_role text DEFAULT current_user) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    caller text := 'run_as_' || role_name;
BEGIN
    IF to_regrole(quote_ident(role_name)) IS NULL THEN
        RAISE EXCEPTION 'there is no role "%"', role_name USING ERRCODE = 'RO002';
    ELSIF to_regrole(quote_ident(worker_role)) IS NULL THEN
        RAISE EXCEPTION 'there is no role "%"', worker_role USING ERRCODE = 'RO002';
    ELSIF octet_length(caller) > 63 THEN
        RAISE EXCEPTION 'the name of role "%" is too long: % bytes at most', role_name, 63 - length('run_as_')
            USING ERRCODE = 'RO002';
    END IF;
    IF rota.find_run_as(role_name) IS NULL THEN
        PERFORM rota.make_run_as(role_name);
    END IF;
    EXECUTE format('GRANT EXECUTE ON FUNCTION rota.%I(regprocedure, jsonb) TO %I', caller, worker_role);
    PERFORM rota.write_audit(NULL, 'run_as.allowed', 'role', role_name, NULL,
        jsonb_build_object('worker_role', worker_role));
EXCEPTION WHEN insufficient_privilege THEN
    RAISE EXCEPTION 'role "%" may not let jobs run as role "%": %', current_user, role_name, SQLERRM
        USING ERRCODE = 'RO002',
            HINT = 'Call this as a superuser, or as the owner of the schema and member of the role.';
END $$;

-- What a worker executes for this job, read afresh for every attempt: $1 is the payload.
-- Called by: sql/jobs/sql_call.sql.
CREATE FUNCTION rota.sql_job_call(job text, OUT call text, OUT transaction_mode text, OUT is_answering boolean,
    OUT settle text)
LANGUAGE plpgsql STABLE SET jit = off AS $$
#variable_conflict use_variable
DECLARE
    known  rota.jobs;
    found  record;
    caller oid;
BEGIN
    SELECT j.* INTO known FROM rota.jobs j WHERE j.name = job AND j.kind = 'sql';
    IF known.name IS NULL THEN
        PERFORM rota.unknown_job(job);
    END IF;
    SELECT f.* INTO found FROM rota.find_job_function(job, known.function_name, known.transaction_mode) f;
    call := found.call;
    transaction_mode := known.transaction_mode;
    is_answering := found.is_answering;
    IF known.run_as IS NOT NULL THEN
        caller := rota.find_run_as(known.run_as);
        IF caller IS NULL OR NOT has_function_privilege(caller, 'EXECUTE') THEN
            PERFORM rota.bad_job(job, format('role "%s" may not run jobs as role "%s"', current_user, known.run_as),
                format('Call allow_run_as(%L, %L) in this schema, as a superuser or as its owner and member of that '
                    'role.', known.run_as, current_user));
        END IF;
        call := format('SELECT rota.%I(%s::oid::regprocedure, $1::jsonb)', 'run_as_' || known.run_as, found.id);
        settle := format('SELECT rota.%I(NULL, NULL)', 'run_as_' || known.run_as);
    END IF;
END $$;

-- Refuses a rule of cleanup (RO002). Tables and columns of rules are looked up in the catalogue, conditions come
-- from a fixed grammar: a rule is data and cannot say anything else.
-- Called by: check_rule, check_rule_keys, rule_age, rule_column, rule_condition, rule_filter, rule_table.
CREATE FUNCTION rota.bad_rule(rule integer, what text, hint text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
BEGIN
    IF hint IS NULL THEN
        RAISE EXCEPTION 'cleanup rule %: %', rule, what USING ERRCODE = 'RO002';
    END IF;
    RAISE EXCEPTION 'cleanup rule %: %', rule, what USING ERRCODE = 'RO002', HINT = hint;
END $$;

-- The table that a rule of cleanup is about: an ordinary or a partitioned one, and none of Rota's.
-- Called by: apply_rule, check_rule, plan_cleanup.
CREATE FUNCTION rota.rule_table(rule integer, said jsonb) RETURNS regclass LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    relation regclass := rota.table_of(said ->> 'table');
BEGIN
    IF relation IS NULL THEN
        PERFORM rota.bad_rule(rule, format('there is no table "%s"', said ->> 'table'),
            'Name it with its schema, quoted as in SQL: public.sessions.');
    ELSIF EXISTS (SELECT FROM pg_class c, pg_class own WHERE c.oid = relation AND own.oid = 'rota.jobs'::regclass
                  AND (c.relkind NOT IN ('r', 'p')
                       OR c.relnamespace IN (own.relnamespace, 'pg_catalog'::regnamespace))) THEN
        PERFORM rota.bad_rule(rule, format('rows of %s cannot be removed', relation),
            'Name a table or a partitioned table that belongs neither to Rota nor to the server.');
    END IF;
    RETURN relation;
END $$;

-- The column that a rule of cleanup names; refuses one that the table has not.
-- Called by: rule_condition, rule_filter.
CREATE FUNCTION rota.rule_column(rule integer, relation regclass, name text) RETURNS pg_attribute
LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    found pg_attribute;
BEGIN
    SELECT a.* INTO found FROM pg_attribute a
    WHERE a.attrelid = relation AND a.attname = rule_column.name AND a.attnum > 0 AND NOT a.attisdropped;
    IF found.attname IS NULL THEN
        PERFORM rota.bad_rule(rule, format('table %s has no column "%s"', relation, rule_column.name),
            (SELECT format('Its columns are %s.', string_agg(a.attname, ', ' ORDER BY a.attnum)) FROM pg_attribute a
             WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped));
    END IF;
    RETURN found;
END $$;

-- Refuses a rule, or a condition of one, with a key that nobody reads: without the condition that was meant, a rule
-- would remove more.
-- Called by: check_rule, rule_condition.
CREATE FUNCTION rota.check_rule_keys(rule integer, said jsonb, known text[]) RETURNS void LANGUAGE plpgsql STABLE
SET jit = off AS $$
DECLARE
    odd text := (SELECT min(k) FROM jsonb_object_keys(said) k WHERE k <> ALL (known));
BEGIN
    IF odd IS NOT NULL THEN
        PERFORM rota.bad_rule(rule, format('unknown key "%s"', odd),
            'Choose from ' || array_to_string(known, ', ') || '.');
    END IF;
END $$;

-- A condition of a rule, {"column", "op", "value"}, as SQL. A value is tried as the column's type, so that a rule that
-- cannot work is refused when it is written.
-- Called by: rule_filter.
CREATE FUNCTION rota.rule_condition(rule integer, relation regclass, condition jsonb) RETURNS text
LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    found pg_attribute := rota.rule_column(rule, relation, condition ->> 'column');
    kind  text := format_type(found.atttypid, found.atttypmod);
    op    text := lower(condition ->> 'op');
    value text;
BEGIN
    PERFORM rota.check_rule_keys(rule, condition, '{column,op,value}');
    IF op IN ('is null', 'is not null') AND NOT condition ? 'value' THEN
        RETURN format('%I %s', found.attname, upper(op));
    ELSIF op IN ('=', '<>', '<', '<=', '>', '>=')
        AND jsonb_typeof(condition -> 'value') IN ('string', 'number', 'boolean') THEN
        value := format('%L::%s', condition ->> 'value', kind);
    ELSIF op = 'in' AND jsonb_typeof(condition -> 'value') = 'array' AND NOT EXISTS (
        SELECT FROM jsonb_array_elements(condition -> 'value') v
        WHERE jsonb_typeof(v) NOT IN ('string', 'number', 'boolean')) THEN
        op := '=';
        value := format('ANY (%L::%s[])', ARRAY(SELECT jsonb_array_elements_text(condition -> 'value')), kind);
    ELSE
        PERFORM rota.bad_rule(rule, format('condition %s is not valid', condition),
            'op must be =, <>, <, <=, > or >= with a value, in with a list of values, or is null or is not null '
            'without a value.');
    END IF;
    BEGIN
        EXECUTE format('SELECT NULL::%s %s %s', kind, op, value);
    EXCEPTION WHEN OTHERS THEN
        PERFORM rota.bad_rule(rule, format('condition %s does not match column "%s" of type %s', condition,
            found.attname, kind), SQLERRM);
    END;
    RETURN format('%I %s %s', found.attname, op, value);
END $$;

-- The age that a rule of cleanup names, as an interval; refuses what is none.
-- Called by: rule_filter.
CREATE FUNCTION rota.rule_age(rule integer, older_than jsonb) RETURNS interval LANGUAGE plpgsql STABLE
SET jit = off AS $$
DECLARE
    age interval;
BEGIN
    age := CASE jsonb_typeof(older_than) WHEN 'number'
        THEN make_interval(secs => (older_than #>> '{}')::double precision)
                                         WHEN 'string' THEN (older_than #>> '{}')::interval END;
    IF age IS NULL THEN
        PERFORM rota.bad_rule(rule, format('older_than must be an interval or a number of seconds, not %s',
            coalesce(older_than::text, 'missing')));
    ELSIF age < '0' THEN
        PERFORM rota.bad_rule(rule, format('older_than must not be negative: %s', older_than));
    END IF;
    RETURN age;
EXCEPTION WHEN invalid_datetime_format OR datetime_field_overflow THEN
    PERFORM rota.bad_rule(rule, format('older_than %s is not an interval', older_than));
END $$;

-- The rows of the table that one rule is about, as SQL.
-- Called by: apply_rule, check_rule, plan_cleanup.
CREATE FUNCTION rota.rule_filter(rule integer, relation regclass, said jsonb) RETURNS text
LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    cutoff timestamptz := rota.now() - rota.rule_age(rule, said -> 'older_than');
    found  pg_attribute := rota.rule_column(rule, relation, said ->> 'column');
    wheres jsonb := coalesce(said -> 'where', '[]');
    parts  text[];
BEGIN
    -- A time without a zone is taken as UTC, whatever the zone of the session is.
    parts := ARRAY[format('%I < %L::%s', found.attname, CASE WHEN found.atttypid = 'timestamptz'::regtype
        THEN cutoff::text ELSE (cutoff AT TIME ZONE 'UTC')::text END,
                          format_type(found.atttypid, NULL))];
    IF found.atttypid NOT IN ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype) THEN
        PERFORM rota.bad_rule(rule, format('column "%s" of %s is %s, not a time', found.attname, relation,
            format_type(found.atttypid, NULL)));
    END IF;
    IF jsonb_typeof(wheres) = 'object' THEN
        wheres := jsonb_build_array(wheres);
    ELSIF jsonb_typeof(wheres) <> 'array' THEN
        PERFORM rota.bad_rule(rule, format('where must be a condition or a list of conditions, not %s', wheres));
    END IF;
    RETURN array_to_string(parts || ARRAY(SELECT rota.rule_condition(rule, relation, w)
        FROM jsonb_array_elements(wheres) w), ' AND ');
END $$;

-- Refuses a rule that cannot be applied, without applying it.
-- Called by: apply_rule, check_cleanup, plan_cleanup.
CREATE FUNCTION rota.check_rule(rule integer, said jsonb) RETURNS void LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    one     text;
BEGIN
    IF jsonb_typeof(said) IS DISTINCT FROM 'object' THEN
        PERFORM rota.bad_rule(rule, format('it must be an object with table, column and older_than, not %s', said));
    END IF;
    PERFORM rota.check_rule_keys(rule, said, '{table,column,older_than,where,batch_size,max_batches}');
    FOREACH one IN ARRAY '{batch_size,max_batches}'::text[] LOOP
        IF said ? one AND (said ->> one ~ '^[1-9][0-9]{0,8}$') IS NOT TRUE THEN
            PERFORM rota.bad_rule(rule, format('%s must be a whole number of at least 1, not %s', one, said -> one));
        END IF;
    END LOOP;
    PERFORM rota.rule_filter(rule, rota.rule_table(rule, said), said);
END $$;

-- Applies one rule, {"table", "column", "older_than", "where", "batch_size", "max_batches"}: returns how many rows
-- it removed, and whether it stopped at its limit.
-- Called by: cleanup.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.apply_rule(rule integer, said jsonb) RETURNS jsonb LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    relation regclass;
    size     integer;
    batches  integer;
    filter   text;
    leaf     regclass;
    gone     integer;
    removed  bigint := 0;
BEGIN
    PERFORM rota.check_rule(rule, said);
    relation := rota.rule_table(rule, said);
    size := coalesce((said ->> 'batch_size')::integer, 1000);
    batches := coalesce((said ->> 'max_batches')::integer, 100);
    filter := rota.rule_filter(rule, relation, said);
    -- Leaf by leaf, because a place in a table is unique in that table only.
    FOR leaf IN SELECT relation WHERE NOT EXISTS (SELECT FROM pg_partition_tree(relation) t WHERE NOT t.isleaf)
                UNION SELECT t.relid FROM pg_partition_tree(relation) t WHERE t.isleaf LOOP
        LOOP
            EXIT WHEN batches = 0;
            EXECUTE format(
                'DELETE FROM ONLY %1$s WHERE ctid = ANY (ARRAY(SELECT ctid FROM ONLY %1$s WHERE %2$s LIMIT %3$s '
                'FOR UPDATE SKIP LOCKED))',
                           leaf, filter, size);
            GET DIAGNOSTICS gone = ROW_COUNT;
            removed := removed + gone;
            batches := batches - 1;
            EXIT WHEN gone < size;
        END LOOP;
    END LOOP;
    RETURN jsonb_build_object('table', relation::text, 'removed', removed, 'has_more', batches = 0);
END $$;

-- How many rows each rule of a payload would remove now. Changes nothing.
-- Called by: sql/cleanup/plan.sql, users.
CREATE FUNCTION rota.plan_cleanup(payload jsonb) RETURNS TABLE (rule integer, table_name text, matching bigint)
LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    one record;
    relation regclass;
BEGIN
    FOR one IN SELECT r.n, r.said FROM jsonb_array_elements(payload -> 'rules') WITH ORDINALITY AS r (said, n) LOOP
        PERFORM rota.check_rule(one.n::integer, one.said);
        relation := rota.rule_table(one.n::integer, one.said);
        rule := one.n;
        table_name := relation::text;
        EXECUTE format('SELECT count(*) FROM %s WHERE %s', relation, rota.rule_filter(rule, relation, one.said))
        INTO matching;
        RETURN NEXT;
    END LOOP;
END $$;

-- The SQL job `rota.cleanup`: applies each rule of its payload once, and says how many rows went.
-- Called by: users.
CREATE FUNCTION rota.cleanup(payload jsonb) RETURNS jsonb LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    done  jsonb;
    total bigint;
BEGIN
    IF jsonb_typeof(payload -> 'rules') IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION 'the payload of cleanup must be {"rules": [{"table", "column", "older_than", …}]}, not %',
            payload USING ERRCODE = 'RO002';
    END IF;
    SELECT coalesce(jsonb_agg(a.applied ORDER BY a.n), '[]'),
        coalesce(sum((a.applied ->> 'removed')::bigint), 0) INTO done, total
    FROM (SELECT r.n, rota.apply_rule(r.n::integer, r.rule) AS applied
          FROM jsonb_array_elements(payload -> 'rules') WITH ORDINALITY AS r (rule, n) OFFSET 0) a;
    RETURN jsonb_build_object('success', true, 'message', format('%s expired rows removed', total), 'details',
        jsonb_build_object('rules', done));
END $$;

-- Trigger: a schedule of the cleanup has rules that can be applied, when it is written and not when it first runs.
CREATE FUNCTION rota.check_cleanup() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND (NEW.job, NEW.payload) IS NOT DISTINCT FROM (OLD.job, OLD.payload) THEN
        RETURN NEW;
    ELSIF jsonb_typeof(NEW.payload -> 'rules') IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION
            'schedule "%": the payload of cleanup must be {"rules": [{"table", "column", "older_than", …}]}, not %',
            NEW.name, left(NEW.payload::text, 200)
            USING ERRCODE = 'RO002', HINT =
            'Write for example {"rules": [{"table": "public.sessions", "column": "expires_at", "older_than": 86400}]}.';
    END IF;
    PERFORM rota.check_rule(r.n::integer, r.said)
    FROM jsonb_array_elements(NEW.payload -> 'rules') WITH ORDINALITY AS r (said, n);
    RETURN NEW;
END $$;
CREATE TRIGGER b_cleanup BEFORE INSERT OR UPDATE OF job, payload ON rota.schedules FOR EACH ROW
    WHEN (NEW.job = 'rota' || '.cleanup' AND NEW.payload IS NOT NULL) EXECUTE FUNCTION rota.check_cleanup();

-- 20_events.sql

-- `events`: what was emitted, in partitions by day; `event_keys` make one happen once; `event_bindings` are the
-- jobs' events and filters, made ready for `emit`. Verbs: `emit`, `emit_many`, `replay_events`. `hook_refusals`
-- counts calls of webhooks that were refused.

-- Numbers of events, in the order in which they came.
CREATE SEQUENCE rota.event_ids;
-- How many runs events have started: counted without a row, as duplicates are.
CREATE SEQUENCE rota.event_starts;

-- One row is written for an event and nothing else where no job is bound, so it has few indexes: one by name, one by
-- number.
CREATE TABLE rota.events (
    tenant       text COLLATE "C" NOT NULL DEFAULT '',
    name         text COLLATE "C" NOT NULL,
    id           bigint NOT NULL,
    at           timestamptz NOT NULL,
    payload      jsonb NOT NULL,
    key          text COLLATE "C",
    actor        text,    -- the application's user, if it said so: SET rota.actor
    role         text,    -- of the database
    source       jsonb,   -- hook, run, table, operation, trigger, webhook
    metadata     jsonb,
    duplicate_of bigint,  -- the event with this key that came first
    deliveries   jsonb,   -- one for each job that is bound to it; NULL: none was
    PRIMARY KEY (tenant, name, id, at)
) PARTITION BY RANGE (at);
CREATE INDEX events_id ON rota.events (id);

INSERT INTO rota.partitioned VALUES ('events', 1);
SELECT rota.ensure_partitions(rota.now() - interval '1 day', rota.now() + interval '7 days');

-- Keys of events that have a period of their own.
CREATE TABLE rota.event_keys (
    tenant     text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    event_id   bigint NOT NULL,
    event_at   timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, name, key)
);
CREATE INDEX event_keys_expired ON rota.event_keys (expires_at);

-- Bindings: what rota.jobs says, so that an event finds it by one look.
CREATE TABLE rota.event_bindings (
    pattern      text COLLATE "C" NOT NULL,  -- a name, or with * for any characters
    job          text COLLATE "C" NOT NULL,
    is_pattern   boolean NOT NULL,
    like_pattern text COLLATE "C" NOT NULL,
    filter       jsonb,
    has_values   jsonb,
    test         jsonpath,
    PRIMARY KEY (pattern, job)
);
CREATE INDEX event_bindings_patterns ON rota.event_bindings (like_pattern) WHERE is_pattern;

-- An event's pattern as one of LIKE: * stands for any characters.
-- Called by: follow_bindings, replay_events, sql/events/list.sql, sql/events/list_oldest.sql.
CREATE FUNCTION rota.like_event(pattern text) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT replace(replace(replace(replace(pattern, '\', '\\'), '%', '\%'), '_', '\_'), '*', '%')
$$;

-- Jobs that are bound to the event, and whether they get this one: by one of their bindings, if several match.
-- Called by: deliver, emit_many.
CREATE FUNCTION rota.bound_jobs(event text, payload jsonb)
RETURNS TABLE (job text, fits boolean, is_enabled boolean, rule jsonb, queue text) LANGUAGE sql STABLE
SET jit = off AS $$
    SELECT b.job, bool_or((b.has_values IS NULL OR bound_jobs.payload @> b.has_values)
        AND (b.test IS NULL OR coalesce(bound_jobs.payload @@ b.test, false))),
           j.is_enabled, j.event_delivery, j.queue
    FROM (SELECT e.job, e.has_values, e.test FROM rota.event_bindings e
        WHERE e.pattern = bound_jobs.event AND NOT e.is_pattern
          UNION ALL
          SELECT p.job, p.has_values, p.test FROM rota.event_bindings p
          WHERE p.is_pattern AND bound_jobs.event LIKE p.like_pattern) b
    JOIN rota.jobs j ON j.name = b.job
    GROUP BY b.job, j.is_enabled, j.event_delivery, j.queue ORDER BY b.job
$$;

-- Trigger: rota.event_bindings holds what the jobs say in events and event_filters, made ready for emit.
CREATE FUNCTION rota.follow_bindings() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM rota.event_bindings b WHERE b.job = OLD.name
            AND (TG_OP = 'DELETE' OR NEW.deleted_from_code_at IS NOT NULL
            OR b.pattern <> ALL (NEW.events));
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.deleted_from_code_at IS NULL THEN
        INSERT INTO rota.event_bindings AS b (pattern, job, is_pattern, like_pattern, filter, has_values, test)
        SELECT e.name, NEW.name, strpos(e.name, '*') > 0, rota.like_event(e.name), f.filter,
               nullif(rota.filter_values(f.filter), '{}'), rota.filter_test(f.filter)::jsonpath
        FROM (SELECT DISTINCT n FROM unnest(NEW.events) AS n) AS e (name)
        CROSS JOIN LATERAL (SELECT nullif(NEW.event_filters -> e.name, '{}') AS filter) f
        ON CONFLICT (pattern, job) DO UPDATE SET filter = excluded.filter, has_values = excluded.has_values,
            test = excluded.test
        WHERE b.filter IS DISTINCT FROM excluded.filter;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_bindings AFTER INSERT OR DELETE OR UPDATE OF events, event_filters, deleted_from_code_at, code
    ON rota.jobs
    FOR EACH ROW EXECUTE FUNCTION rota.follow_bindings();

-- Refuses what cannot be the name of an event.
-- Called by: check_job, refuse_event.
CREATE FUNCTION rota.check_event(event text) RETURNS void LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
BEGIN
    IF event !~ '^\S{1,200}$' IS NOT FALSE THEN
        RAISE EXCEPTION 'the name of an event must have 1 to 200 characters and no spaces, not %',
            coalesce(quote_literal(event), 'NULL')
            USING ERRCODE = 'RO002', HINT = 'Write for example order.paid.';
    END IF;
END $$;

-- Refuses a filter of events (RO002).
-- Called by: filter_test.
CREATE FUNCTION rota.bad_filter(what text) RETURNS void LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
BEGIN
    RAISE EXCEPTION 'a filter %', what USING ERRCODE = 'RO002',
        HINT = 'Write for example {"status": "paid", "total": {">=": 100}}. The operators are =, !=, <, <=, >, >=, in, '
        'not_in, exists.';
END $$;

-- Whether a value of a filter is an object of operators, and not a value to be equal to.
-- Called by: filter_test, filter_values.
CREATE FUNCTION rota.is_comparison(value jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT CASE WHEN jsonb_typeof(value) = 'object'
                THEN EXISTS (SELECT FROM jsonb_object_keys(value) k
                    WHERE k IN ('=', '!=', '<', '<=', '>', '>=', 'in', 'not_in', 'exists'))
                ELSE false END
$$;

-- The part of a filter that compares, as the text of a jsonpath; NULL: none.
-- Called by: check_event_filters, fits, follow_bindings.
CREATE FUNCTION rota.filter_test(filter jsonb, place text DEFAULT '$') RETURNS text LANGUAGE plpgsql IMMUTABLE
SET jit = off AS $$
DECLARE
    one   record;
    test  record;
    here  text;
    parts text[] := '{}';
BEGIN
    FOR one IN SELECT * FROM jsonb_each(filter) LOOP
        here := place || '.' || to_json(one.key)::text;
        IF NOT rota.is_comparison(one.value) THEN
            IF jsonb_typeof(one.value) = 'object' THEN
                parts := parts || rota.filter_test(one.value, here);
            END IF;
            CONTINUE;
        END IF;
        FOR test IN SELECT * FROM jsonb_each(one.value) LOOP
            IF test.key IN ('in', 'not_in') THEN
                IF jsonb_typeof(test.value) <> 'array' OR test.value = '[]'
                   OR jsonb_path_exists(test.value, 'strict $[*] ? (@.type() == "object" || @.type() == "array")') THEN
                    PERFORM rota.bad_filter(format('compares "%s" by %s with %s, which is not a list of plain values',
                        one.key, test.key, test.value));
                END IF;
                parts := parts || (CASE test.key WHEN 'in' THEN '(' ELSE '!(' END
                    || (SELECT string_agg(format('%s == %s', here, v.value), ' || ')
                        FROM jsonb_array_elements(test.value) v) || ')');
            ELSIF test.key = 'exists' THEN
                IF jsonb_typeof(test.value) <> 'boolean' THEN
                    PERFORM rota.bad_filter(format('tests "%s" by exists, which must be true or false, not %s', one.key,
                        test.value));
                END IF;
                parts := parts || (CASE WHEN test.value = 'true' THEN '' ELSE '!' END || format('exists(%s)', here));
            ELSIF test.key IN ('=', '!=', '<', '<=', '>', '>=') THEN
                IF jsonb_typeof(test.value) IN ('object', 'array') THEN
                    PERFORM rota.bad_filter(format('compares "%s" by %s with %s, which is not a plain value', one.key,
                        test.key, test.value));
                END IF;
                parts := parts || CASE test.key WHEN '!=' THEN format('!(%s == %s)', here, test.value)
                    ELSE format('(%s %s %s)', here, CASE test.key WHEN '=' THEN '==' ELSE test.key END, test.value) END;
            ELSE
                PERFORM rota.bad_filter(format('compares "%s" by the unknown operator "%s"', one.key, test.key));
            END IF;
        END LOOP;
    END LOOP;
    RETURN nullif(array_to_string(array_remove(parts, NULL), ' && '), '');
END $$;

-- The part of a filter that says what must be there, for @>.
-- Called by: fits, follow_bindings.
CREATE FUNCTION rota.filter_values(filter jsonb) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
DECLARE
    one   record;
    found jsonb := '{}';
    inner_part jsonb;
BEGIN
    FOR one IN SELECT * FROM jsonb_each(filter) LOOP
        CONTINUE WHEN rota.is_comparison(one.value);
        IF jsonb_typeof(one.value) = 'object' AND one.value <> '{}' THEN
            inner_part := rota.filter_values(one.value);
            CONTINUE WHEN inner_part = '{}';
        ELSE
            inner_part := one.value;
        END IF;
        found := found || jsonb_build_object(one.key, inner_part);
    END LOOP;
    RETURN found;
END $$;

-- Whether a payload fits a filter; for psql and replays. What an event starts is decided by what event_bindings has
-- made ready.
-- Called by: users.
CREATE FUNCTION rota.fits(payload jsonb, filter jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT payload @> rota.filter_values(coalesce(filter, '{}'))
        AND coalesce(payload @@ rota.filter_test(coalesce(filter, '{}'))::jsonpath,
            rota.filter_test(coalesce(filter, '{}')) IS NULL)
$$;

-- Trigger: filters follow the code until somebody touches them.
CREATE FUNCTION rota.check_event_filters() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    one record;
BEGIN
    IF rota.is_syncing() AND NEW.code ? 'event_filters' AND NOT NEW.edited ? 'event_filters' THEN
        NEW.event_filters := NEW.code -> 'event_filters';
    END IF;
    IF jsonb_typeof(NEW.event_filters) IS DISTINCT FROM 'object' THEN
        PERFORM rota.bad_job(NEW.name, 'event_filters must be a JSON object',
            'It maps events to filters: {"order.*": {"status": "paid"}}.');
    END IF;
    FOR one IN SELECT * FROM jsonb_each(NEW.event_filters) LOOP
        IF jsonb_typeof(one.value) <> 'object' THEN
            PERFORM rota.bad_job(NEW.name, format('the filter of event "%s" must be a JSON object', one.key));
        END IF;
        PERFORM rota.filter_test(one.value)::jsonpath;
    END LOOP;
    RETURN NEW;
END $$;
CREATE TRIGGER jobs_event_filters BEFORE INSERT OR UPDATE OF code, event_filters ON rota.jobs
    FOR EACH ROW EXECUTE FUNCTION rota.check_event_filters();

-- Says in words what emit has found wrong.
-- Called by: emit, emit_many.
CREATE FUNCTION rota.refuse_event(event text, payload jsonb, tenant text, key text, metadata jsonb,
    key_seconds double precision, period_seconds double precision, most_bytes bigint) RETURNS void
        LANGUAGE plpgsql STABLE SET jit = off AS $$
BEGIN
    PERFORM rota.check_event(refuse_event.event);
    IF strpos(event, '*') > 0 THEN
        RAISE EXCEPTION 'event "%" contains a *, which only the patterns of bindings may contain', event
            USING ERRCODE = 'RO002', HINT = 'Emit a full name, such as order.paid.';
    ELSIF payload IS NULL OR jsonb_typeof(payload) <> 'object' THEN
        RAISE EXCEPTION 'the payload of event "%" must be a JSON object, not %', event,
            coalesce(jsonb_typeof(payload), 'NULL')
            USING ERRCODE = 'RO018', HINT = 'Write for example {"order_id": 7}.';
    ELSIF pg_column_size(payload) > most_bytes THEN
        RAISE EXCEPTION 'the payload of event "%" has % bytes; the limit is %', event, pg_column_size(payload),
            most_bytes
            USING ERRCODE = 'RO018', HINT = 'Store the data elsewhere and send a reference to it.';
    ELSIF tenant IS NULL OR length(tenant) > 200 THEN
        RAISE EXCEPTION 'the tenant of event "%" must have at most 200 characters, and cannot be NULL', event
            USING ERRCODE = 'RO002';
    ELSIF key = '' OR length(key) > 400 THEN
        RAISE EXCEPTION 'the key of event "%" must have 1 to 400 characters', event USING ERRCODE = 'RO002';
    ELSIF key IS NULL AND num_nonnulls(key_seconds, period_seconds) > 0 THEN
        RAISE EXCEPTION '% of event "%" needs a key',
            CASE WHEN key_seconds IS NULL THEN 'period_seconds' ELSE 'key_seconds' END, event USING ERRCODE = 'RO002';
    ELSIF num_nonnulls(key_seconds, period_seconds) > 1 THEN
        RAISE EXCEPTION 'key_seconds and period_seconds of event "%" cannot be combined', event USING ERRCODE = 'RO002',
            HINT = 'period_seconds counts from the event, key_seconds from the end of each run.';
    ELSIF (key_seconds BETWEEN 0 AND 'infinity') IS FALSE OR key_seconds = 'NaN'
        OR (key_seconds > 3153600000 AND key_seconds < 'infinity') THEN
        RAISE EXCEPTION 'key_seconds % of event "%" is not between 0 and 3153600000, or infinity', key_seconds, event
            USING ERRCODE = 'RO002';
    ELSIF period_seconds NOT BETWEEN 0.001 AND 3153600000 OR period_seconds = 'NaN' THEN
        RAISE EXCEPTION 'period_seconds % of event "%" is not between 0.001 and 3153600000', period_seconds, event
            USING ERRCODE = 'RO002';
    ELSIF jsonb_typeof(metadata) <> 'object' THEN
        RAISE EXCEPTION 'the metadata of event "%" must be a JSON object, not %', event, jsonb_typeof(metadata)
            USING ERRCODE = 'RO002';
    END IF;
    RAISE EXCEPTION 'the hook of event "%" must have at most 200 characters, and its source must be a JSON object',
        event USING ERRCODE = 'RO002';
END $$;

-- Whether the day of an event has a partition; it has, unless no worker has run for a week.
-- Called by: emit, emit_many.
CREATE FUNCTION rota.has_event_room(at timestamptz) RETURNS boolean LANGUAGE sql STABLE SET jit = off AS $$
    SELECT to_regclass('rota.events_' || to_char(at AT TIME ZONE 'UTC', 'YYYYMMDD')) IS NOT NULL
$$;

-- What triggered_by says of the runs of an event.
-- Called by: emit, emit_many, replay_bursts, replay_events.
CREATE FUNCTION rota.event_trigger(event text, event_id bigint, actor text, role text, source jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object('type', 'event', 'event', event, 'event_id', event_id, 'actor', actor,
        'role', role))
        || coalesce(source, '{}')
$$;

-- What the runs of an event get as their payload: one without any leaves it to each job's default payload.
-- Called by: deliver, deliver_bursts, emit_many, replay_events.
CREATE FUNCTION rota.event_payload(payload jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(nullif(payload, '{}'), 'null')
$$;

-- Keeps an event, and starts one run, in the caller's transaction, of each enabled job that is bound to it and whose
-- filter it fits. A key makes it happen once for each of them, as with enqueue.
-- Called by: sql/events/emit.sql, users, watch_row.
CREATE FUNCTION rota.emit(
    event text, payload jsonb DEFAULT '{}', tenant text DEFAULT '', key text DEFAULT NULL, metadata jsonb DEFAULT NULL,
    key_seconds double precision DEFAULT NULL, parent_run_id bigint DEFAULT NULL, hook text DEFAULT NULL,
    period_seconds double precision DEFAULT NULL, source jsonb DEFAULT NULL
) RETURNS TABLE (job text, run_id bigint, is_duplicate boolean) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    made  record;
    first record;
    told  jsonb;
BEGIN
    -- The event that nobody listens to is one statement: each expression more is made ready anew in each transaction.
    INSERT INTO rota.events (tenant, name, id, at, payload, key, source, actor, role)
    SELECT emit.tenant, emit.event, nextval('rota.event_ids'), statement_timestamp() + s.clock_offset, emit.payload,
        emit.key, emit.source, nullif(current_setting('rota' || '.actor', true), ''),
        CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END
    FROM rota.settings s
    WHERE length(emit.event) BETWEEN 1 AND 200 AND emit.event !~ '[\s*]' AND jsonb_typeof(emit.payload) = 'object'
      AND pg_column_size(emit.payload) <= s.payload_bytes AND length(emit.tenant) <= 200
      AND (length(emit.key) BETWEEN 1 AND 400) IS NOT FALSE
      AND num_nonnulls(emit.metadata, emit.key_seconds, emit.parent_run_id, emit.hook, emit.period_seconds) = 0
      AND (jsonb_typeof(emit.source) = 'object') IS NOT FALSE
      AND current_setting('application_name') NOT LIKE 'rota run %'
      AND NOT EXISTS (SELECT FROM rota.event_bindings e WHERE e.pattern = emit.event)
      AND NOT EXISTS (SELECT FROM rota.event_bindings p WHERE p.is_pattern AND emit.event LIKE p.like_pattern)
      AND to_regclass('rota.events_' || to_char((statement_timestamp() + s.clock_offset) AT TIME ZONE 'UTC',
          'YYYYMMDD')) IS NOT NULL;
    IF FOUND THEN
        RETURN;
    END IF;
    SELECT nextval('rota.event_ids') AS id, statement_timestamp() + s.clock_offset AS clock, s.payload_bytes,
        nullif(current_setting('rota' || '.actor', true), '') AS actor,
        CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END AS role,
        nullif(jsonb_strip_nulls(jsonb_build_object('hook', emit.hook,
            'run', coalesce(emit.parent_run_id, (rota.sql_trigger() ->> 'run')::bigint))) || coalesce(emit.source,
                '{}'), '{}') AS source,
        rota.has_event_room(statement_timestamp() + s.clock_offset) AS has_room
    INTO made FROM rota.settings s;
    IF (length(emit.event) BETWEEN 1 AND 200 AND emit.event !~ '[\s*]' AND jsonb_typeof(emit.payload) = 'object'
        AND pg_column_size(emit.payload) <= made.payload_bytes AND length(emit.tenant) <= 200
        AND (emit.key IS NULL OR length(emit.key) BETWEEN 1 AND 400)
        AND (emit.key IS NOT NULL OR num_nonnulls(emit.key_seconds, emit.period_seconds) = 0)
        AND num_nonnulls(emit.key_seconds, emit.period_seconds) < 2
        AND (emit.key_seconds IS NULL OR emit.key_seconds BETWEEN 0 AND 3153600000 OR emit.key_seconds = 'infinity')
        AND (emit.period_seconds IS NULL OR emit.period_seconds BETWEEN 0.001 AND 3153600000)
        AND (emit.metadata IS NULL OR jsonb_typeof(emit.metadata) = 'object')
        AND (emit.source IS NULL OR jsonb_typeof(emit.source) = 'object')
        AND (length(emit.hook) <= 200) IS NOT FALSE) IS NOT TRUE THEN
        PERFORM rota.refuse_event(emit.event, emit.payload, emit.tenant, emit.key, emit.metadata, emit.key_seconds,
            emit.period_seconds, made.payload_bytes);
    END IF;
    IF NOT made.has_room THEN
        PERFORM rota.ensure_partitions(made.clock, made.clock);
    END IF;
    IF emit.period_seconds IS NOT NULL THEN
        INSERT INTO rota.event_keys AS k (tenant, name, key, event_id, event_at, expires_at)
        VALUES (emit.tenant, emit.event, emit.key, made.id, made.clock, rota.after(made.clock, emit.period_seconds))
        ON CONFLICT (tenant, name, key) DO UPDATE SET event_id = excluded.event_id, event_at = excluded.event_at,
            expires_at = excluded.expires_at
        WHERE k.expires_at <= made.clock;
        IF NOT FOUND THEN
            PERFORM nextval('rota.duplicates');
            SELECT k.event_id, e.deliveries INTO first
            FROM rota.event_keys k LEFT JOIN rota.events e ON e.tenant = k.tenant AND e.name = k.name
                AND e.id = k.event_id AND e.at = k.event_at
            WHERE k.tenant = emit.tenant AND k.name = emit.event AND k.key = emit.key;
            INSERT INTO rota.events (tenant, name, id, at, payload, key, actor, role, source, metadata, duplicate_of)
            VALUES (emit.tenant, emit.event, made.id, made.clock, emit.payload, emit.key, made.actor, made.role,
                made.source, emit.metadata, first.event_id);
            RETURN QUERY
            SELECT d.value ->> 'job', (d.value ->> 'run')::bigint, true
            FROM jsonb_array_elements(coalesce(first.deliveries, '[]')) d
            WHERE d.value ? 'run';
            RETURN;
        END IF;
    END IF;
    told := rota.deliver(emit.event, made.id, emit.payload, emit.tenant, CASE WHEN emit.period_seconds IS NULL
        THEN emit.key END, emit.key_seconds, emit.metadata,
            rota.event_trigger(emit.event, made.id, made.actor, made.role, made.source), emit.key);
    INSERT INTO rota.events (tenant, name, id, at, payload, key, actor, role, source, metadata, deliveries)
    VALUES (emit.tenant, emit.event, made.id, made.clock, emit.payload, emit.key, made.actor, made.role, made.source,
        emit.metadata, told);
    IF told IS NOT NULL THEN
        RETURN QUERY
        SELECT d.value ->> 'job', (d.value ->> 'run')::bigint, d.value ? 'is_duplicate'
        FROM jsonb_array_elements(told) d WHERE d.value ? 'run';
    END IF;
END $$;

-- Many events of one name in one statement: where nobody listens they are one insert, and else one batch of runs for
-- each job. Returns how many.
-- Called by: users, watch_rows.
CREATE FUNCTION rota.emit_many(event text, payloads jsonb[], tenants text[] DEFAULT NULL, source jsonb DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    made   record;
    bound  record;
    fit    record;
    ids    bigint[];
    runs   bigint[];
    twins  boolean[];
    got    jsonb[];
    places bigint[] := '{}';        -- of what each job got, with the place of the event
    told   jsonb[] := '{}';
BEGIN
    SELECT statement_timestamp() + s.clock_offset AS clock, s.payload_bytes,
        nullif(current_setting('rota' || '.actor', true), '') AS actor,
        CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END AS role,
        (SELECT w.n FROM unnest(payloads, tenants) WITH ORDINALITY AS w (payload, tenant, n)
         WHERE jsonb_typeof(w.payload) IS DISTINCT FROM 'object' OR pg_column_size(w.payload) > s.payload_bytes
           OR length(w.tenant) > 200
         ORDER BY w.n LIMIT 1) AS wrong
    INTO made FROM rota.settings s;
    IF (length(emit_many.event) BETWEEN 1 AND 200 AND emit_many.event !~ '[\s*]' AND made.wrong IS NULL) IS NOT TRUE
        THEN
        PERFORM rota.refuse_event(emit_many.event, payloads[coalesce(made.wrong, 1)], coalesce(tenants[made.wrong], ''),
            NULL, NULL, NULL, NULL, made.payload_bytes);
    END IF;
    IF NOT rota.has_event_room(made.clock) THEN
        PERFORM rota.ensure_partitions(made.clock, made.clock);
    END IF;
    ids := ARRAY(SELECT nextval('rota.event_ids') FROM generate_series(1, cardinality(payloads)));
    FOR bound IN SELECT b.job, b.is_enabled, b.rule, b.queue FROM rota.bound_jobs(emit_many.event, '{}') b LOOP
        SELECT coalesce(array_agg(w.payload ORDER BY w.n) FILTER (WHERE w.fits), '{}') AS payloads,
               array_agg(coalesce(w.tenant, '') ORDER BY w.n) FILTER (WHERE w.fits) AS tenants,
               array_agg(w.id ORDER BY w.n) FILTER (WHERE w.fits) AS ids, array_agg(w.n ORDER BY w.n)
               FILTER (WHERE w.fits) AS places, coalesce(array_agg(w.n ORDER BY w.n) FILTER (WHERE NOT w.fits),
                   '{}') AS others
        INTO fit
        FROM (SELECT u.*, EXISTS (
                  SELECT FROM rota.event_bindings b
                  WHERE b.job = bound.job AND (b.pattern = emit_many.event
                      OR (b.is_pattern AND emit_many.event LIKE b.like_pattern))
                    AND (b.has_values IS NULL OR u.payload @> b.has_values)
                    AND (b.test IS NULL OR coalesce(u.payload @@ b.test, false))) AS fits
              FROM unnest(payloads, tenants, ids) WITH ORDINALITY AS u (payload, tenant, id, n)) w;
        places := places || fit.others;
        told := told || ARRAY(SELECT jsonb_build_object('job', bound.job, 'skipped', 'filter') FROM unnest(fit.others));
        CONTINUE WHEN fit.payloads = '{}';
        IF bound.rule IS NOT NULL THEN
            got := ARRAY(SELECT b.told FROM rota.deliver_bursts(bound.job, bound.rule, bound.queue,
                array_fill(emit_many.event, ARRAY[cardinality(fit.ids)]), '{}', fit.payloads, fit.tenants, '{}',
                ARRAY(SELECT rota.event_trigger(emit_many.event, i, made.actor, made.role, emit_many.source)
                      FROM unnest(fit.ids) WITH ORDINALITY AS u (i, n) ORDER BY u.n)) b ORDER BY b.place);
        ELSE
            SELECT array_agg(r.run_id ORDER BY r.n), array_agg(r.is_duplicate ORDER BY r.n) INTO runs, twins
            FROM rota.enqueue_many(jobs => ARRAY[bound.job],
                payloads => ARRAY(SELECT rota.event_payload(p.payload)
                    FROM unnest(fit.payloads) WITH ORDINALITY AS p (payload, n) ORDER BY p.n),
                tenants => fit.tenants, triggered_by => rota.event_trigger(emit_many.event, NULL, made.actor, made.role,
                    emit_many.source)) WITH ORDINALITY AS r (run_id, is_duplicate, n);
            PERFORM rota.name_events(array_agg(r.run_id), array_agg(r.id))
            FROM unnest(runs, fit.ids, twins) AS r (run_id, id, is_twin) WHERE NOT r.is_twin HAVING count(*) > 0;
            got := ARRAY(SELECT jsonb_build_object('job', bound.job, 'run', r.run_id) || CASE WHEN r.is_twin
                THEN jsonb '{"is_duplicate": true}' ELSE '{}' END
                FROM unnest(runs, twins) WITH ORDINALITY AS r (run_id, is_twin, n) ORDER BY r.n);
        END IF;
        places := places || fit.places;
        told := told || CASE WHEN bound.is_enabled THEN got
            ELSE ARRAY(SELECT g.one || '{"is_disabled": true}' FROM unnest(got) WITH ORDINALITY AS g (one, n)
                ORDER BY g.n) END;
    END LOOP;
    INSERT INTO rota.events (tenant, name, id, at, payload, actor, role, source, deliveries)
    SELECT coalesce(w.tenant, ''), emit_many.event, w.id, made.clock, w.payload, made.actor, made.role,
        emit_many.source, d.deliveries
    FROM unnest(payloads, tenants, ids) WITH ORDINALITY AS w (payload, tenant, id, n)
    LEFT JOIN (SELECT t.place, jsonb_agg(t.told ORDER BY t.i) AS deliveries
        FROM unnest(places, told) WITH ORDINALITY AS t (place, told, i) GROUP BY t.place) d
        ON d.place = w.n
    ORDER BY w.n;
    RETURN cardinality(payloads);
END $$;

-- Starts what is bound to an event that has its number, and returns the deliveries.
-- Called by: emit.
CREATE FUNCTION rota.deliver(event text, event_id bigint, payload jsonb, tenant text, key text,
    key_seconds double precision, metadata jsonb, triggered_by jsonb, event_key text) RETURNS jsonb
        LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    one  record;
    run  record;
    made jsonb[] := '{}';
    told jsonb;
BEGIN
    FOR one IN SELECT * FROM rota.bound_jobs(deliver.event, deliver.payload) LOOP
        IF NOT one.fits THEN
            made := made || jsonb_build_object('job', one.job, 'skipped', 'filter');
            CONTINUE;
        ELSIF one.rule IS NOT NULL THEN
            told := (SELECT b.told FROM rota.deliver_bursts(one.job, one.rule, one.queue, ARRAY[deliver.event],
                ARRAY[deliver.event_key], ARRAY[deliver.payload], ARRAY[deliver.tenant], ARRAY[deliver.metadata],
                ARRAY[deliver.triggered_by]) b);
        ELSE
            SELECT r.run_id, r.is_duplicate INTO run
            FROM rota.enqueue_run(job => one.job, payload => rota.event_payload(deliver.payload), key => deliver.key,
                key_seconds => deliver.key_seconds, tenant => deliver.tenant, metadata => deliver.metadata,
                triggered_by => deliver.triggered_by) r;
            IF NOT run.is_duplicate THEN
                PERFORM nextval('rota.event_starts');
            END IF;
            told := jsonb_build_object('job', one.job, 'run', run.run_id) || CASE WHEN run.is_duplicate
                THEN jsonb '{"is_duplicate": true}' ELSE '{}' END;
        END IF;
        made := made || (told || CASE WHEN one.is_enabled THEN jsonb '{}' ELSE '{"is_disabled": true}' END);
    END LOOP;
    RETURN nullif(to_jsonb(made), '[]');
END $$;

-- What is wrong with a rule, in words; NULL: nothing.
-- Called by: check_event_delivery.
CREATE FUNCTION rota.delivery_fault(rule jsonb) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT CASE
        WHEN jsonb_typeof(rule) <> 'object' THEN 'must be a JSON object'
        WHEN EXISTS (SELECT FROM jsonb_object_keys(rule) k
            WHERE k NOT IN ('debounce_seconds', 'longest_seconds', 'throttle_seconds', 'key'))
            THEN format('has an unknown option "%s"', (SELECT min(k) FROM jsonb_object_keys(rule) k
                WHERE k NOT IN ('debounce_seconds', 'longest_seconds', 'throttle_seconds', 'key')))
        WHEN (rule ? 'debounce_seconds') = (rule ? 'throttle_seconds')
            THEN 'must have either debounce_seconds or throttle_seconds'
        WHEN rule ? 'longest_seconds' AND NOT rule ? 'debounce_seconds'
            THEN 'has longest_seconds, which requires debounce_seconds'
        WHEN jsonb_path_exists(rule, 'strict $.keyvalue() ? (@.key != "key" && @.value.type() != "number")')
            THEN 'has a time that is not a number of seconds'
        WHEN (coalesce(rule ->> 'debounce_seconds',
            rule ->> 'throttle_seconds'))::numeric NOT BETWEEN 0.001 AND 31536000
            THEN 'has a time that is not between 0.001 and 31536000 seconds (a year)'
        WHEN (rule ->> 'longest_seconds')::numeric NOT BETWEEN (rule ->> 'debounce_seconds')::numeric AND 31536000
            THEN 'has longest_seconds that is not between debounce_seconds and 31536000 (a year)'
        WHEN rule ? 'key' AND jsonb_typeof(rule -> 'key') <> 'string' THEN 'has a key that is not a string'
        WHEN rule ->> 'key' !~ '^[^[:cntrl:]]{1,200}$'
            OR regexp_replace(rule ->> 'key', '\{[A-Za-z_][A-Za-z0-9_.]*\}', '', 'g') ~ '[{}]'
            THEN format('has the key "%s", which is not a valid template', left(rule ->> 'key', 200))
    END
$$;

-- Trigger: the rule of delivery follows the code until somebody touches it, as filters do.
CREATE FUNCTION rota.check_event_delivery() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF rota.is_syncing() AND NEW.code ? 'event_delivery' AND NOT NEW.edited ? 'event_delivery' THEN
        NEW.event_delivery := NEW.code -> 'event_delivery';
    END IF;
    NEW.event_delivery := nullif(NEW.event_delivery, 'null');
    IF rota.delivery_fault(NEW.event_delivery) IS NOT NULL THEN
        PERFORM rota.bad_job(NEW.name, 'event_delivery ' || rota.delivery_fault(NEW.event_delivery),
            'Write for example {"debounce_seconds": 5, "longest_seconds": 60, "key": "order:{order_id}"} or '
            '{"throttle_seconds": 60}.');
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER jobs_event_delivery BEFORE INSERT OR UPDATE OF code, event_delivery ON rota.jobs
    FOR EACH ROW EXECUTE FUNCTION rota.check_event_delivery();

-- The burst that an event belongs to, among the keys of a job. A template knows what those of limits know, and
-- {event.name} and {event.key}.
-- Called by: deliver_bursts, replay_bursts.
CREATE FUNCTION rota.event_burst(rule jsonb, event text, key text, payload jsonb, job text, queue text, tenant text)
RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT 'event:' || coalesce(rota.fill_key(rule ->> 'key',
        payload || jsonb_build_object('event', jsonb_build_object('name', event, 'key', key)), job, queue, tenant,
        NULL), '')
$$;

-- Delivers events to a job whose rule bundles them; the one way for emits, tables and replays. Of each burst one event
-- is enqueued, however many there are: a load of ten thousand rows is not ten thousand versions of one run. Keys are
-- taken in their order, so that two loads wait for each other and do not deadlock. Returns what each event got, by its
-- place.
-- Called by: deliver, emit_many, replay_bursts.
CREATE FUNCTION rota.deliver_bursts(
    job text, rule jsonb, queue text, events text[], keys text[], payloads jsonb[], tenants text[], metadatas jsonb[],
    causes jsonb[]
) RETURNS TABLE (place bigint, told jsonb) LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    is_debounced constant boolean := deliver_bursts.rule ? 'debounce_seconds';
    burst  record;
    run    record;
    shared jsonb;
BEGIN
    FOR burst IN
        WITH given AS MATERIALIZED (
            SELECT u.n, u.payload, coalesce(u.tenant, '') AS tenant, u.metadata, u.cause,
                rota.event_burst(deliver_bursts.rule, u.event, u.key, u.payload, deliver_bursts.job,
                    deliver_bursts.queue, coalesce(u.tenant, '')) AS key
            FROM unnest(deliver_bursts.events, deliver_bursts.keys, deliver_bursts.payloads, deliver_bursts.tenants,
                deliver_bursts.metadatas, deliver_bursts.causes) WITH ORDINALITY AS u (event, key, payload, tenant,
                metadata, cause, n)
        ), bursts AS (
            SELECT g.tenant, g.key, array_agg(g.n ORDER BY g.n) AS places, CASE WHEN is_debounced THEN max(g.n)
                ELSE min(g.n) END AS chosen
            FROM given g GROUP BY g.tenant, g.key
        )
        SELECT b.tenant, b.key, b.places, b.chosen, g.payload, g.metadata, g.cause FROM bursts b
        JOIN given g ON g.n = b.chosen ORDER BY b.tenant, b.key
    LOOP
        SELECT r.run_id, r.is_duplicate INTO run
        FROM rota.enqueue_run(job => deliver_bursts.job, payload => rota.event_payload(burst.payload), key => burst.key,
            on_conflict => CASE WHEN is_debounced THEN 'debounce' ELSE 'throttle' END,
            delay => make_interval(secs => (deliver_bursts.rule ->> 'debounce_seconds')::double precision),
            key_seconds => coalesce(deliver_bursts.rule ->> 'longest_seconds',
                deliver_bursts.rule ->> 'throttle_seconds')::double precision,
            tenant => burst.tenant, metadata => burst.metadata,
            triggered_by => burst.cause || CASE WHEN is_debounced
                THEN jsonb_build_object('debounced', cardinality(burst.places)) ELSE '{}' END) r;
        IF NOT run.is_duplicate THEN
            PERFORM nextval('rota.event_starts');
        ELSIF is_debounced THEN
            -- It has the payload of the last event now, and says which that was.
            UPDATE rota.open_runs o SET triggered_by = burst.cause || jsonb_build_object('debounced',
                cardinality(burst.places)
                + CASE jsonb_typeof(o.triggered_by -> 'debounced') WHEN 'number'
                    THEN (o.triggered_by ->> 'debounced')::numeric ELSE 0 END)
            WHERE o.id = run.run_id;
        END IF;
        PERFORM count(nextval('rota.duplicates')) FROM generate_series(2, cardinality(burst.places));
        shared := CASE WHEN is_debounced THEN '{"debounced": true, "is_duplicate": true}'
            ELSE jsonb_build_object('is_duplicate', true, 'throttled_until', (SELECT k.expires_at FROM rota.keys k
                WHERE k.tenant = burst.tenant AND k.job = deliver_bursts.job AND k.key = burst.key)) END;
        RETURN QUERY
        SELECT p, jsonb_build_object('job', deliver_bursts.job, 'run', run.run_id) || CASE
            WHEN p <> burst.chosen OR run.is_duplicate THEN shared
            WHEN is_debounced THEN shared - 'is_duplicate' ELSE '{}' END
        FROM unnest(burst.places) p;
    END LOOP;
END $$;

-- What became of an event, in a word.
-- Called by: sql/events/list.sql, sql/events/list_named.sql, sql/events/list_named_oldest.sql,
-- sql/events/list_oldest.sql.
CREATE FUNCTION rota.event_outcome(deliveries jsonb, duplicate_of bigint) RETURNS text LANGUAGE sql IMMUTABLE
SET jit = off AS $$
    SELECT CASE WHEN duplicate_of IS NOT NULL THEN 'duplicate'
                WHEN jsonb_typeof(deliveries) IS DISTINCT FROM 'array' OR deliveries = '[]' THEN 'unbound'
                WHEN jsonb_path_exists(deliveries,
                    '$[*] ? (exists(@.run) && !(@.is_duplicate == true) && !(@.debounced == true))') THEN 'started'
                WHEN jsonb_path_exists(deliveries, '$[*] ? (exists(@.run) && @.debounced == true)') THEN 'debounced'
                WHEN jsonb_path_exists(deliveries, '$[*] ? (exists(@.run) && exists(@.throttled_until))')
                    THEN 'throttled'
                WHEN jsonb_path_exists(deliveries, '$[*] ? (exists(@.run))') THEN 'duplicate'
                ELSE 'filtered' END
$$;

-- Delivers events that are kept to a job as if it had been bound to them. None goes to the same job twice, unless
-- `again` says so. Where the job is bound to the event, its filters hold. Those that another transaction holds are
-- left out and counted.
-- Called by: sql/events/replay.sql, users.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.replay_events(
    job text, event text DEFAULT NULL, ids bigint[] DEFAULT NULL, since timestamptz DEFAULT NULL,
    until timestamptz DEFAULT NULL, tenant text DEFAULT NULL, again boolean DEFAULT false,
    dry_run boolean DEFAULT false, reason text DEFAULT NULL, actor text DEFAULT NULL,
    OUT events bigint, OUT started bigint, OUT delivered_before bigint, OUT filtered bigint, OUT held bigint,
    OUT joined bigint
) LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    most  constant integer := 10000;
    who   constant text := coalesce(replay_events.actor, nullif(current_setting('rota' || '.actor', true), ''),
        session_user);
    def   record;
    found bigint[];
    ready bigint[] := '{}';
    one   record;
    fits  boolean;
    run   record;
BEGIN
    started := 0; joined := 0; delivered_before := 0; filtered := 0; held := 0;
    SELECT j.name, j.queue, j.event_delivery AS rule INTO def FROM rota.jobs j WHERE j.name = replay_events.job;
    IF def.name IS NULL THEN
        PERFORM rota.unknown_job(replay_events.job);
    ELSIF num_nonnulls(replay_events.event, replay_events.ids) <> 1 THEN
        RAISE EXCEPTION 'pass either event or ids' USING ERRCODE = 'RO002';
    END IF;
    found := ARRAY(
        SELECT e.id FROM rota.events e
        WHERE (replay_events.ids IS NULL OR e.id = ANY (replay_events.ids))
          AND (replay_events.event IS NULL OR e.name = replay_events.event
               OR (strpos(replay_events.event, '*') > 0 AND e.name LIKE rota.like_event(replay_events.event)))
          AND (replay_events.since IS NULL OR e.at >= replay_events.since)
          AND (replay_events.until IS NULL OR e.at < replay_events.until)
          AND (replay_events.tenant IS NULL OR e.tenant = replay_events.tenant) AND e.duplicate_of IS NULL
        ORDER BY e.id LIMIT most + 1);
    events := cardinality(found);
    IF events > most THEN
        RAISE EXCEPTION 'more than % events match', most
            USING ERRCODE = 'RO002', HINT = 'Replay them in parts: narrow since and until.';
    END IF;
    held := events;
    FOR one IN EXECUTE 'SELECT e.* FROM rota.events e WHERE e.id = ANY ($1) ORDER BY e.id' || CASE
        WHEN replay_events.dry_run THEN '' ELSE ' FOR UPDATE SKIP LOCKED' END
        USING found
    LOOP
        held := held - 1;
        fits := (SELECT bool_or((b.has_values IS NULL OR one.payload @> b.has_values)
            AND (b.test IS NULL OR coalesce(one.payload @@ b.test, false)))
                 FROM rota.event_bindings b
                 WHERE b.job = replay_events.job AND (b.pattern = one.name
                     OR (b.is_pattern AND one.name LIKE b.like_pattern)));
        IF NOT replay_events.again AND jsonb_path_exists(coalesce(one.deliveries, '[]'),
                '$[*] ? (@.job == $job && exists(@.run))', jsonb_build_object('job', replay_events.job)) THEN
            delivered_before := delivered_before + 1;
        ELSIF NOT fits THEN
            filtered := filtered + 1;
        ELSIF def.rule IS NOT NULL THEN
            ready := array_append(ready, one.id);
        ELSE
            started := started + 1;
            CONTINUE WHEN replay_events.dry_run;
            SELECT r.run_id, r.is_duplicate INTO run
            FROM rota.enqueue_run(job => replay_events.job, payload => rota.event_payload(one.payload),
                tenant => one.tenant, metadata => one.metadata,
                triggered_by => rota.event_trigger(one.name, one.id, one.actor, one.role,
                one.source) || jsonb_build_object('replayed_by', who)) r;
            IF run.is_duplicate THEN
                started := started - 1;
                joined := joined + 1;
            ELSE
                PERFORM nextval('rota.event_starts');
            END IF;
            UPDATE rota.events e
            SET deliveries = CASE WHEN jsonb_typeof(e.deliveries) = 'array' THEN e.deliveries ELSE '[]' END
                || jsonb_build_object('job', replay_events.job, 'run', run.run_id, 'replayed_by', who, 'replayed_at',
                    rota.now())
            WHERE e.tenant = one.tenant AND e.name = one.name AND e.id = one.id AND e.at = one.at;
        END IF;
    END LOOP;
    IF ready <> '{}' THEN
        started := rota.replay_bursts(def.name, def.rule, def.queue, ready, who, replay_events.dry_run);
        joined := cardinality(ready) - started;
    END IF;
    IF NOT replay_events.dry_run THEN
        PERFORM rota.write_audit(replay_events.actor, 'event.replayed', 'job', replay_events.job, NULL,
            jsonb_strip_nulls(jsonb_build_object(
            'event', replay_events.event, 'ids', to_jsonb(replay_events.ids[1:100]), 'since', replay_events.since,
            'until', replay_events.until, 'again', nullif(replay_events.again, false), 'started', started, 'joined',
            nullif(joined, 0), 'delivered_before', delivered_before, 'filtered', filtered, 'held', held)),
            replay_events.reason, coalesce(replay_events.tenant, ''));
    END IF;
END $$;

-- Replays these events in bursts, and returns how many runs that started, or would.
-- Called by: replay_events.
CREATE FUNCTION rota.replay_bursts(job text, rule jsonb, queue text, ids bigint[], who text, dry_run boolean)
RETURNS bigint LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    given record;
    made  bigint;
BEGIN
    IF replay_bursts.dry_run THEN
        RETURN (SELECT count(DISTINCT (e.tenant,
            rota.event_burst(replay_bursts.rule, e.name, e.key, e.payload, replay_bursts.job, replay_bursts.queue,
            e.tenant)))
                FROM rota.events e WHERE e.id = ANY (replay_bursts.ids));
    END IF;
    SELECT array_agg(e.name ORDER BY e.id) AS names, array_agg(e.key ORDER BY e.id) AS keys,
        array_agg(e.payload ORDER BY e.id) AS payloads, array_agg(e.tenant ORDER BY e.id) AS tenants,
        array_agg(e.metadata ORDER BY e.id) AS metadatas, array_agg(e.id ORDER BY e.id) AS ids,
        array_agg(e.at ORDER BY e.id) AS times, array_agg(rota.event_trigger(e.name, e.id, e.actor, e.role, e.source)
            || jsonb_build_object('replayed_by', replay_bursts.who) ORDER BY e.id) AS causes
    INTO given FROM rota.events e WHERE e.id = ANY (replay_bursts.ids);
    WITH told AS MATERIALIZED (
        SELECT b.place, b.told FROM rota.deliver_bursts(replay_bursts.job, replay_bursts.rule, replay_bursts.queue,
            given.names, given.keys, given.payloads, given.tenants, given.metadatas, given.causes) b
    ), kept AS (
        UPDATE rota.events e
        SET deliveries = CASE WHEN jsonb_typeof(e.deliveries) = 'array' THEN e.deliveries ELSE '[]' END
            || (t.told || jsonb_build_object('replayed_by', replay_bursts.who, 'replayed_at', rota.now()))
        FROM told t JOIN unnest(given.ids, given.times) WITH ORDINALITY AS g (id, at, n) ON g.n = t.place
        WHERE e.id = g.id AND e.at = g.at
    )
    SELECT count(*) INTO made FROM told t WHERE NOT t.told ? 'is_duplicate';
    RETURN made;
END $$;

-- Removes keys of events that are over, a portion at a time: what retention removes of events beside their
-- partitions.
-- Called by: sql/retention/prune_event_keys.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.prune_event_keys(before_at timestamptz, max_rows integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    removed integer;
BEGIN
    DELETE FROM rota.event_keys k WHERE k.ctid = ANY (ARRAY(
        SELECT o.ctid FROM rota.event_keys o WHERE o.expires_at < before_at ORDER BY o.expires_at LIMIT max_rows
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;

-- How many ever: counted without a row.
CREATE SEQUENCE rota.hook_refused;

-- What came to a webhook and was refused, without what it said: how often, by minute, so that a flood has few rows.
CREATE TABLE rota.hook_refusals (
    tenant   text COLLATE "C" NOT NULL DEFAULT '',
    hook     text COLLATE "C" NOT NULL,
    reason   text COLLATE "C" NOT NULL,
    address  text COLLATE "C" NOT NULL,
    minute   timestamptz NOT NULL,
    refusals bigint NOT NULL DEFAULT 1,
    last_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant, hook, minute, reason, address)
);
CREATE INDEX hook_refusals_minute ON rota.hook_refusals (minute);

-- Counts a refused call of a webhook, one row for each minute, reason and address.
-- Called by: sql/events/refuse_hook.sql.
CREATE FUNCTION rota.refuse_hook(hook text, reason text, address text, tenant text DEFAULT '') RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO rota.hook_refusals AS r (tenant, hook, reason, address, minute, last_at)
    VALUES (refuse_hook.tenant, left(refuse_hook.hook, 200), refuse_hook.reason, left(refuse_hook.address, 100),
        date_trunc('minute', rota.now()), rota.now())
    ON CONFLICT (tenant, hook, minute, reason, address) DO UPDATE
        SET refusals = r.refusals + 1, last_at = excluded.last_at;
    PERFORM nextval('rota.hook_refused');
END $$;

-- Removes old refusals of webhooks, so many at most.
-- Called by: sql/retention/prune_refusals.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.prune_refusals(before_at timestamptz, max_rows integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    removed integer;
BEGIN
    DELETE FROM rota.hook_refusals h WHERE h.ctid = ANY (ARRAY(
        SELECT o.ctid FROM rota.hook_refusals o WHERE o.minute < before_at ORDER BY o.minute LIMIT max_rows
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;

-- 21_table_events.sql

-- Events from users' tables. `watch_table` installs triggers that emit an event for each row that is written, in the
-- writer's transaction, and `unwatch_table` takes them away; `table_watches` lists them, `watches` says whether they
-- still work. These functions run in other people's transactions: they name everything by its schema.

-- Numbers of watches.
CREATE SEQUENCE rota.watch_ids;

-- Watches of tables: what was installed, to be compared with what is there.
CREATE TABLE rota.table_watches (
    tenant        text COLLATE "C" NOT NULL DEFAULT '',  -- of its events, unless a column says
    id            bigint NOT NULL,
    relation      oid NOT NULL,
    table_name    text NOT NULL,                         -- as it was called, with its schema
    event         text NOT NULL,                         -- its events are called so, with the operation after a dot
    operations    text[] NOT NULL,
    update_of     text[],
    columns       text[],
    condition     text,
    tenant_column text,
    triggers      jsonb NOT NULL,                        -- by name: as the server wrote them down
    created_at    timestamptz NOT NULL DEFAULT rota.now(),
    created_by    text NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX table_watches_id ON rota.table_watches (id);

-- The table that a text names, or an error that says how to write it.
-- Called by: watch_table.
CREATE FUNCTION rota.find_table(table_name text) RETURNS oid LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    found oid := rota.table_of(table_name);
BEGIN
    IF found IS NULL THEN
        RAISE EXCEPTION 'there is no table %', coalesce(table_name, 'NULL')
            USING ERRCODE = 'RO002', HINT = 'Write schema.table; put names with capitals or spaces in double quotes.';
    END IF;
    RETURN found;
END $$;

-- The table that a text names; NULL for a text that names none, or is no name. Rota's sessions have no search_path:
-- a name alone is one of public.
-- Called by: find_table, rule_table, sql/cleanup/table.sql, unwatch_table.
CREATE FUNCTION rota.table_of(table_name text) RETURNS oid LANGUAGE plpgsql STABLE SET jit = off AS $$
BEGIN
    RETURN coalesce(to_regclass(table_name), to_regclass('public.' || table_name));
EXCEPTION WHEN invalid_name OR syntax_error OR feature_not_supported THEN
    RETURN NULL;
END $$;

-- Whether all columns of a table are of built-in types, so that to_jsonb calls nothing that somebody else has
-- defined.
-- Called by: watch_row.
CREATE FUNCTION rota.is_plain_row(relation oid) RETURNS boolean LANGUAGE sql STABLE SET jit = off AS $$
    SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a
                       WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384)
$$;

-- The one of some columns that the table does not have.
-- Called by: watch_table, watches.
CREATE FUNCTION rota.missing_column(of_relation oid, names text[]) RETURNS text LANGUAGE sql STABLE SET jit = off AS $$
    SELECT min(n) FROM unnest(names) n WHERE NOT EXISTS (
        SELECT FROM pg_attribute a WHERE a.attrelid = of_relation AND a.attname = n AND a.attnum > 0
            AND NOT a.attisdropped)
$$;

-- Whether a text is one expression, that nothing can follow: CREATE TRIGGER checks what it means.
-- Called by: watch_table.
CREATE FUNCTION rota.check_condition(condition text) RETURNS void LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
DECLARE
    depth integer := 0;
    quote text;
    one   text;
    next  text;
    place integer := 0;
BEGIN
    IF length(condition) > 10000 OR strpos(condition, chr(92)) > 0 THEN
        RAISE EXCEPTION 'a condition must have at most 10000 characters and no backslash' USING ERRCODE = 'RO002';
    END IF;
    WHILE place < length(condition) LOOP
        place := place + 1;
        one := substr(condition, place, 1);
        next := substr(condition, place + 1, 1);
        IF quote IS NOT NULL THEN
            quote := CASE WHEN one = quote THEN NULL ELSE quote END;        -- a doubled one opens again at once
        ELSIF one IN ('''', '"') THEN
            quote := one;
        ELSIF one = '(' THEN
            depth := depth + 1;
        ELSIF one = ')' THEN
            depth := depth - 1;
            EXIT WHEN depth < 0;
        ELSIF one IN (';', '$') OR one || next IN ('--', '/*') THEN
            RAISE EXCEPTION 'a condition must not contain %', CASE WHEN one IN (';', '$') THEN one ELSE one || next END
                USING ERRCODE = 'RO002', HINT = 'Write one expression: new.total > 100 AND new.status = ''paid''.';
        END IF;
    END LOOP;
    IF depth <> 0 OR quote IS NOT NULL OR btrim(condition) = '' THEN
        RAISE EXCEPTION 'the condition is not a complete expression: %', condition
            USING ERRCODE = 'RO002', HINT = 'Write one expression: new.total > 100 AND new.status = ''paid''.';
    END IF;
END $$;

-- A row as JSON, for functions that run as their owner. Whoever owns a type may say by a cast how it becomes JSON or
-- text, and that function would run with our rights: so only types that the server came with go that way, others by
-- their output function.
-- Called by: watch_row, watch_rows.
CREATE FUNCTION rota.row_expression(relation oid, alias text, columns text[]) RETURNS text LANGUAGE sql STABLE
SET jit = off AS $$
    SELECT coalesce(string_agg(part.text, ' || '), '''{}''::jsonb') FROM (
        SELECT 'jsonb_build_object(' || string_agg(format('%L, %s', a.attname,
            CASE WHEN a.atttypid < 16384 THEN format('to_jsonb(%s.%I)', alias, a.attname)
            ELSE format('CASE WHEN num_nulls(%1$s.%2$I) = 0 THEN to_jsonb(format(''%%s'', %1$s.%2$I)) END', alias,
                a.attname) END), ', ' ORDER BY a.attnum) || ')' AS text
        FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped
          AND (columns IS NULL OR a.attname = ANY (columns))
        GROUP BY a.attnum / 40 ORDER BY a.attnum / 40) part
$$;

-- The payload that tells of a written row. One that runs cannot have must not fail the write: then it has the
-- columns of the primary key only.
-- Called by: watch_row, watch_rows.
CREATE FUNCTION rota.row_payload(relation oid, told text, operation text, old_row jsonb, new_row jsonb,
    most_bytes bigint)
RETURNS jsonb LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    made jsonb := jsonb_build_object('table', told, 'operation', operation, 'old', old_row, 'new', new_row);
    keys text[];
BEGIN
    IF pg_column_size(made) <= most_bytes AND (octet_length(made::text) <= 200 OR rota.is_plain_json(made)) THEN
        RETURN made;
    END IF;
    keys := ARRAY(SELECT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
        AND a.attnum = ANY (i.indkey::smallint[])
                  WHERE i.indrelid = relation AND i.indisprimary);
    made := jsonb_build_object('table', told, 'operation', operation,
        'old', (SELECT jsonb_object_agg(o.key, o.value) FROM jsonb_each(old_row) o WHERE o.key = ANY (keys)),
        'new', (SELECT jsonb_object_agg(n.key, n.value) FROM jsonb_each(new_row) n WHERE n.key = ANY (keys)));
    IF pg_column_size(made) <= most_bytes AND (octet_length(made::text) <= 200 OR rota.is_plain_json(made)) THEN
        RETURN made;
    END IF;
    RETURN jsonb_build_object('table', told, 'operation', operation, 'old', NULL, 'new', NULL);
END $$;

-- Gives the runs of a batch the numbers of their events, each its own: a batch of runs has one triggered_by.
-- Called by: emit_many.
CREATE FUNCTION rota.name_events(runs bigint[], event_ids bigint[]) RETURNS void LANGUAGE sql VOLATILE
SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    UPDATE rota.open_runs o SET triggered_by = o.triggered_by || jsonb_build_object('event_id', r.event_id)
    FROM unnest(runs, event_ids) AS r (run_id, event_id) WHERE o.id = r.run_id;
    SELECT count(nextval('rota.event_starts')) FROM generate_series(1, cardinality(runs));
$$;

-- Trigger on a user's table, once for each statement: emits an event for each row. It runs as the owner of Rota's
-- schema, because whoever writes the table need not know of Rota; so it takes nothing from the caller's search_path,
-- and no expression that somebody wrote is evaluated in it: conditions are the triggers' own, and run as the writer.
-- Arguments: watch, event, columns, tenant, tenant column.
CREATE FUNCTION rota.watch_rows() RETURNS trigger LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    operation constant text := lower(TG_OP);
    told      constant text := format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME);
    columns   constant text[] := nullif(TG_ARGV[2], '')::text[];
    lasting   constant text := CASE TG_OP WHEN 'DELETE' THEN 'o' ELSE 'n' END;
    rows_from text;
    part      record;
BEGIN
    rows_from := CASE TG_OP
        WHEN 'INSERT' THEN format('(SELECT NULL::jsonb AS o, %s AS n FROM new_rows r)',
            rota.row_expression(TG_RELID, 'r', columns))
        WHEN 'DELETE' THEN format('(SELECT %s AS o, NULL::jsonb AS n FROM old_rows r)',
            rota.row_expression(TG_RELID, 'r', columns))
        -- The server adds each row to both tables at once, so that their orders are the same.
        ELSE format('(SELECT a.j AS o, b.j AS n FROM (SELECT row_number() OVER () AS i, %1$s AS j FROM old_rows r) a
                      JOIN (SELECT row_number() OVER () AS i, %1$s AS j FROM new_rows r) b ON b.i = a.i)',
            rota.row_expression(TG_RELID, 'r', columns)) END;
    -- In parts, so that a load of millions fits into memory.
    FOR part IN EXECUTE format('
        SELECT array_agg(x.payload ORDER BY x.i) AS payloads, array_agg(x.tenant ORDER BY x.i) AS tenants FROM (
            SELECT row_number() OVER () AS i, rota.row_payload($1, $2, $3, x.o, x.n, s.payload_bytes) AS payload,
                left(coalesce(x.%I ->> $4, $5), 200) AS tenant
            FROM %s x, rota.settings s) x GROUP BY (x.i - 1) / 10000 ORDER BY (x.i - 1) / 10000', lasting, rows_from)
        USING TG_RELID, told, operation, nullif(TG_ARGV[4], ''), TG_ARGV[3]
    LOOP
        PERFORM rota.emit_many(TG_ARGV[1] || '.' || operation, part.payloads, part.tenants,
            jsonb_build_object('table', told, 'operation', operation, 'trigger', TG_NAME));
    END LOOP;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION rota.watch_rows() FROM PUBLIC;

-- Trigger on a user's table, row by row: for watches that have a condition, which PostgreSQL only asks of single
-- rows. See watch_rows.
CREATE FUNCTION rota.watch_row() RETURNS trigger LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    operation constant text := lower(TG_OP);
    told      constant text := format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME);
    columns   constant text[] := nullif(TG_ARGV[2], '')::text[];
    old_row   jsonb;
    new_row   jsonb;
    lasting   jsonb;
BEGIN
    IF rota.is_plain_row(TG_RELID) THEN
        old_row := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END;
        new_row := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END;
        IF columns IS NOT NULL THEN
            old_row := (SELECT jsonb_object_agg(o.key, o.value) FROM jsonb_each(old_row) o WHERE o.key = ANY (columns));
            new_row := (SELECT jsonb_object_agg(n.key, n.value) FROM jsonb_each(new_row) n WHERE n.key = ANY (columns));
        END IF;
    ELSE
        IF TG_OP <> 'INSERT' THEN
            EXECUTE 'SELECT ' || rota.row_expression(TG_RELID, '($1)', columns) INTO old_row USING OLD;
        END IF;
        IF TG_OP <> 'DELETE' THEN
            EXECUTE 'SELECT ' || rota.row_expression(TG_RELID, '($1)', columns) INTO new_row USING NEW;
        END IF;
    END IF;
    lasting := coalesce(new_row, old_row);
    PERFORM FROM rota.emit(TG_ARGV[1] || '.' || operation,
        payload => rota.row_payload(TG_RELID, told, operation, old_row, new_row, (SELECT s.payload_bytes
        FROM rota.settings s)), tenant => left(coalesce(lasting ->> nullif(TG_ARGV[4], ''), TG_ARGV[3]), 200),
        source => jsonb_build_object('table', told, 'operation', operation, 'trigger', TG_NAME));
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION rota.watch_row() FROM PUBLIC;

-- Installs triggers that emit an event for each row that is written, in the writer's transaction: EVENT.insert,
-- EVENT.update, EVENT.delete, with {"table", "operation", "old", "new"}. For who owns the table. One for each statement
-- where all rows count, which costs bulk loads least; with a condition or columns to compare, one for each row that
-- fits. Returns the number of the watch: of the one that is there, if the table is watched in just this way, as a
-- second would double each event.
-- Called by: sql/events/watch.sql, users.
CREATE FUNCTION rota.watch_table(
    table_name text, operations text[] DEFAULT '{insert,update,delete}', update_of text[] DEFAULT NULL,
    condition text DEFAULT NULL, columns text[] DEFAULT NULL, event text DEFAULT NULL, tenant text DEFAULT '',
    tenant_column text DEFAULT NULL, actor text DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql VOLATILE SET jit = off SET lock_timeout = '5s' AS $$
#variable_conflict use_column
DECLARE
    target oid := rota.find_table(watch_table.table_name);
    found  record;
    watch  bigint := nextval('rota.watch_ids');
    same   bigint;
    wanted text[];
    prefix text;
    one    text;
    name   text;
    tests  text;
    made   jsonb := '{}';
    words  text;
BEGIN
    SELECT c.relkind, c.relowner, c.relpersistence, n.nspname, c.relname,
        format('%I.%I', n.nspname, c.relname) AS full_name, c.relnamespace = (SELECT j.relnamespace FROM pg_class j
            WHERE j.oid = 'rota.jobs'::regclass) AS is_ours
    INTO found FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = target;
    wanted := ARRAY(SELECT o FROM unnest('{insert,update,delete}'::text[]) o WHERE o = ANY (watch_table.operations));
    prefix := coalesce(watch_table.event, regexp_replace(CASE WHEN found.nspname = 'public' THEN ''
        ELSE found.nspname || '.' END || found.relname, '[\s*]', '_', 'g'));
    IF found.relkind NOT IN ('r', 'p') OR found.relpersistence = 't' OR found.is_ours
        OR found.nspname IN ('pg_catalog', 'information_schema', 'pg_toast') THEN
        RAISE EXCEPTION '% cannot be watched', found.full_name USING ERRCODE = 'RO002',
            HINT = 'Only permanent tables and partitioned tables can, and not those of the server or of Rota.';
    ELSIF NOT pg_has_role(found.relowner, 'USAGE') THEN
        RAISE EXCEPTION 'only "%", the owner of %, may watch it', pg_get_userbyid(found.relowner), found.full_name
            USING ERRCODE = 'RO002', HINT = 'Connect as that role, which also needs the privileges of a worker.';
    ELSIF wanted = '{}' OR cardinality(wanted) < cardinality(watch_table.operations) THEN
        RAISE EXCEPTION 'operations must be insert, update or delete, not %', watch_table.operations
            USING ERRCODE = 'RO002';
    ELSIF watch_table.update_of IS NOT NULL AND 'update' <> ALL (wanted) THEN
        RAISE EXCEPTION 'update_of requires the operation update'
            USING ERRCODE = 'RO002';
    ELSIF watch_table.update_of = '{}' OR watch_table.columns = '{}' THEN
        RAISE EXCEPTION 'columns and update_of must not be empty lists' USING ERRCODE = 'RO002';
    ELSIF prefix !~ '^\S+$' OR strpos(prefix, '*') > 0 OR length(prefix) > 190 THEN
        RAISE EXCEPTION 'event "%" must have 1 to 190 characters, no spaces and no *', prefix
            USING ERRCODE = 'RO002', HINT = 'Its events get this name, a dot and the operation: orders.insert.';
    ELSIF watch_table.tenant IS NULL OR length(watch_table.tenant) > 200 THEN
        RAISE EXCEPTION 'a tenant must have at most 200 characters, and cannot be NULL' USING ERRCODE = 'RO002';
    END IF;
    one := rota.missing_column(target, watch_table.columns || watch_table.update_of || watch_table.tenant_column);
    IF one IS NOT NULL THEN
        RAISE EXCEPTION '% has no column "%"', found.full_name, one USING ERRCODE = 'RO002';
    ELSIF watch_table.tenant_column <> ALL (watch_table.columns) THEN
        RAISE EXCEPTION 'the tenant is read from column "%", which is not among the chosen columns',
            watch_table.tenant_column USING ERRCODE = 'RO002';
    END IF;
    IF watch_table.condition IS NOT NULL THEN
        PERFORM rota.check_condition(watch_table.condition);
    END IF;
    SELECT w.id INTO same FROM rota.table_watches w
    WHERE w.relation = target AND (w.tenant, w.event, w.operations, w.update_of, w.columns, w.condition,
        w.tenant_column) IS NOT DISTINCT FROM (watch_table.tenant, prefix, wanted, watch_table.update_of,
        watch_table.columns, watch_table.condition, watch_table.tenant_column)
      AND NOT EXISTS (SELECT FROM jsonb_object_keys(w.triggers) k WHERE NOT EXISTS (SELECT FROM pg_trigger t
          WHERE t.tgrelid = target AND t.tgname = k))
    ORDER BY w.id LIMIT 1;
    IF same IS NOT NULL THEN
        RETURN same;
    END IF;
    FOREACH one IN ARRAY wanted LOOP
        name := format('rota_watch_%s_%s', watch, one);
        tests := concat_ws(' AND ', '(' || watch_table.condition || ')', CASE WHEN one = 'update' THEN
            (SELECT '(' || string_agg(format('OLD.%1$I IS DISTINCT FROM NEW.%1$I', u), ' OR ') || ')'
                FROM unnest(watch_table.update_of) u) END);
        BEGIN
            EXECUTE format('CREATE TRIGGER %I AFTER %s ON %s %s EXECUTE FUNCTION rota.%I(%L, %L, %L, %L, %L)', name,
                upper(one) || CASE WHEN one = 'update'
                    THEN coalesce((SELECT ' OF ' || string_agg(format('%I', u), ', ')
                    FROM unnest(watch_table.update_of) u), '')
                              ELSE '' END,
                found.full_name,
                CASE WHEN tests <> '' THEN format('FOR EACH ROW WHEN (%s)', tests) ELSE CASE one
                    WHEN 'insert' THEN 'REFERENCING NEW TABLE AS new_rows' WHEN 'delete'
                        THEN 'REFERENCING OLD TABLE AS old_rows'
                    ELSE 'REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows' END || ' FOR EACH STATEMENT' END,
                CASE WHEN tests <> '' THEN 'watch_row' ELSE 'watch_rows' END,
                watch, prefix, coalesce(watch_table.columns::text, ''), watch_table.tenant,
                coalesce(watch_table.tenant_column, ''));
        EXCEPTION
            WHEN lock_not_available THEN
                RAISE EXCEPTION '% is in use: its trigger could not be created within 5 seconds', found.full_name
                    USING ERRCODE = 'RO005', HINT = 'Try again when no long transaction uses the table.';
            WHEN OTHERS THEN
                GET STACKED DIAGNOSTICS words = MESSAGE_TEXT;
                RAISE EXCEPTION '% cannot be watched on %: %', found.full_name, one, words
                    USING ERRCODE = 'RO002',
                        HINT = 'A condition may use new and old; an insert has no old, a delete no new.';
        END;
        made := made || (SELECT jsonb_build_object(t.tgname, pg_get_triggerdef(t.oid)) FROM pg_trigger t
            WHERE t.tgrelid = target AND t.tgname = name);
    END LOOP;
    INSERT INTO rota.table_watches (tenant, id, relation, table_name, event, operations, update_of, columns, condition,
        tenant_column, triggers, created_by)
    VALUES (watch_table.tenant, watch, target, found.full_name, prefix, wanted, watch_table.update_of,
        watch_table.columns, watch_table.condition, watch_table.tenant_column, made,
        coalesce(watch_table.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user));
    PERFORM rota.write_audit(watch_table.actor, 'watch.created', 'watch', watch::text, NULL,
        jsonb_strip_nulls(jsonb_build_object(
        'table', found.full_name, 'event', prefix, 'operations', wanted, 'update_of', watch_table.update_of, 'columns',
        watch_table.columns, 'condition', watch_table.condition, 'tenant_column', watch_table.tenant_column)), NULL,
            watch_table.tenant);
    RETURN watch;
END $$;

-- Takes a watch and its triggers away; given a table, all of its watches. Answers their numbers.
-- Called by: sql/events/unwatch.sql, sql/testing/reset.sql, users.
CREATE FUNCTION rota.unwatch_table(table_name text DEFAULT NULL, watch bigint DEFAULT NULL, actor text DEFAULT NULL,
    reason text DEFAULT NULL)
RETURNS bigint[] LANGUAGE plpgsql VOLATILE SET jit = off SET lock_timeout = '5s' AS $$
#variable_conflict use_column
DECLARE
    one  record;
    name text;
    done bigint[] := '{}';
BEGIN
    IF num_nonnulls(unwatch_table.table_name, unwatch_table.watch) <> 1 THEN
        RAISE EXCEPTION 'pass either table_name or watch' USING ERRCODE = 'RO002';
    END IF;
    FOR one IN SELECT w.*, c.oid AS target, CASE WHEN c.oid IS NOT NULL
        THEN format('%I.%I', n.nspname, c.relname) END AS full_name FROM rota.table_watches w
               LEFT JOIN pg_class c ON c.oid = w.relation LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE w.id = unwatch_table.watch
                  OR w.table_name IN (unwatch_table.table_name, 'public.' || unwatch_table.table_name)
                  OR w.relation = rota.table_of(unwatch_table.table_name)
               ORDER BY w.id LOOP
        FOR name IN SELECT t.tgname FROM pg_trigger t WHERE t.tgrelid = one.target AND one.triggers ? t.tgname
            AND NOT t.tgisinternal LOOP
            BEGIN
                EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', name, one.full_name);
            EXCEPTION WHEN lock_not_available THEN
                RAISE EXCEPTION '% is in use: its trigger could not be dropped within 5 seconds', one.full_name
                    USING ERRCODE = 'RO005', HINT = 'Try again when no long transaction uses the table.';
            END;
        END LOOP;
        DELETE FROM rota.table_watches w WHERE w.tenant = one.tenant AND w.id = one.id;
        PERFORM rota.write_audit(unwatch_table.actor, 'watch.deleted', 'watch', one.id::text,
            jsonb_build_object('table', one.table_name, 'event', one.event,
            'operations', one.operations), NULL, unwatch_table.reason, one.tenant);
        done := done || one.id;
    END LOOP;
    IF done = '{}' THEN
        RAISE EXCEPTION '%', CASE WHEN unwatch_table.watch IS NOT NULL
            THEN format('there is no watch %s', unwatch_table.watch)
                                  ELSE format('%s is not watched', unwatch_table.table_name) END
            USING ERRCODE = 'RO021', HINT = 'rota.table_watches lists them.';
    END IF;
    RETURN done;
END $$;

-- The tables that are watched, and what is wrong where a watch no longer works.
-- Called by: sql/events/watches.sql, users.
CREATE FUNCTION rota.watches() RETURNS TABLE (
    id bigint, tenant text, table_name text, event text, operations text[], update_of text[], columns text[],
    condition text, tenant_column text, created_at timestamptz, created_by text, drift text[]
) LANGUAGE sql STABLE SET jit = off AS $$
    SELECT w.id, w.tenant, w.table_name, w.event, w.operations, w.update_of, w.columns, w.condition, w.tenant_column,
        w.created_at, w.created_by,
        CASE WHEN c.oid IS NULL THEN ARRAY['the table was dropped'] ELSE array_remove(ARRAY[
            CASE WHEN format('%I.%I', n.nspname, c.relname) <> w.table_name
                THEN format('the table was renamed to %I.%I', n.nspname, c.relname) END,
            (SELECT 'the table has no column ' || string_agg(format('%I', m), ', ')
                FROM unnest(w.columns || w.update_of || w.tenant_column) m
             WHERE rota.missing_column(c.oid, ARRAY[m]) IS NOT NULL)
        ] || ARRAY(
            SELECT CASE
                WHEN t.oid IS NULL THEN format('the trigger %s was dropped', k.key)
                WHEN t.tgenabled = 'D' THEN format('the trigger %s is disabled', k.key)
                WHEN f.pronamespace <> own.relnamespace OR f.proname NOT IN ('watch_row', 'watch_rows')
                    THEN format('the trigger %s calls another function', k.key)
                WHEN NOT f.prosecdef OR f.proowner <> own.relowner
                    THEN format('the function of the trigger %s was replaced', k.key)
                WHEN pg_get_triggerdef(t.oid) <> k.value AND format('%I.%I', n.nspname, c.relname) = w.table_name
                    THEN format('the trigger %s was changed', k.key)
            END
            FROM jsonb_each_text(w.triggers) k LEFT JOIN pg_trigger t ON t.tgrelid = c.oid AND t.tgname = k.key
                AND NOT t.tgisinternal
            LEFT JOIN pg_proc f ON f.oid = t.tgfoid ORDER BY k.key), NULL) END
    FROM rota.table_watches w
    CROSS JOIN (SELECT j.relnamespace, j.relowner FROM pg_class j WHERE j.oid = 'rota.jobs'::regclass) own
    LEFT JOIN pg_class c ON c.oid = w.relation AND c.relkind IN ('r', 'p')
    LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
    ORDER BY w.id
$$;

-- 22_tenants.sql

-- `tenants`: what differs from the defaults for one of them. Verbs: `set_tenant`, `pause_tenant`, `resume_tenant`,
-- `remove_tenant`. Quotas compare `tenant_depths` and `tenant_days` (`check_quota`), which are counted behind the
-- writers (`tenant_changes`). Deleting a tenant's data goes part by part (`delete_tenant_part`).

-- What is wrong with the name of a tenant; NULL: nothing. No slash, because tenant/name is one schedule in lists and
-- commands.
-- Called by: check_options, check_run_defaults, check_tenant, tenants.
CREATE FUNCTION rota.tenant_fault(name text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN length(name) NOT BETWEEN 1 AND 200 THEN 'must have 1 to 200 characters'
                WHEN name ~ '[\x01-\x1f\x7f]' THEN 'must not contain control characters'
                WHEN name ~ '/' THEN 'must not contain a slash'
                WHEN name ~ '^ | $' THEN 'must not start or end with a space' END
$$;

-- What somebody said about a tenant. Without a row it has the defaults.
CREATE TABLE rota.tenants (
    name                  text COLLATE "C" PRIMARY KEY CONSTRAINT tenants_name CHECK (rota.tenant_fault(name) IS NULL),
    weight                real NOT NULL DEFAULT 1 CONSTRAINT tenants_weight CHECK (weight >= 0.01 AND weight <= 1000),
    max_waiting           bigint CONSTRAINT tenants_max_waiting CHECK (max_waiting BETWEEN 0 AND 1000000000),
    max_runs_per_day      bigint CONSTRAINT tenants_max_runs_per_day
    CHECK (max_runs_per_day BETWEEN 0 AND 1000000000000),
    max_bytes_per_day     bigint CONSTRAINT tenants_max_bytes_per_day
    CHECK (max_bytes_per_day BETWEEN 0 AND 1000000000000000),
    retention_days        integer CONSTRAINT tenants_retention_days CHECK (retention_days BETWEEN 1 AND 36500),
    failed_retention_days integer CONSTRAINT tenants_failed_retention_days
    CHECK (failed_retention_days BETWEEN 1 AND 36500), is_paused             boolean NOT NULL DEFAULT false,
    paused_at             timestamptz,
    paused_by             text,
    pause_reason          text,
    paused_until          timestamptz,  -- when it resumes automatically; NULL: when somebody resumes it
    description           text NOT NULL DEFAULT '' CONSTRAINT tenants_description CHECK (length(description) <= 10000),
    metadata              jsonb NOT NULL DEFAULT '{}' CONSTRAINT tenants_metadata
    CHECK (jsonb_typeof(metadata) = 'object'), version               bigint NOT NULL DEFAULT 1,
    created_at            timestamptz NOT NULL DEFAULT rota.now(),
    updated_at            timestamptz NOT NULL DEFAULT rota.now(),
    CONSTRAINT tenants_pause CHECK (is_paused OR num_nonnulls(paused_at, paused_by, pause_reason, paused_until) = 0)
);
CREATE INDEX tenants_paused ON rota.tenants (paused_until) WHERE is_paused;
COMMENT ON TABLE rota.tenants
    IS 'Settings of tenants that differ from the defaults. A tenant without a row has the defaults.';

-- Which setting of a tenant is out of its range, in words; NULL: none.
-- Called by: set_tenant.
CREATE FUNCTION rota.setting_fault(settings jsonb, otherwise text) RETURNS text LANGUAGE sql IMMUTABLE
SET jit = off AS $$
    SELECT coalesce((
        SELECT format('%s must be %s, not %s', r.key, r.words, left((settings -> r.key)::text, 60))
        FROM (VALUES ('weight', 'a number from 0.01 to 1000', 0.01, 1e3),
            ('max_waiting', 'a whole number from 0 to 1000000000', 0, 1e9),
                     ('max_runs_per_day', 'a whole number from 0 to 1000000000000', 0, 1e12),
                     ('max_bytes_per_day', 'a whole number from 0 to 1000000000000000', 0, 1e15),
                     ('retention_days', 'a whole number from 1 to 36500', 1, 36500),
                     ('failed_retention_days', 'a whole number from 1 to 36500', 1, 36500))
             r (key, words, least, most)
        WHERE settings ? r.key AND settings -> r.key <> 'null'
          AND CASE WHEN jsonb_typeof(settings -> r.key) <> 'number' THEN true
                   ELSE NOT (settings ->> r.key)::numeric BETWEEN r.least AND r.most OR r.key <> 'weight'
                       AND (settings ->> r.key)::numeric % 1 <> 0 END
        LIMIT 1),
        CASE WHEN jsonb_typeof(settings -> 'metadata') NOT IN ('object', 'null') THEN 'metadata must be a JSON object'
             WHEN length(settings ->> 'description') > 10000 THEN 'description must have at most 10000 characters' END,
                 otherwise)
$$;

-- Refuses what cannot be the name of a tenant (RO002).
-- Called by: check_quota, check_schedule_tenant, delete_tenant_part, delete_tenant_traces, pause_tenant, set_tenant.
CREATE FUNCTION rota.check_tenant(name text) RETURNS void LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
BEGIN
    IF name IS NULL OR rota.tenant_fault(name) IS NOT NULL THEN
        RAISE EXCEPTION 'the name of a tenant %, not %',
            coalesce(rota.tenant_fault(name), 'must have 1 to 200 characters'),
            coalesce(to_json(left(name, 60))::text, 'NULL')
            USING ERRCODE = 'RO002', HINT = 'Use an ID or a short name, such as acme or customer-17.';
    END IF;
END $$;

-- Trigger: the tenant of a schedule has a name that a tenant can have.
CREATE FUNCTION rota.check_schedule_tenant() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    PERFORM rota.check_tenant(NEW.tenant);
    RETURN NEW;
END $$;
CREATE TRIGGER a_tenant BEFORE INSERT OR UPDATE OF tenant ON rota.schedules FOR EACH ROW
    WHEN (NEW.tenant <> '') EXECUTE FUNCTION rota.check_schedule_tenant();

-- Trigger: version and time of a change of a tenant, by plain SQL too.
CREATE FUNCTION rota.stamp_tenant() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF NEW.name <> OLD.name THEN
        RAISE EXCEPTION 'tenant "%" cannot be renamed: its runs and schedules refer to it by name', OLD.name
            USING ERRCODE = 'RO002';
    END IF;
    NEW.version := OLD.version + 1;
    NEW.updated_at := rota.now();
    RETURN NEW;
END $$;
CREATE TRIGGER tenants_stamp BEFORE UPDATE ON rota.tenants FOR EACH ROW EXECUTE FUNCTION rota.stamp_tenant();

-- Trigger: writes to the audit what was changed of a tenant.
CREATE FUNCTION rota.note_tenant() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    was   jsonb := CASE TG_OP WHEN 'INSERT' THEN NULL
        ELSE to_jsonb(OLD) - '{version,created_at,updated_at}'::text[] END;
    now   jsonb := CASE TG_OP WHEN 'DELETE' THEN NULL
        ELSE to_jsonb(NEW) - '{version,created_at,updated_at}'::text[] END;
    whose text := coalesce(now, was) ->> 'name';
    word  text := CASE WHEN TG_OP = 'DELETE' THEN 'removed'
                       WHEN now ->> 'is_paused' = 'true' AND (was IS NULL OR was ->> 'is_paused' = 'false'
                           OR was -> 'paused_until' <> now -> 'paused_until') THEN 'paused'
                       WHEN was ->> 'is_paused' = 'true' AND now ->> 'is_paused' = 'false' THEN 'resumed'
                           ELSE 'set' END;
BEGIN
    PERFORM rota.write_audit(NULL, 'tenant.' || word, 'tenant', whose,
        (SELECT jsonb_object_agg(o.key, o.value) FROM jsonb_each(was) o
            WHERE now IS NULL AND o.value <> 'null' OR now -> o.key <> o.value),
        (SELECT jsonb_object_agg(n.key, n.value) FROM jsonb_each(now) n
            WHERE was IS NULL AND n.value <> 'null' OR was -> n.key <> n.value),
        NULL, whose);
    -- Every worker looks at once.
    PERFORM pg_notify('rota', 'tenants');
    RETURN NULL;
END $$;
CREATE TRIGGER tenants_audit AFTER INSERT OR UPDATE OR DELETE ON rota.tenants FOR EACH ROW
    EXECUTE FUNCTION rota.note_tenant();

-- Changes what is named of a tenant's settings; null is the default. The row is made if there is none.
-- Called by: sql/tenants/set.sql, users.
-- Locks: rows.
CREATE FUNCTION rota.set_tenant(name text, settings jsonb, reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    known  text[] :=
        '{weight,max_waiting,max_runs_per_day,max_bytes_per_day,retention_days,failed_retention_days,description,'
        'metadata}';
    odd    text;
    usual  rota.tenants;
    wanted rota.tenants;
    was    text[];
BEGIN
    PERFORM rota.check_tenant(set_tenant.name);
    IF set_tenant.settings IS NULL OR jsonb_typeof(set_tenant.settings) <> 'object' THEN
        RAISE EXCEPTION 'the settings of tenant "%" must be a JSON object', set_tenant.name USING ERRCODE = 'RO002';
    END IF;
    SELECT k INTO odd FROM jsonb_object_keys(set_tenant.settings) k WHERE k <> ALL (known) LIMIT 1;
    IF odd IS NOT NULL THEN
        RAISE EXCEPTION 'unknown tenant setting "%"', odd
            USING ERRCODE = 'RO002', HINT = 'Choose from ' || array_to_string(known, ', ') || '.';
    END IF;
    was := rota.say_why(set_tenant.actor, set_tenant.reason);
    usual.weight := 1; usual.description := ''; usual.metadata := '{}';
    SELECT * INTO wanted FROM rota.tenants t WHERE t.name = set_tenant.name FOR UPDATE;
    IF NOT FOUND THEN
        wanted := usual;
    END IF;
    BEGIN
        wanted := jsonb_populate_record(wanted, (
            SELECT coalesce(jsonb_object_agg(s.key, CASE s.value WHEN 'null' THEN to_jsonb(usual) -> s.key
            ELSE s.value END), '{}')
                                                 FROM jsonb_each(set_tenant.settings) s));
        INSERT INTO rota.tenants AS t (name, weight, max_waiting, max_runs_per_day, max_bytes_per_day, retention_days,
            failed_retention_days, description, metadata)
        VALUES (set_tenant.name, wanted.weight, wanted.max_waiting, wanted.max_runs_per_day, wanted.max_bytes_per_day,
                wanted.retention_days, wanted.failed_retention_days, wanted.description, wanted.metadata)
        ON CONFLICT ON CONSTRAINT tenants_pkey DO UPDATE
            SET weight = excluded.weight, max_waiting = excluded.max_waiting,
            max_runs_per_day = excluded.max_runs_per_day,
            max_bytes_per_day = excluded.max_bytes_per_day, retention_days = excluded.retention_days,
            failed_retention_days = excluded.failed_retention_days, description = excluded.description,
            metadata = excluded.metadata
        WHERE (t.weight, t.max_waiting, t.max_runs_per_day, t.max_bytes_per_day, t.retention_days,
            t.failed_retention_days, t.description, t.metadata)
            IS DISTINCT FROM (excluded.weight, excluded.max_waiting, excluded.max_runs_per_day,
                excluded.max_bytes_per_day, excluded.retention_days,
                              excluded.failed_retention_days, excluded.description, excluded.metadata);
    EXCEPTION WHEN check_violation OR data_exception THEN
        RAISE EXCEPTION 'tenant "%": %', set_tenant.name, rota.setting_fault(set_tenant.settings, SQLERRM)
            USING ERRCODE = 'RO002';
    END;
    PERFORM rota.unsay(was);
END $$;

-- Sets a tenant back to the defaults. Its data stays.
-- Called by: sql/tenants/remove.sql, users.
-- Locks: rows.
CREATE FUNCTION rota.remove_tenant(name text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    was text[];
    old rota.tenants;
BEGIN
    SELECT * INTO old FROM rota.tenants t WHERE t.name = remove_tenant.name FOR UPDATE;
    IF old.name IS NULL THEN
        RAISE EXCEPTION 'tenant "%" has no settings', remove_tenant.name USING ERRCODE = 'RO030';
    ELSIF rota.tenant_is_paused(old) THEN
        RAISE EXCEPTION 'tenant "%" is paused', remove_tenant.name USING ERRCODE = 'RO005', HINT = 'Resume it first.';
    END IF;
    was := rota.say_why(remove_tenant.actor, remove_tenant.reason);
    DELETE FROM rota.tenants t WHERE t.name = remove_tenant.name;
    PERFORM rota.unsay(was);
END $$;

-- Holds a tenant's runs until it is resumed, or until that time. If it is paused already, a new end or reason replaces
-- the old one. Returns how many runs it held immediately; workers hold the others, and new ones. NULL: nothing
-- differed, and nothing was written.
-- Called by: sql/tenants/pause.sql, users.
CREATE FUNCTION rota.pause_tenant(name text, reason text DEFAULT NULL, until timestamptz DEFAULT NULL,
    actor text DEFAULT NULL)
RETURNS integer LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    who   text := coalesce(pause_tenant.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    clock timestamptz := rota.now();
    was   text[];
    is_new boolean;
BEGIN
    PERFORM rota.check_tenant(pause_tenant.name);
    IF pause_tenant.until <= clock THEN
        RAISE EXCEPTION 'tenant "%": the end of a pause must be in the future, not %', pause_tenant.name,
            pause_tenant.until USING ERRCODE = 'RO002';
    END IF;
    was := rota.say_why(who, pause_tenant.reason);
    INSERT INTO rota.tenants AS t (name, is_paused, paused_at, paused_by, pause_reason, paused_until)
    VALUES (pause_tenant.name, true, clock, who, pause_tenant.reason, pause_tenant.until)
    ON CONFLICT ON CONSTRAINT tenants_pkey DO UPDATE SET is_paused = true, paused_by = excluded.paused_by,
        paused_until = excluded.paused_until,
        paused_at = CASE WHEN rota.tenant_is_paused(t) THEN t.paused_at ELSE excluded.paused_at END,
        pause_reason = CASE WHEN rota.tenant_is_paused(t) THEN coalesce(excluded.pause_reason, t.pause_reason)
            ELSE excluded.pause_reason END
    WHERE NOT rota.tenant_is_paused(t) OR t.paused_until IS DISTINCT FROM excluded.paused_until
       OR t.pause_reason IS DISTINCT FROM coalesce(excluded.pause_reason, t.pause_reason);
    is_new := FOUND;
    PERFORM rota.unsay(was);
    RETURN CASE WHEN is_new THEN rota.hold_runs_of(pause_tenant.name, 1000) END;
END $$;

-- A pause whose time is over counts as none, before anybody has ended it.
-- Called by: many.
CREATE FUNCTION rota.tenant_is_paused(t rota.tenants) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT t.is_paused AND (t.paused_until IS NULL OR t.paused_until > rota.now())
$$;

-- Frees a tenant's runs; returns how many it freed at once. Workers free the rest. NULL: it was not paused, and
-- nothing was written.
-- Called by: sql/tenants/resume.sql, users.
CREATE FUNCTION rota.resume_tenant(name text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    was text[];
    is_new boolean;
BEGIN
    was := rota.say_why(resume_tenant.actor, resume_tenant.reason);
    UPDATE rota.tenants t SET is_paused = false, paused_at = NULL, paused_by = NULL, pause_reason = NULL,
        paused_until = NULL
    WHERE t.name = resume_tenant.name AND rota.tenant_is_paused(t);
    is_new := FOUND;
    PERFORM rota.unsay(was);
    RETURN CASE WHEN is_new THEN rota.free_runs_of(resume_tenant.name, 1000) END;
END $$;

-- Holds the ready runs of a paused tenant, so many at most; limits get their slots back.
-- Called by: pause_tenant, tend_pauses.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.hold_runs_of(of_tenant text, max_runs integer) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET plan_cache_mode = force_custom_plan SET jit = off SET lock_timeout = '5s' AS $$
DECLARE
    moved integer;
BEGIN
    WITH ready AS MATERIALIZED (
        SELECT r.id, r.slots FROM rota.busy_queues() AS q (name)
        CROSS JOIN LATERAL (SELECT r.id, r.slots FROM rota.open_runs r
                            WHERE r.is_ready AND r.worker IS NULL AND r.queue = q.name AND r.tenant = of_tenant
                            ORDER BY r.priority, r.seq LIMIT max_runs FOR UPDATE SKIP LOCKED) r
        LIMIT max_runs
    ), limited AS MATERIALIZED (
        SELECT l.id, l.slots FROM rota.open_runs l WHERE l.held_by = 'limit' AND l.tenant = of_tenant AND l.tenant <> ''
        ORDER BY l.seq LIMIT max_runs FOR UPDATE SKIP LOCKED
    ), apart AS MATERIALIZED (
        SELECT s.id, s.slots FROM rota.open_runs s WHERE s.held_by = 'suspect' AND s.tenant = of_tenant LIMIT max_runs
        FOR UPDATE SKIP LOCKED
    ), chosen AS MATERIALIZED (
        SELECT * FROM ready UNION ALL SELECT * FROM limited UNION ALL SELECT * FROM apart LIMIT max_runs
    ), held AS (
        UPDATE rota.open_runs o SET held_by = 'tenant', held_at = rota.now(), slots = NULL
        WHERE o.id = ANY (ARRAY(SELECT c.id FROM chosen c)) RETURNING o.id
    ), released AS (
        INSERT INTO rota.limit_releases (key, amount)
        SELECT k, count(*) FROM chosen c CROSS JOIN LATERAL unnest(c.slots) k WHERE c.slots IS NOT NULL GROUP BY k
    )
    SELECT count(*) INTO moved FROM held;
    PERFORM rota.wake_admission() WHERE moved > 0 AND EXISTS (SELECT FROM rota.settings s WHERE s.has_limits);
    RETURN moved;
END $$;

-- Frees the runs that the pause of a tenant held, so many at most. They keep their place in the line; one under a
-- limit waits for its admission next.
-- Called by: resume_tenant, tend_pauses.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.free_runs_of(of_tenant text, max_runs integer) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET plan_cache_mode = force_custom_plan SET jit = off SET lock_timeout = '5s' AS $$
DECLARE
    touched text[];
    freed   integer;
BEGIN
    -- They keep their place in the line.
    WITH freed AS (
        UPDATE rota.open_runs o
        SET held_by = CASE WHEN o.limit_keys IS NOT NULL THEN 'limit' WHEN o.is_suspect THEN 'suspect' END,
            limit_key = o.limit_keys[1],
            held_at = NULL, enqueued_at = clock_timestamp()
        WHERE o.ctid = ANY (ARRAY(SELECT q.ctid FROM rota.open_runs q
            WHERE q.held_by = 'tenant' AND q.tenant = of_tenant
                                  ORDER BY q.seq LIMIT max_runs FOR UPDATE SKIP LOCKED))
        RETURNING o.queue
    )
    SELECT count(*), array_agg(DISTINCT queue) INTO freed, touched FROM freed;
    PERFORM rota.wake(coalesce(touched, '{}'));
    PERFORM rota.wake_admission() WHERE freed > 0 AND EXISTS (SELECT FROM rota.settings s WHERE s.has_limits);
    RETURN freed;
END $$;

-- One turn of a worker: ends pauses that are over, holds what has come for those that are paused, frees what was held
-- for the others. Returns how many runs it moved, and whether any tenant wants another look soon.
-- Called by: tend_tenants.
-- Locks: "tenants" if it is free, rows that nobody else has locked.
CREATE FUNCTION rota.tend_pauses(max_runs integer, OUT moved integer, OUT is_wanted boolean)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off SET lock_timeout = '5s' AS $$
DECLARE
    clock timestamptz := rota.now();
    one   record;
    whose text := '';
    was   text[];
BEGIN
    moved := 0;
    is_wanted := EXISTS (SELECT FROM rota.tenants t WHERE t.is_paused) OR EXISTS (SELECT FROM rota.open_runs o
        WHERE o.held_by = 'tenant');
    IF NOT is_wanted OR NOT rota.try_lock('tenants') THEN
        RETURN;
    END IF;
    FOR one IN SELECT t.name, t.paused_until FROM rota.tenants t WHERE t.is_paused AND t.paused_until <= clock
        ORDER BY t.name FOR UPDATE SKIP LOCKED LOOP
        was := rota.say_why('rota', 'the pause ended');
        UPDATE rota.tenants t SET is_paused = false, paused_at = NULL, paused_by = NULL, pause_reason = NULL,
            paused_until = NULL WHERE t.name = one.name;
        PERFORM rota.unsay(was);
    END LOOP;
    FOR one IN SELECT t.name FROM rota.tenants t WHERE t.is_paused AND rota.tenant_is_paused(t) ORDER BY t.name LOOP
        moved := moved + rota.hold_runs_of(one.name, max_runs - moved);
        EXIT WHEN moved >= max_runs;
    END LOOP;
    WHILE moved < max_runs LOOP
        -- From tenant to tenant by the index, not over all that they have.
        SELECT o.tenant INTO whose FROM rota.open_runs o WHERE o.held_by = 'tenant' AND o.tenant > whose
        ORDER BY o.tenant LIMIT 1;
        EXIT WHEN whose IS NULL;
        CONTINUE WHEN EXISTS (SELECT FROM rota.tenants t WHERE t.name = whose AND rota.tenant_is_paused(t));
        moved := moved + rota.free_runs_of(whose, max_runs - moved);
    END LOOP;
END $$;

-- Asked with each enqueue that names a tenant: refuses a name that none can have, and what is over its quota
-- (RO031). What it compares with is about a second old, and what it counts is appended: no two enqueues wait for one
-- another.
-- Called by: enqueue_batch, enqueue_many, enqueue_run, users.
CREATE FUNCTION rota.check_quota(tenant text, runs bigint DEFAULT 1, bytes bigint DEFAULT 0) RETURNS void
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
DECLARE
    today date := (rota.now() AT TIME ZONE 'UTC')::date;
    q     record;
    fault text;
    hint  text;
BEGIN
    PERFORM rota.check_tenant(check_quota.tenant);
    SELECT t.max_waiting, t.max_runs_per_day, t.max_bytes_per_day, coalesce(d.waiting, 0) AS waiting,
           coalesce(y.enqueued, 0) AS enqueued, coalesce(y.bytes, 0) AS bytes INTO q
    FROM rota.tenants t LEFT JOIN rota.tenant_depths d ON d.tenant = t.name LEFT JOIN rota.tenant_days y
        ON y.tenant = t.name AND y.day = today
    WHERE t.name = check_quota.tenant AND num_nonnulls(t.max_waiting, t.max_runs_per_day, t.max_bytes_per_day) > 0;
    IF NOT FOUND THEN
        RETURN;
    ELSIF q.waiting + check_quota.runs > q.max_waiting THEN
        fault := format('tenant "%s" has %s waiting, and its quota is %s', check_quota.tenant,
            rota.plural_words(q.waiting, 'run'), rota.number_words(q.max_waiting));
        hint := 'Retry when some have ended, or raise max_waiting of the tenant.';
    ELSIF q.enqueued + check_quota.runs > q.max_runs_per_day THEN
        fault := format('tenant "%s" has enqueued %s today, and its quota is %s per day', check_quota.tenant,
            rota.plural_words(q.enqueued, 'run'), rota.number_words(q.max_runs_per_day));
        hint := 'Retry after 00:00 UTC, or raise max_runs_per_day of the tenant.';
    ELSIF q.bytes + check_quota.bytes > q.max_bytes_per_day THEN
        fault := format('tenant "%s" has enqueued payloads of %s today, and its quota is %s per day',
            check_quota.tenant, rota.plural_words(q.bytes, 'byte'), rota.number_words(q.max_bytes_per_day));
        hint := 'Retry after 00:00 UTC, or raise max_bytes_per_day of the tenant.';
    ELSE
        INSERT INTO rota.tenant_changes (tenant, day, enqueued, bytes)
        SELECT check_quota.tenant, today, check_quota.runs, check_quota.bytes
        WHERE num_nonnulls(q.max_runs_per_day, q.max_bytes_per_day) > 0;
        RETURN;
    END IF;
    RAISE EXCEPTION '%', fault USING ERRCODE = 'RO031', HINT = hint;
END $$;

-- What waits and runs of each tenant.
CREATE TABLE rota.tenant_depths (
    tenant    text COLLATE "C" PRIMARY KEY,
    blocked   bigint NOT NULL DEFAULT 0,
    scheduled bigint NOT NULL DEFAULT 0,
    queued    bigint NOT NULL DEFAULT 0,
    held      bigint NOT NULL DEFAULT 0,  -- of the queued ones
    running   bigint NOT NULL DEFAULT 0,
    waiting   bigint NOT NULL DEFAULT 0,  -- what quotas compare: of a tenant that has one it is counted every second
    oldest_at timestamptz
);
COMMENT ON TABLE rota.tenant_depths IS 'The last count of waiting and running runs by tenant.';

-- One row: when that was counted, and how long it took.
CREATE TABLE rota.tenant_marks (
    is_only    boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    counted_at timestamptz NOT NULL,
    took_ms    double precision NOT NULL
);
COMMENT ON TABLE rota.tenant_marks IS 'When the runs of tenants were last counted, and how long that took.';
INSERT INTO rota.tenant_marks VALUES (true, '2000-01-01', 0);

-- What each tenant did by day, for quotas and statistics.
CREATE TABLE rota.tenant_days (
    tenant    text COLLATE "C" NOT NULL,
    day       date NOT NULL,              -- UTC
    enqueued  bigint NOT NULL DEFAULT 0,  -- of tenants that have a quota by the day
    bytes     bigint NOT NULL DEFAULT 0,
    succeeded bigint NOT NULL DEFAULT 0,  -- attempts
    failed    bigint NOT NULL DEFAULT 0,
    other     bigint NOT NULL DEFAULT 0,  -- cancelled, snoozed
    seconds   double precision NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, day)
) WITH (fillfactor = 70);
CREATE INDEX tenant_days_day ON rota.tenant_days (day);
COMMENT ON TABLE rota.tenant_days IS 'What each tenant enqueued and how its attempts ended, by day.';

-- What has come since: appended, so that enqueues of one tenant do not wait for one another.
CREATE TABLE rota.tenant_changes (
    tenant    text COLLATE "C" NOT NULL,
    day       date NOT NULL DEFAULT (rota.now() AT TIME ZONE 'UTC')::date,
    enqueued  bigint NOT NULL DEFAULT 0,
    bytes     bigint NOT NULL DEFAULT 0,
    succeeded bigint NOT NULL DEFAULT 0,
    failed    bigint NOT NULL DEFAULT 0,
    other     bigint NOT NULL DEFAULT 0,
    seconds   double precision NOT NULL DEFAULT 0
);
COMMENT ON TABLE rota.tenant_changes IS 'Changes that are not yet added to tenant_days.';

-- Counts what waits of each tenant that has a max_waiting, up to one more than that: check_quota compares. Every
-- second, so it must stay cheap.
-- Called by: tend_tenants.
CREATE FUNCTION rota.count_waiting() RETURNS void LANGUAGE plpgsql VOLATILE SET enable_seqscan = off
SET enable_bitmapscan = off SET jit = off SET lock_timeout = '5s' AS $$
DECLARE
    one   record;
    found bigint;
BEGIN
    FOR one IN SELECT t.name, t.max_waiting FROM rota.tenants t WHERE t.max_waiting IS NOT NULL ORDER BY t.name LOOP
        SELECT count(*) INTO found FROM (
            SELECT FROM rota.open_runs o WHERE o.tenant = one.name AND o.tenant <> '' AND o.state <> 'running'
            LIMIT one.max_waiting + 1) w;
        INSERT INTO rota.tenant_depths AS d (tenant, waiting) VALUES (one.name, found)
        ON CONFLICT (tenant) DO UPDATE SET waiting = excluded.waiting WHERE d.waiting <> excluded.waiting;
    END LOOP;
END $$;

-- Counts what waits and runs by tenant, as often as it is worth it: a count that took long is not made again soon.
-- Called by: tend_tenants.
CREATE FUNCTION rota.count_tenants(max_age_seconds double precision) RETURNS boolean LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off SET lock_timeout = '5s' AS $$
DECLARE
    began timestamptz := clock_timestamp();
BEGIN
    IF NOT EXISTS (SELECT FROM rota.tenant_marks m
                   WHERE m.counted_at <= began - make_interval(secs => greatest(max_age_seconds,
                       least(m.took_ms / 20, 300)))
                      OR m.counted_at > began + interval '1 minute') THEN
        RETURN false;
    END IF;
    WITH counted AS MATERIALIZED (
        SELECT o.tenant, count(*) FILTER (WHERE o.state = 'blocked') AS blocked,
               count(*) FILTER (WHERE o.state = 'scheduled') AS scheduled,
               count(*) FILTER (WHERE o.state = 'queued') AS queued,
               count(*) FILTER (WHERE o.held_by IS NOT NULL) AS held,
               count(*) FILTER (WHERE o.state = 'running') AS running,
               count(*) FILTER (WHERE o.state <> 'running') AS waiting,
               min(o.enqueued_at) FILTER (WHERE o.state = 'queued' AND o.held_by IS NULL) AS oldest_at
        FROM rota.open_runs o WHERE o.tenant <> '' GROUP BY o.tenant
    ), gone AS (
        DELETE FROM rota.tenant_depths d WHERE NOT EXISTS (SELECT FROM counted c WHERE c.tenant = d.tenant)
    )
    INSERT INTO rota.tenant_depths AS d (tenant, blocked, scheduled, queued, held, running, waiting, oldest_at)
    SELECT c.tenant, c.blocked, c.scheduled, c.queued, c.held, c.running, c.waiting, c.oldest_at FROM counted c
    ON CONFLICT (tenant) DO UPDATE SET blocked = excluded.blocked, scheduled = excluded.scheduled,
        queued = excluded.queued, held = excluded.held,
        running = excluded.running, waiting = excluded.waiting, oldest_at = excluded.oldest_at
    WHERE (d.blocked, d.scheduled, d.queued, d.held, d.running, d.waiting, d.oldest_at) IS DISTINCT FROM
          (excluded.blocked, excluded.scheduled, excluded.queued, excluded.held, excluded.running, excluded.waiting,
              excluded.oldest_at);
    UPDATE rota.tenant_marks SET counted_at = began, took_ms = extract(epoch FROM clock_timestamp() - began) * 1000;
    RETURN true;
END $$;

-- Moves what was appended to rota.tenant_changes into the days of the tenants. Sorted, like every writer of many
-- rows.
-- Called by: tend_tenants.
CREATE FUNCTION rota.fold_tenants() RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off SET lock_timeout = '5s' AS $$
BEGIN
    WITH gone AS (
        DELETE FROM rota.tenant_changes RETURNING tenant, day, enqueued, bytes, succeeded, failed, other, seconds
    )
    INSERT INTO rota.tenant_days AS d (tenant, day, enqueued, bytes, succeeded, failed, other, seconds)
    SELECT tenant, day, sum(enqueued), sum(bytes), sum(succeeded), sum(failed), sum(other), sum(seconds)
    FROM gone GROUP BY tenant, day ORDER BY tenant, day
    ON CONFLICT (tenant, day) DO UPDATE SET enqueued = d.enqueued + excluded.enqueued, bytes = d.bytes + excluded.bytes,
        succeeded = d.succeeded + excluded.succeeded, failed = d.failed + excluded.failed,
        other = d.other + excluded.other,
        seconds = d.seconds + excluded.seconds;
END $$;

-- One turn of a worker about tenants: pauses, quotas, counts. Returns how many runs it held or freed, and after how
-- many seconds somebody should look again; NULL: nobody is in a hurry. Where no run has a tenant, it costs three
-- looks at empty indexes.
-- Called by: sql/tenants/tend.sql.
-- Locks: "tenants" if it is free.
CREATE FUNCTION rota.tend_tenants(max_runs integer, OUT moved integer, OUT next_seconds double precision)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off SET lock_timeout = '5s' AS $$
DECLARE
    began   timestamptz := clock_timestamp();
    pauses  record;
    has_max boolean := EXISTS (SELECT FROM rota.tenants t
        WHERE num_nonnulls(t.max_waiting, t.max_runs_per_day, t.max_bytes_per_day) > 0);
BEGIN
    SELECT * INTO pauses FROM rota.tend_pauses(max_runs);
    moved := pauses.moved;
    IF pauses.is_wanted OR has_max THEN
        next_seconds := 1;
    END IF;
    IF NOT (has_max OR EXISTS (SELECT FROM rota.tenant_changes) OR EXISTS (SELECT FROM rota.open_runs o
        WHERE o.tenant <> '')
            OR EXISTS (SELECT FROM rota.tenant_depths)) OR NOT rota.try_lock('tenants') THEN
        RETURN;
    END IF;
    PERFORM rota.fold_tenants();
    PERFORM rota.count_tenants(4);
    IF has_max THEN
        PERFORM rota.count_waiting();
        -- At most a tenth of somebody's time goes into it.
        next_seconds := greatest(next_seconds, 10 * extract(epoch FROM clock_timestamp() - began));
    END IF;
END $$;

-- Removes runs of one tenant that ended before an instant, with attempts and lines, so many at most. Partitions of
-- later days are not looked at.
-- Called by: delete_tenant_part, sql/retention/prune_tenant.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.prune_tenant(of_tenant text, of_states text[], before_at timestamptz, max_runs integer)
RETURNS integer LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET plan_cache_mode = force_custom_plan
SET jit = off AS $$
DECLARE
    ids   bigint[];
    since timestamptz;
    first timestamptz;
    last  timestamptz;
BEGIN
    SELECT array_agg(p.id), min(p.created_at), min(p.finished_at), max(p.finished_at) INTO ids, since, first, last
    FROM (SELECT r.id, r.created_at, r.finished_at FROM rota.ended_runs r
          WHERE r.tenant = of_tenant AND r.tenant <> '' AND r.state = ANY (of_states) AND r.finished_at < before_at
          ORDER BY r.id LIMIT max_runs FOR UPDATE SKIP LOCKED) p;
    IF ids IS NULL THEN
        RETURN 0;
    END IF;
    DELETE FROM rota.ended_runs r WHERE r.id = ANY (ids) AND r.finished_at BETWEEN first AND last;
    PERFORM rota.delete_traces(ids, least(since, rota.created_after((SELECT min(i) FROM unnest(ids) i))));
    RETURN cardinality(ids);
END $$;

-- Deletes the data of a tenant, part by part and so many rows at a time: `part` is one of those that
-- store/tenants/delete.py lists, in its order. What its operators did stays in the audit. Runs that a worker has are
-- left; whoever deletes sees to them first.
-- Called by: sql/tenants/delete_part.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.delete_tenant_part(of_tenant text, part text, max_rows integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET plan_cache_mode = force_custom_plan SET jit = off
SET lock_timeout = '5s' AS $$
DECLARE
    ids     bigint[];
    removed bigint;
BEGIN
    PERFORM rota.check_tenant(of_tenant);
    CASE part
    WHEN 'schedules' THEN
        -- The triggers remember them as deleted, by their numbers, until their ledgers are gone.
        DELETE FROM rota.schedules s WHERE s.id = ANY (ARRAY(
            SELECT o.id FROM rota.schedules o WHERE o.tenant = of_tenant ORDER BY o.name LIMIT max_rows
            FOR UPDATE SKIP LOCKED));
    WHEN 'open_runs' THEN
        SELECT array_agg(r.id) INTO ids FROM (
            SELECT o.id FROM rota.open_runs o WHERE o.tenant = of_tenant AND o.tenant <> '' AND o.state <> 'running'
            ORDER BY o.id LIMIT max_rows FOR UPDATE SKIP LOCKED) r;
        IF ids IS NULL THEN
            RETURN 0;
        END IF;
        INSERT INTO rota.limit_releases (key, amount)
        SELECT k, count(*) FROM rota.open_runs o CROSS JOIN LATERAL unnest(o.slots) k WHERE o.id = ANY (ids) GROUP BY k;
        DELETE FROM rota.open_runs o WHERE o.id = ANY (ids);
        GET DIAGNOSTICS removed = ROW_COUNT;
        DELETE FROM rota.cancel_requests c WHERE c.run_id = ANY (ids);
        PERFORM rota.delete_traces(ids, coalesce(rota.created_after((SELECT min(i) FROM unnest(ids) i)), '-infinity'));
        RETURN removed;
    WHEN 'ended_runs' THEN
        SELECT array_agg(r.id) INTO ids FROM (
            SELECT e.id FROM rota.ended_runs e WHERE e.tenant = of_tenant AND e.tenant <> '' ORDER BY e.id
            LIMIT max_rows) r;
        DELETE FROM rota.handled_runs h WHERE h.run_id = ANY (ids);
        RETURN rota.prune_tenant(of_tenant, '{succeeded,failed,cancelled}', 'infinity', max_rows);
    WHEN 'keys' THEN
        DELETE FROM rota.keys k WHERE k.ctid = ANY (ARRAY(SELECT o.ctid FROM rota.keys o WHERE o.tenant = of_tenant
            LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'events' THEN
        DELETE FROM rota.events e USING (SELECT o.name, o.id, o.at FROM rota.events o WHERE o.tenant = of_tenant
            LIMIT max_rows) g
        WHERE e.tenant = of_tenant AND e.name = g.name AND e.id = g.id AND e.at = g.at;
    WHEN 'event_keys' THEN
        DELETE FROM rota.event_keys k WHERE k.ctid = ANY (ARRAY(SELECT o.ctid FROM rota.event_keys o
            WHERE o.tenant = of_tenant LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'limits' THEN
        DELETE FROM rota.limits l WHERE l.tenant = of_tenant;
    WHEN 'limit_slots' THEN
        DELETE FROM rota.limit_slots s WHERE s.ctid = ANY (ARRAY(SELECT o.ctid FROM rota.limit_slots o
            WHERE o.tenant = of_tenant LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'limit_releases' THEN
        DELETE FROM rota.limit_releases r WHERE r.tenant = of_tenant;
    WHEN 'limit_repairs' THEN
        DELETE FROM rota.limit_repairs r WHERE r.tenant = of_tenant;
    WHEN 'hook_refusals' THEN
        DELETE FROM rota.hook_refusals r WHERE r.ctid = ANY (ARRAY(SELECT o.ctid FROM rota.hook_refusals o
            WHERE o.tenant = of_tenant LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'ledger' THEN
        -- Of one schedule after the other, by the key.
        DELETE FROM rota.ledger l USING (
            SELECT o.schedule_id, o.nominal_at FROM rota.deleted_schedules d
            CROSS JOIN LATERAL (SELECT w.schedule_id, w.nominal_at FROM rota.ledger w
                WHERE w.schedule_id = d.schedule_id LIMIT max_rows) o
            WHERE d.tenant = of_tenant LIMIT max_rows) g
        WHERE l.schedule_id = g.schedule_id AND l.nominal_at = g.nominal_at;
    WHEN 'backfill_times' THEN
        DELETE FROM rota.backfill_times t USING (
            SELECT o.backfill_id, o.nominal_at FROM rota.deleted_schedules d
            JOIN rota.backfills b ON b.schedule_id = d.schedule_id
            JOIN rota.backfill_times o ON o.backfill_id = b.id WHERE d.tenant = of_tenant LIMIT max_rows) g
        WHERE t.backfill_id = g.backfill_id AND t.nominal_at = g.nominal_at;
    WHEN 'backfills' THEN
        DELETE FROM rota.backfills b WHERE b.id = ANY (ARRAY(
            SELECT o.id FROM rota.deleted_schedules d JOIN rota.backfills o ON o.schedule_id = d.schedule_id
            WHERE d.tenant = of_tenant LIMIT max_rows));
    WHEN 'schedule_days' THEN
        DELETE FROM rota.schedule_days y USING (
            SELECT o.schedule_id, o.day FROM rota.deleted_schedules d JOIN rota.schedule_days o
                ON o.schedule_id = d.schedule_id
            WHERE d.tenant = of_tenant LIMIT max_rows) g
        WHERE y.schedule_id = g.schedule_id AND y.day = g.day;
    WHEN 'init_runs' THEN
        DELETE FROM rota.init_runs i USING (
            SELECT o.schedule_id, o.marker FROM rota.deleted_schedules d
            JOIN rota.init_runs o ON o.schedule_id = d.schedule_id
            WHERE d.tenant = of_tenant LIMIT max_rows) g
        WHERE i.schedule_id = g.schedule_id AND i.marker = g.marker;
    WHEN 'deleted_schedules' THEN
        DELETE FROM rota.deleted_schedules d WHERE d.ctid = ANY (ARRAY(SELECT o.ctid FROM rota.deleted_schedules o
            WHERE o.tenant = of_tenant LIMIT max_rows));
    WHEN 'dropped_schedules' THEN
        DELETE FROM rota.dropped_schedules d WHERE d.tenant = of_tenant;
    WHEN 'tenant_days' THEN
        DELETE FROM rota.tenant_days y WHERE y.tenant = of_tenant;
    WHEN 'tenant_changes' THEN
        DELETE FROM rota.tenant_changes c WHERE c.tenant = of_tenant;
    WHEN 'tenant_depths' THEN
        DELETE FROM rota.tenant_depths d WHERE d.tenant = of_tenant;
    END CASE;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;

-- Deletes attempts and lines of a tenant in one stretch of time, which have no index by tenant: what is left of runs
-- that are gone already.
-- Called by: sql/tenants/delete_traces.sql.
CREATE FUNCTION rota.delete_tenant_traces(of_tenant text, from_at timestamptz, to_at timestamptz) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_custom_plan SET jit = off AS $$
DECLARE
    attempts bigint;
    lines    bigint;
BEGIN
    PERFORM rota.check_tenant(of_tenant);
    DELETE FROM rota.past_attempts p WHERE p.tenant = of_tenant AND p.finished_at >= from_at AND p.finished_at < to_at;
    GET DIAGNOSTICS attempts = ROW_COUNT;
    DELETE FROM rota.logs l WHERE l.tenant = of_tenant AND l.at >= from_at AND l.at < to_at;
    GET DIAGNOSTICS lines = ROW_COUNT;
    RETURN attempts + lines;
END $$;

-- The end of deleting a tenant: the settings go, and the audit says what was deleted.
-- Called by: sql/tenants/forget.sql.
CREATE FUNCTION rota.forget_tenant(of_tenant text, removed jsonb, reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    was text[] := rota.say_why(forget_tenant.actor, forget_tenant.reason);
BEGIN
    DELETE FROM rota.tenants t WHERE t.name = of_tenant;
    PERFORM rota.write_audit(NULL, 'tenant.deleted', 'tenant', of_tenant, removed, NULL, NULL, of_tenant);
    PERFORM rota.unsay(was);
END $$;

-- 23_limits.sql

-- How many runs may start: `limits` of kind concurrency, rate or sequence. A run under a limit carries its keys
-- (`limit_keys_of`) and waits, held, until 24_admission has given it all of them. `limit_slots` is what each key has
-- in use, `limit_releases` what was given back and is not counted yet. Verbs: `set_limit`, `remove_limit`,
-- `unblock_limit`.

-- One row for each limit. `jobs` are those that it holds; NULL: all.
CREATE TABLE rota.limits (
    -- whose runs it holds; '': those of all tenants, together
    tenant         text COLLATE "C" NOT NULL DEFAULT '',
    name           text COLLATE "C" NOT NULL,
    id             bigint GENERATED BY DEFAULT AS IDENTITY UNIQUE,  -- another one when it counts something else
    kind           text COLLATE "C" NOT NULL,
    cap            integer NOT NULL,
    period_seconds double precision,                                -- of a rate
    burst          integer,                                         -- of a rate: at most so many at one moment
    -- of a rate: the field of the payload that says what a run costs; NULL: 1
    cost           text,
    next_after     text COLLATE "C",                                -- of a sequence: success or end
    on_full        text COLLATE "C" NOT NULL DEFAULT 'wait',
    queue          text COLLATE "C",                                -- NULL: whatever the queue is
    jobs           text[] COLLATE "C",                              -- NULL: whatever the job is
    schedule       text COLLATE "C",                                -- NULL: whatever started it
    key            text,                                            -- a template; NULL: one counter for all
    code           jsonb NOT NULL DEFAULT '{}',                     -- what the code declares, by job
    -- an operator's values, which the code does not touch
    is_edited      boolean NOT NULL DEFAULT false,
    -- up to this run, those from before it are looked at; NULL: all are
    adopted_id     bigint,
    version        integer NOT NULL DEFAULT 1,
    created_at     timestamptz NOT NULL DEFAULT rota.now(),
    updated_at     timestamptz NOT NULL DEFAULT rota.now(),
    updated_by     text NOT NULL DEFAULT session_user,
    PRIMARY KEY (tenant, name)
);
COMMENT ON TABLE rota.limits
    IS 'Rules that restrict how many runs start: concurrently, per period, or one after another.';

-- One counter for each key of a limit. Only admission changes it, under its lock.
CREATE TABLE rota.limit_slots (
    tenant     text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,  -- kind, limit and value: c17:customer:5, or c17: without one
    in_use     integer NOT NULL DEFAULT 0,
    admitted   bigint NOT NULL DEFAULT 0,  -- ever
    -- of a rate: tokens of the last period, and when they were spent at the latest
    spent      integer[] NOT NULL DEFAULT '{}',
    spent_at   timestamptz[] NOT NULL DEFAULT '{}',
    tokens     double precision,           -- of a rate with a burst: what was left
    tokens_at  timestamptz,
    wait_until timestamptz,                -- of a rate that is used up: when there is room again
    version    integer,                    -- of the limit as it was then
    blocked_by bigint,                     -- of a sequence: the run that has failed, and must succeed first
    used_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
autovacuum_vacuum_cost_delay = 0);
CREATE INDEX limit_slots_waiting ON rota.limit_slots (wait_until) WHERE wait_until IS NOT NULL;
COMMENT ON TABLE rota.limit_slots IS 'The slots in use for each key of a limit.';

-- Released slots: appended by whatever ends or requeues a run, which therefore waits for no lock on a counter, and
-- folded into the counter by admission. Until then the slot counts as taken, so a crash at any moment cannot admit too
-- many.
CREATE TABLE rota.limit_releases (
    tenant   text COLLATE "C" NOT NULL DEFAULT '',
    key      text COLLATE "C" NOT NULL,
    amount   integer NOT NULL,
    run_id   bigint,  -- of a sequence: whose end it was
    ended_as text COLLATE "C"
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX limit_releases_key ON rota.limit_releases (key);
COMMENT ON TABLE rota.limit_releases IS 'Slots that were released and that admission has not counted yet.';

-- Refuses a limit (RO017), in words that name it.
-- Called by: check_limit, set_limit.
CREATE FUNCTION rota.bad_limit(name text, what text, hint text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
BEGIN
    IF hint IS NULL THEN
        RAISE EXCEPTION 'limit "%": %', name, what USING ERRCODE = 'RO017';
    END IF;
    RAISE EXCEPTION 'limit "%": %', name, what USING ERRCODE = 'RO017', HINT = hint;
END $$;

-- Trigger: says in words what is wrong with a limit. A limit that counts something else than before gets a new id,
-- so that runs leave the old counters; a change of its numbers gets a new version.
CREATE FUNCTION rota.check_limit() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF NEW.name IS NULL OR NEW.name !~ '^[^[:cntrl:]]{1,200}$' THEN
        PERFORM rota.bad_limit(coalesce(NEW.name, ''),
            'its name must have 1 to 200 characters and no control characters');
    ELSIF NEW.kind IS NULL OR NEW.kind NOT IN ('concurrency', 'rate', 'sequence') THEN
        PERFORM rota.bad_limit(NEW.name, format('its kind must be concurrency, rate or sequence, not %s',
            coalesce(NEW.kind, 'NULL')));
    ELSIF NEW.kind = 'sequence' AND NEW.cap IS DISTINCT FROM 1 THEN
        PERFORM rota.bad_limit(NEW.name, 'the cap of a sequence must be 1',
            'To run several at once, use a concurrency limit.');
    ELSIF NEW.cap IS NULL OR NEW.cap NOT BETWEEN 0 AND 1000000 THEN
        PERFORM rota.bad_limit(NEW.name, format('cap %s is not between 0 (no run starts) and 1000000',
            coalesce(NEW.cap::text, 'NULL')));
    ELSIF (NEW.kind = 'rate') <> (NEW.period_seconds IS NOT NULL) THEN
        PERFORM rota.bad_limit(NEW.name, 'a rate requires period_seconds, and other kinds do not take it',
            'For 100 runs per minute, set cap 100 and period_seconds 60.');
    ELSIF NOT coalesce(NEW.period_seconds BETWEEN 0.01 AND 31536000, true) THEN
        PERFORM rota.bad_limit(NEW.name, format('period_seconds %s is not between 0.01 and 31536000 (a year)',
            NEW.period_seconds));
    ELSIF num_nonnulls(NEW.burst, NEW.cost) > 0 AND NEW.kind <> 'rate' THEN
        PERFORM rota.bad_limit(NEW.name, 'only a rate takes burst and cost');
    ELSIF NEW.burst NOT BETWEEN 1 AND greatest(NEW.cap, 1) THEN
        PERFORM rota.bad_limit(NEW.name, format('burst %s is not between 1 and its cap, %s', NEW.burst, NEW.cap));
    ELSIF NEW.cost !~ '^[^[:cntrl:]{}]{1,100}$' THEN
        PERFORM rota.bad_limit(NEW.name, 'cost must be the name of a payload field, of 1 to 100 characters');
    ELSIF (NEW.kind = 'sequence') <> (NEW.next_after IS NOT NULL) OR NEW.next_after NOT IN ('success', 'end') THEN
        PERFORM rota.bad_limit(NEW.name,
            'a sequence requires next_after (success or end), and other kinds do not take it');
    ELSIF NEW.on_full IS NULL OR NEW.on_full NOT IN ('wait', 'skip', 'replace', 'cancel_running') THEN
        PERFORM rota.bad_limit(NEW.name, format('on_full must be wait, skip, replace or cancel_running, not %s',
            coalesce(NEW.on_full, 'NULL')));
    ELSIF NEW.on_full = 'cancel_running' AND NEW.kind = 'rate' THEN
        PERFORM rota.bad_limit(NEW.name, 'on_full cannot be cancel_running for a rate',
            'Use wait, skip or replace.');
    ELSIF NEW.key !~ '^[^[:cntrl:]]{1,200}$' THEN
        PERFORM rota.bad_limit(NEW.name,
            'its key must be a template of 1 to 200 characters, such as customer:{customer_id}');
    ELSIF NEW.key ~ '\{[^}]*$|\{\}' OR regexp_replace(NEW.key, '\{[A-Za-z_][A-Za-z0-9_.]*\}', '', 'g') ~ '[{}]' THEN
        PERFORM rota.bad_limit(NEW.name, format('its key "%s" is not a valid template', NEW.key),
            'Put fields in braces: customer:{customer_id}, {address.city}, {tenant}.');
    ELSIF length(NEW.tenant) > 200 THEN
        PERFORM rota.bad_limit(NEW.name, 'its tenant must have at most 200 characters');
    ELSIF cardinality(NEW.jobs) = 0 OR array_position(NEW.jobs, NULL) IS NOT NULL THEN
        PERFORM rota.bad_limit(NEW.name, 'jobs must be a list of names, or null for all jobs');
    END IF;
    IF TG_OP = 'INSERT' THEN
        NEW.adopted_id := 0;
        NEW.version := 1;
    ELSIF (NEW.kind, NEW.key, NEW.queue, NEW.jobs, NEW.schedule, NEW.tenant) IS DISTINCT FROM (OLD.kind, OLD.key,
        OLD.queue, OLD.jobs, OLD.schedule, OLD.tenant) THEN
        -- It counts something else: runs leave the old counters, and are looked at anew.
        NEW.id := nextval(pg_get_serial_sequence('rota.limits', 'id'));
        NEW.adopted_id := 0;
    END IF;
    IF TG_OP = 'UPDATE' AND (NEW.cap, NEW.period_seconds, NEW.burst, NEW.cost, NEW.on_full) IS DISTINCT FROM (OLD.cap,
        OLD.period_seconds, OLD.burst, OLD.cost, OLD.on_full) THEN
        NEW.version := OLD.version + 1;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER limits_check BEFORE INSERT OR UPDATE ON rota.limits FOR EACH ROW EXECUTE FUNCTION rota.check_limit();

-- Trigger: writes every change of a limit to the audit, and wakes the admission, so that it takes effect at once.
CREATE FUNCTION rota.audit_limit() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    hidden constant text[] := '{id,version,code,adopted_id,created_at,updated_at,updated_by,is_edited}';
    before jsonb := CASE WHEN TG_OP <> 'INSERT' THEN jsonb_strip_nulls(to_jsonb(OLD)) - hidden END;
    after  jsonb := CASE WHEN TG_OP <> 'DELETE' THEN jsonb_strip_nulls(to_jsonb(NEW)) - hidden END;
BEGIN
    IF before IS DISTINCT FROM after THEN
        PERFORM rota.write_audit(NULL, CASE TG_OP WHEN 'INSERT' THEN 'limit.created' WHEN 'DELETE' THEN 'limit.removed'
            ELSE 'limit.updated' END, 'limit', coalesce(NEW.name, OLD.name),
            CASE WHEN TG_OP = 'UPDATE' THEN (SELECT jsonb_object_agg(o.key, o.value) FROM jsonb_each(before) o
                WHERE o.value IS DISTINCT FROM after -> o.key) ELSE before END,
            CASE WHEN TG_OP = 'UPDATE' THEN (SELECT jsonb_object_agg(n.key, n.value) FROM jsonb_each(after) n
                WHERE n.value IS DISTINCT FROM before -> n.key) ELSE after END,
            NULL, coalesce(NEW.tenant, OLD.tenant));
        IF TG_OP = 'INSERT' THEN
            UPDATE rota.settings s SET has_limits = true WHERE NOT s.has_limits;
        END IF;
        PERFORM pg_notify('rota', 'limits');
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER limits_audit AFTER INSERT OR UPDATE OR DELETE ON rota.limits FOR EACH ROW
    EXECUTE FUNCTION rota.audit_limit();

-- The limit of this name, or RO016.
-- Called by: remove_limit, unblock_limit.
CREATE FUNCTION rota.find_limit(name text, tenant text) RETURNS rota.limits LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    one rota.limits;
BEGIN
    SELECT * INTO one FROM rota.limits l WHERE l.tenant = find_limit.tenant AND l.name = find_limit.name;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no limit "%"%', find_limit.name, CASE WHEN find_limit.tenant <> ''
            THEN format(' of tenant "%s"', find_limit.tenant) ELSE '' END
            USING ERRCODE = 'RO016', HINT = 'rota.limits lists them.';
    END IF;
    RETURN one;
END $$;

-- Makes a limit, or changes what is named. RO017: it makes no sense; RO016: there is none.
-- Called by: sql/limits/set.sql, users.
-- Locks: rows.
CREATE FUNCTION rota.set_limit(name text, changes jsonb, tenant text DEFAULT '', reason text DEFAULT NULL,
    actor text DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    known constant text[] := '{kind,cap,period_seconds,burst,cost,next_after,on_full,queue,jobs,schedule,key}';
    odd   text := (SELECT min(k) FROM jsonb_object_keys(changes) k WHERE k <> ALL (known));
    old   rota.limits;
    new   rota.limits;
    was   text[];
BEGIN
    IF odd IS NOT NULL THEN
        PERFORM rota.bad_limit(set_limit.name, format('unknown setting "%s"', odd),
            'Choose from ' || array_to_string(known, ', ') || '.');
    END IF;
    odd := (SELECT c.key FROM jsonb_each(changes) c
        WHERE c.key IN ('cap', 'period_seconds', 'burst') AND jsonb_typeof(c.value) NOT IN ('number', 'null')
        ORDER BY c.key LIMIT 1);
    IF odd IS NOT NULL THEN
        PERFORM rota.bad_limit(set_limit.name, format('%s must be a number, not %s', odd, changes -> odd));
    END IF;
    was := rota.say_why(set_limit.actor, set_limit.reason);
    SELECT * INTO old FROM rota.limits l WHERE l.tenant = set_limit.tenant AND l.name = set_limit.name FOR UPDATE;
    IF FOUND THEN
        new := jsonb_populate_record(old, changes);
        UPDATE rota.limits l
        SET (kind, cap, period_seconds, burst, cost, next_after, on_full, queue, jobs, schedule, key) =
            (new.kind, new.cap, new.period_seconds, new.burst, new.cost, new.next_after, new.on_full, new.queue,
                new.jobs, new.schedule, new.key),
            is_edited = l.code <> '{}', updated_at = rota.now(), updated_by = rota.who()
        WHERE l.tenant = old.tenant AND l.name = old.name;
    ELSE
        new := jsonb_populate_record(NULL::rota.limits, '{"kind": "concurrency", "on_full": "wait"}'::jsonb || CASE
            WHEN changes ->> 'kind' = 'sequence'
            THEN '{"cap": 1, "next_after": "end"}'::jsonb ELSE '{}' END || changes);
        INSERT INTO rota.limits (tenant, name, kind, cap, period_seconds, burst, cost, next_after, on_full, queue, jobs,
            schedule, key, updated_by)
        VALUES (set_limit.tenant, set_limit.name, new.kind, new.cap, new.period_seconds, new.burst, new.cost,
                new.next_after, new.on_full, new.queue, new.jobs, new.schedule, new.key, rota.who());
    END IF;
    PERFORM rota.unsay(was);
    RETURN (SELECT l.id FROM rota.limits l WHERE l.tenant = set_limit.tenant AND l.name = set_limit.name);
END $$;

-- Removes a limit; what waits for it goes on. Of a limit that the code declares, an operator's values go: 'reset'.
-- Called by: sql/limits/remove.sql, users.
CREATE FUNCTION rota.remove_limit(name text, tenant text DEFAULT '', reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS text LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    found  rota.limits := rota.find_limit(remove_limit.name, remove_limit.tenant);
    was    text[] := rota.say_why(remove_limit.actor, remove_limit.reason);
    answer text := 'removed';
BEGIN
    IF found.code = '{}' THEN
        DELETE FROM rota.limits l WHERE l.tenant = found.tenant AND l.name = found.name;
    ELSIF found.is_edited THEN
        PERFORM rota.follow_limit(found.name, (SELECT c.value FROM jsonb_each(found.code) c ORDER BY c.key LIMIT 1),
            true);
        answer := 'reset';
    ELSE
        RAISE EXCEPTION 'limit "%" is declared by the code of %', found.name, (SELECT string_agg(k, ', ' ORDER BY k)
            FROM jsonb_object_keys(found.code) k)
            USING ERRCODE = 'RO005', HINT = 'Remove it from the code, or raise its cap.';
    END IF;
    PERFORM rota.unsay(was);
    RETURN answer;
END $$;

-- The limit that a key belongs to: a key begins with the first letter of the kind, the limit's id and a colon.
-- Called by: admit_key, limit_differences, mend_limits, take_others, why_limit.
CREATE FUNCTION rota.limit_of(key text) RETURNS rota.limits LANGUAGE sql STABLE SET jit = off AS $$
    SELECT l FROM rota.limits l WHERE l.id = substr(split_part(limit_of.key, ':', 1), 2)::bigint
$$;

-- A key of a limit with its places filled in: fields of the payload ({customer_id}, {address.city}) and what every
-- run has ({tenant}, {queue}, {job}, {schedule}). A value is taken as it is, also one that looks like a place.
-- Called by: event_burst, limit_keys_of.
CREATE FUNCTION rota.fill_key(template text, payload jsonb, job text, queue text, tenant text, schedule text)
RETURNS text LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
DECLARE
    fixed  text[] := regexp_split_to_array(template, '\{[^}]+\}');
    filled text := fixed[1];
    field  text;
    place  bigint;
BEGIN
    FOR field, place IN SELECT f.match[1], f.place
        FROM regexp_matches(template, '\{([^}]+)\}', 'g') WITH ORDINALITY AS f(match, place) ORDER BY f.place LOOP
        filled := filled || coalesce(CASE field
            WHEN 'tenant' THEN tenant WHEN 'queue' THEN queue WHEN 'job' THEN job WHEN 'schedule' THEN schedule
            ELSE payload #>> string_to_array(field, '.') END, '') || fixed[place + 1];
    END LOOP;
    RETURN CASE WHEN length(filled) > 200 THEN left(filled, 160) || '…' || md5(filled) ELSE filled END;
END $$;

-- Where the keys of a limit begin, in the order of keys: they are `c7:value`, for the kind, the limit's id and what
-- the key is made of.
-- Called by: sql/attention/limits.sql, sql/limits/holders.sql, sql/limits/keys.sql, sql/limits/list.sql,
-- sql/limits/waiters.sql, sql/metrics/limits.sql, unblock_limit.
CREATE FUNCTION rota.first_key(l rota.limits) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT left(l.kind, 1) || l.id || ':' $$;

-- Where the keys of a limit end, in the order of keys: see first_key.
-- Called by: sql/attention/limits.sql, sql/limits/holders.sql, sql/limits/keys.sql, sql/limits/list.sql,
-- sql/limits/waiters.sql, sql/metrics/limits.sql, unblock_limit.
CREATE FUNCTION rota.last_key(l rota.limits) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT left(l.kind, 1) || l.id || ';' $$;

-- The counters that a run must have room in: sequences first, as they are taken one after the other. NULL: none.
-- Called by: adopt_runs, enqueue_batch, enqueue_many, enqueue_run, limit_run, retry_run, run_inits, write_ticks.
CREATE FUNCTION rota.limit_keys_of(job text, queue text, tenant text, schedule text, payload jsonb) RETURNS text[]
LANGUAGE sql STABLE SET jit = off AS $$
    SELECT array_agg(m.key ORDER BY m.key LIKE 's%' DESC, m.key)
    FROM (SELECT left(l.kind, 1) || l.id || ':' || CASE WHEN l.key IS NULL THEN '' ELSE
                 rota.fill_key(l.key, limit_keys_of.payload, limit_keys_of.job, limit_keys_of.queue,
                     limit_keys_of.tenant, limit_keys_of.schedule) END AS key
          FROM rota.limits l
          WHERE (l.jobs IS NULL OR limit_keys_of.job = ANY (l.jobs))
            AND (l.queue IS NULL OR l.queue = limit_keys_of.queue)
            AND (l.tenant = '' OR l.tenant = limit_keys_of.tenant)
            AND (l.schedule IS NULL OR l.schedule = limit_keys_of.schedule)) m
$$;

-- The keys that a run still needs. Tokens of a rate are spent by every admission, and never held.
-- Called by: adopt_runs, forget_key, free_known_runs, line_of, promote_runs, requeue_runs.
CREATE FUNCTION rota.missing_keys(limit_keys text[], slots text[]) RETURNS text[] LANGUAGE sql IMMUTABLE
SET jit = off AS $$
    SELECT ARRAY(SELECT k FROM unnest(limit_keys) WITH ORDINALITY AS u (k, n) WHERE slots IS NULL OR k <> ALL (slots)
        ORDER BY n)
$$;

-- Trigger: takes the limits of a job from its code.
CREATE FUNCTION rota.note_limits() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF rota.is_syncing() AND NEW.code ? 'limits' THEN
        NEW.limits := nullif(NEW.code -> 'limits', 'null');
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER jobs_limits BEFORE INSERT OR UPDATE OF code ON rota.jobs FOR EACH ROW
    EXECUTE FUNCTION rota.note_limits();

-- Writes what one job's code says about one limit; an operator's values stay, unless they are to go.
-- Called by: follow_limits, remove_limit.
CREATE FUNCTION rota.follow_limit(of_name text, declared jsonb, is_forced boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    told rota.limits := jsonb_populate_record(NULL::rota.limits, declared);
BEGIN
    UPDATE rota.limits l
    SET (kind, cap, period_seconds, burst, cost, next_after, on_full, key, queue, schedule) =
        (told.kind, told.cap, told.period_seconds, told.burst, told.cost, told.next_after,
            coalesce(told.on_full, 'wait'), told.key, NULL, NULL),
        jobs = ARRAY(SELECT k COLLATE "C" FROM jsonb_object_keys(l.code) k ORDER BY 1),
        is_edited = false, updated_at = rota.now(), updated_by = rota.who()
    WHERE l.tenant = '' AND l.name = of_name AND (is_forced OR NOT l.is_edited)
      AND (is_forced OR (l.kind, l.cap, l.period_seconds, l.burst, l.cost, l.next_after, l.on_full, l.key,
          l.jobs) IS DISTINCT FROM
          (told.kind, told.cap, told.period_seconds, told.burst, told.cost, told.next_after,
           coalesce(told.on_full, 'wait'), told.key, ARRAY(SELECT k COLLATE "C" FROM jsonb_object_keys(l.code) k
               ORDER BY 1)));
END $$;

-- Trigger: the limits of a job follow its code; one that several jobs name holds the runs of all of them together.
CREATE FUNCTION rota.follow_limits() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    one  record;
    told rota.limits;
BEGIN
    FOR one IN SELECT e.value AS declared, e.value ->> 'name' AS name
               FROM jsonb_array_elements(CASE WHEN NEW.deleted_from_code_at IS NULL
                   AND jsonb_typeof(NEW.limits) = 'array' THEN NEW.limits ELSE '[]' END) e
               ORDER BY 2
    LOOP
        told := jsonb_populate_record(NULL::rota.limits, one.declared);
        INSERT INTO rota.limits (name, kind, cap, period_seconds, burst, cost, next_after, on_full, key, jobs, code,
            updated_by)
        VALUES (one.name, told.kind, told.cap, told.period_seconds, told.burst, told.cost, told.next_after,
                coalesce(told.on_full, 'wait'), told.key, ARRAY[NEW.name], jsonb_build_object(NEW.name, one.declared),
                rota.who())
        ON CONFLICT (tenant, name) DO UPDATE SET code = rota.limits.code || excluded.code
        WHERE rota.limits.code -> NEW.name IS DISTINCT FROM one.declared;
        PERFORM rota.follow_limit(one.name, one.declared);
    END LOOP;
    FOR one IN SELECT l.name, l.code - NEW.name AS code FROM rota.limits l
               WHERE l.tenant = '' AND l.code ? NEW.name
                 AND NOT coalesce(NEW.deleted_from_code_at IS NULL
                 AND NEW.limits @> jsonb_build_array(jsonb_build_object('name', l.name)), false)
               ORDER BY l.name
    LOOP
        IF one.code = '{}' THEN
            DELETE FROM rota.limits l WHERE l.tenant = '' AND l.name = one.name;
        ELSE
            UPDATE rota.limits l SET code = one.code WHERE l.tenant = '' AND l.name = one.name;
            PERFORM rota.follow_limit(one.name, (SELECT c.value FROM jsonb_each(one.code) c ORDER BY c.key LIMIT 1));
        END IF;
    END LOOP;
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_limits_made AFTER INSERT ON rota.jobs FOR EACH ROW WHEN (NEW.limits IS NOT NULL)
    EXECUTE FUNCTION rota.follow_limits();
CREATE TRIGGER jobs_limits_changed AFTER UPDATE ON rota.jobs FOR EACH ROW
WHEN (NEW.limits IS DISTINCT FROM OLD.limits OR NEW.limits IS NOT NULL
    AND NEW.deleted_from_code_at IS DISTINCT FROM OLD.deleted_from_code_at)
EXECUTE FUNCTION rota.follow_limits();

-- Puts a run under the limits that hold now: one that was put aside, or given a schedule.
-- Called by: backfill_schedule, trigger_schedule.
CREATE FUNCTION rota.limit_run(of_run bigint) RETURNS void LANGUAGE plpgsql VOLATILE SET enable_seqscan = off
SET jit = off AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM rota.settings s WHERE s.has_limits) THEN
        RETURN;
    END IF;
    UPDATE rota.open_runs o
    SET limit_keys = k.keys, limit_key = k.keys[1],
        held_by = CASE WHEN o.state = 'queued' AND (o.held_by IS NULL OR o.held_by = 'limit')
            THEN CASE WHEN k.keys IS NOT NULL THEN 'limit' END ELSE o.held_by END
    FROM (SELECT r.id, rota.limit_keys_of(r.job, r.queue, r.tenant, r.schedule, r.payload) AS keys FROM rota.open_runs r
        WHERE r.id = of_run) k
    WHERE o.id = k.id AND o.state <> 'running' AND o.slots IS NULL AND o.limit_keys IS DISTINCT FROM k.keys;
    IF FOUND THEN
        PERFORM rota.wake_admission();
    END IF;
END $$;

-- Gives the slots of runs back. Of a sequence the end is told too, as it decides who is next.
-- Called by: enqueue_run.
CREATE FUNCTION rota.release_slots(slots text[], of_run bigint DEFAULT NULL, ended_as text DEFAULT NULL) RETURNS void
LANGUAGE sql VOLATILE SET jit = off AS $$
    INSERT INTO rota.limit_releases (key, amount, run_id, ended_as)
    SELECT k, 1, CASE WHEN k LIKE 's%' THEN of_run END, CASE WHEN k LIKE 's%' THEN ended_as END FROM unnest(slots) k
$$;

-- Lets a sequence that is blocked by a failed run continue without it. Returns how many did.
-- Called by: sql/limits/unblock.sql, users.
CREATE FUNCTION rota.unblock_limit(name text, value text DEFAULT NULL, tenant text DEFAULT '', reason text DEFAULT NULL,
    actor text DEFAULT NULL)
RETURNS integer LANGUAGE plpgsql VOLATILE SET lock_timeout = '5s' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    found   rota.limits := rota.find_limit(unblock_limit.name, unblock_limit.tenant);
    freed   text[];
BEGIN
    WITH freed AS (
        UPDATE rota.limit_slots s SET blocked_by = NULL
        WHERE s.tenant = found.tenant AND s.blocked_by IS NOT NULL AND s.key >= rota.first_key(found)
          AND s.key < rota.last_key(found)
          AND (unblock_limit.value IS NULL OR s.key = rota.first_key(found) || unblock_limit.value)
        RETURNING s.key
    )
    SELECT array_agg(key) INTO freed FROM freed;
    IF freed IS NULL THEN
        RAISE EXCEPTION 'limit "%" is not blocked%', found.name, CASE WHEN unblock_limit.value IS NULL THEN ''
            ELSE format(' for "%s"', unblock_limit.value) END
            USING ERRCODE = 'RO005',
                HINT = 'Only a sequence is ever blocked: when a run failed whose success the next run requires.';
    END IF;
    PERFORM rota.write_audit(unblock_limit.actor, 'limit.unblocked', 'limit', found.name, NULL,
        jsonb_build_object('keys', freed), unblock_limit.reason, found.tenant);
    PERFORM pg_notify('rota', 'limits');
    RETURN cardinality(freed);
END $$;

-- Calls the admission of workers that rest; others look by themselves.
-- Called by: many.
CREATE FUNCTION rota.wake_admission() RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM pg_notify('rota', 'limits');
    ELSE
        -- One does it for all; a second one is there should the first not answer.
        PERFORM pg_notify(coalesce(w.channel, 'rota'), 'limits')
        FROM (SELECT v.channel FROM rota.workers v WHERE v.is_waiting AND v.lease_expires_at > clock_timestamp()
            ORDER BY v.id LIMIT 2) w;
    END IF;
END $$;

-- 24_admission.sql

-- Who may start under a limit: `admit_runs`, by one worker at a time (lock "admission"), key by key, in the order of
-- the line. It counts what was given back, takes slots or tokens, and makes runs ready. `mend_limits` compares the
-- counters with the runs, and notes what differed in `limit_repairs`.

-- One turn of the admission, over all keys that are worth a look. Returns how many runs got what they waited for,
-- the seconds until the next look (NULL: when called), from where on to look for keys next time, and whether anybody
-- waits (NULL: there are no limits).
-- Called by: sql/limits/admit.sql, users.
-- Locks: "admission" if it is free.
CREATE FUNCTION rota.admit_runs(max_runs integer DEFAULT 1000, after_key text DEFAULT '',
    OUT admitted integer, OUT next_seconds double precision, OUT last_key text, OUT is_waiting boolean)
LANGUAGE plpgsql VOLATILE SET lock_timeout = '5s' SET jit = off AS $$
DECLARE
    most  constant integer := 1000;
    clock timestamptz := rota.now();
    waited text[];
    keys  text[];
    share integer;
    is_full boolean := false;
    one   text;
    got   record;
    queues text[] := '{}';
    ready bigint[] := '{}';
    adopted integer;
BEGIN
    admitted := 0;
    last_key := '';
    IF NOT EXISTS (SELECT FROM rota.settings s WHERE s.has_limits) THEN
        RETURN;
    ELSIF NOT rota.try_lock('admission') THEN
        next_seconds := 0.1;
        last_key := after_key;
        is_waiting := true;
        RETURN;
    END IF;
    adopted := rota.adopt_runs(max_runs);
    waited := ARRAY(SELECT rota.waited_keys(after_key, most));
    is_waiting := waited <> '{}' OR after_key <> '';
    IF cardinality(waited) = most THEN
        last_key := waited[most];
        next_seconds := 0.05;
    END IF;
    keys := ARRAY(SELECT rota.keys_with_room(waited, clock));
    -- To each its share, so that a long line leaves something to the others.
    share := greatest(max_runs / greatest(cardinality(keys), 1), 1);
    FOREACH one IN ARRAY keys LOOP
        got := rota.admit_key(one, share);
        admitted := admitted + got.admitted;
        queues := queues || got.touched;
        ready := ready || got.ready;
        IF got.is_held THEN
            next_seconds := 0.1;
        END IF;
        is_full := is_full OR got.is_more OR got.admitted >= share;
    END LOOP;
    IF ready <> '{}' THEN
        queues := queues || rota.make_ready(ready);
    END IF;
    IF admitted > 0 THEN
        INSERT INTO rota.count_changes (name, amount) VALUES ('runs_admitted', admitted);
    END IF;
    IF is_full OR adopted > 0 THEN
        next_seconds := 0;
    END IF;
    next_seconds := least(next_seconds, (SELECT greatest(extract(epoch FROM min(s.wait_until) - clock), 0.01)
        FROM rota.limit_slots s
                                         WHERE s.wait_until IS NOT NULL AND s.wait_until < 'infinity'));
    IF queues <> '{}' THEN
        PERFORM rota.wake(ARRAY(SELECT DISTINCT q FROM unnest(queues) q));
    END IF;
END $$;

-- The keys that somebody waits for, from the next one on.
-- Called by: admit_runs.
CREATE FUNCTION rota.waited_keys(after_key text, most integer) RETURNS SETOF text LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
    WITH RECURSIVE keys (key, n) AS (
        (SELECT o.limit_key, 1 FROM rota.open_runs o WHERE o.held_by = 'limit' AND o.limit_key > after_key
            ORDER BY o.limit_key LIMIT 1)
        UNION ALL
        SELECT (SELECT o.limit_key FROM rota.open_runs o WHERE o.held_by = 'limit' AND o.limit_key > k.key
            ORDER BY o.limit_key LIMIT 1), k.n + 1
        FROM keys k WHERE k.key IS NOT NULL AND k.n < most
    )
    SELECT key FROM keys WHERE key IS NOT NULL
$$;

-- The keys that are worth a look: those of which something was given back, and of those that somebody waits for the
-- ones with room.
-- Called by: admit_runs.
CREATE FUNCTION rota.keys_with_room(waited text[], clock timestamptz) RETURNS SETOF text LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off AS $$
    SELECT DISTINCT k.key FROM (
        SELECT r.key FROM (SELECT f.key FROM rota.limit_releases f LIMIT 5000) r
        UNION ALL
        SELECT w FROM unnest(waited) w
        LEFT JOIN rota.limits l ON l.id = substr(split_part(w, ':', 1), 2)::bigint
        -- LIMIT: by the whole of the key, whatever the planner thinks of tenants.
        LEFT JOIN LATERAL (SELECT * FROM rota.limit_slots u WHERE u.tenant = l.tenant AND u.key = w LIMIT 1) s ON true
        WHERE l.id IS NULL OR s.key IS NULL OR l.on_full <> 'wait'
           OR CASE l.kind WHEN 'rate' THEN s.wait_until IS NULL OR s.wait_until <= clock
               OR s.version IS DISTINCT FROM l.version ELSE s.in_use < l.cap END
    ) k ORDER BY 1
$$;

-- Admits the runs that wait for one key, as many as there is room for.
-- Called by: admit_runs.
CREATE FUNCTION rota.admit_key(of_key text, max_runs integer, OUT admitted integer, OUT is_held boolean,
    OUT is_more boolean, OUT ready bigint[], OUT touched text[])
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
DECLARE
    l      rota.limits := rota.limit_of(of_key);
    clock  timestamptz;
    s      rota.limit_slots;
    room   integer;
    one    record;
    cost   integer;
    got    boolean;
    used   integer := 0;      -- slots or tokens of this key
    taken  integer := 0;      -- runs that have it
    asked  integer;
    seen   integer := 0;
BEGIN
    admitted := 0;
    is_held := false;
    is_more := false;
    ready := '{}';
    IF l.id IS NULL THEN
        SELECT f.admitted, f.touched INTO admitted, touched FROM rota.forget_key(of_key, max_runs) f;
        RETURN;
    END IF;
    s := rota.take_slots(l, of_key);
    IF s.key IS NULL THEN
        is_held := true;
        RETURN;
    END IF;
    -- The moment itself, and not that of the statement: under the lock it only goes on.
    clock := clock_timestamp() + (SELECT t.clock_offset FROM rota.settings t);
    room := CASE l.kind WHEN 'rate' THEN (rota.tokens_of(l, s, clock, 1)).room ELSE l.cap - s.in_use END;
    asked := least(room, max_runs);
    FOR one IN SELECT w.* FROM rota.line_of(l, of_key, greatest(asked, 0), s.blocked_by) w WHERE asked > 0 LOOP
        seen := seen + 1;
        cost := CASE WHEN l.cost IS NULL THEN 1 ELSE rota.cost_of(l, one.payload) END;
        EXIT WHEN cost > room - used;
        IF cardinality(one.missing) > 1 THEN
            IF l.kind = 'sequence' THEN
                -- It has its turn, and waits for the rest with it: nobody overtakes it.
                UPDATE rota.open_runs o SET slots = coalesce(o.slots, '{}') || of_key,
                    limit_key = (array_remove(one.missing, of_key))[1] WHERE o.id = one.id;
                used := used + 1;
                taken := taken + 1;
                is_more := true;
                CONTINUE;
            END IF;
            got := rota.take_others(one.id, one.payload, array_remove(one.missing, of_key), clock);
            is_held := is_held OR got IS NULL;
            is_more := is_more OR got IS FALSE;   -- its place in this line is the next one's
            CONTINUE WHEN got IS NOT TRUE;
        END IF;
        ready := ready || one.id;
        used := used + cost;
        taken := taken + 1;
    END LOOP;
    IF taken > 0 AND l.kind = 'rate' THEN
        s := rota.spend_tokens(l, s, clock, used);
    END IF;
    IF taken > 0 OR l.kind = 'rate' THEN
        UPDATE rota.limit_slots u
        SET in_use = CASE WHEN l.kind = 'rate' THEN 0 ELSE s.in_use + used END, admitted = u.admitted + taken,
            used_at = clock_timestamp(),
            spent = s.spent, spent_at = s.spent_at, tokens = s.tokens, tokens_at = s.tokens_at,
            version = l.version, wait_until = CASE WHEN l.kind = 'rate'
                THEN rota.rate_wait(l, s, of_key, clock, ready) END
        WHERE u.tenant = s.tenant AND u.key = s.key;
    END IF;
    -- The others are made ready together. Of a rate the moment counts, and what does not wait looks at who does.
    IF ready <> '{}' AND (l.kind = 'rate' OR l.on_full <> 'wait') THEN
        touched := rota.make_ready(ready, clock - (SELECT t.clock_offset FROM rota.settings t));
        ready := '{}';
    END IF;
    admitted := taken;
    IF l.on_full <> 'wait' AND room - used < 1 THEN
        admitted := admitted + rota.settle_full(l, of_key);
    ELSIF seen < asked AND l.kind = 'sequence' AND EXISTS (SELECT FROM rota.open_runs o
        WHERE o.held_by = 'limit' AND o.limit_key = of_key) AND s.blocked_by IS NULL THEN
        is_held := true;
    END IF;
END $$;

-- The runs that are next for a key. A sequence goes strictly by age, and waits for the row of its first if somebody
-- holds it.
-- Called by: admit_key.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.line_of(l rota.limits, of_key text, most integer, only_run bigint)
RETURNS TABLE (id bigint, missing text[], payload jsonb) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_sort = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    head bigint := only_run;
BEGIN
    IF l.kind <> 'sequence' THEN
        RETURN QUERY SELECT o.id, CASE WHEN cardinality(o.limit_keys) = 1 THEN o.limit_keys
            ELSE rota.missing_keys(o.limit_keys, o.slots) END,
                CASE WHEN l.cost IS NOT NULL OR cardinality(o.limit_keys) > 1 THEN o.payload END
            FROM rota.open_runs o WHERE o.held_by = 'limit' AND o.limit_key = of_key
            ORDER BY o.priority, o.seq LIMIT most FOR UPDATE SKIP LOCKED;
        RETURN;
    END IF;
    IF head IS NULL THEN
        SELECT h.id INTO head FROM generate_series(0, 9) AS p (priority)
        CROSS JOIN LATERAL (SELECT o.id, o.seq FROM rota.open_runs o
                            WHERE o.held_by = 'limit' AND o.limit_key = of_key AND o.priority = p.priority::smallint
                            ORDER BY o.seq LIMIT 1) h
        ORDER BY h.seq LIMIT 1;
    END IF;
    RETURN QUERY SELECT o.id, rota.missing_keys(o.limit_keys, o.slots), o.payload
        FROM rota.open_runs o WHERE o.id = head AND o.held_by = 'limit' AND o.limit_key = of_key FOR UPDATE SKIP LOCKED;
END $$;

-- Locks the counter of a key, with what was given back taken off; nothing where somebody else holds it.
-- Called by: admit_key, adopt_runs, take_others.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.take_slots(l rota.limits, of_key text) RETURNS rota.limit_slots LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    taken  rota.limit_slots;
    freed  integer;
    failed bigint;
    ended  bigint[];
BEGIN
    SELECT * INTO taken FROM rota.limit_slots s WHERE s.tenant = l.tenant AND s.key = of_key FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        INSERT INTO rota.limit_slots (tenant, key) VALUES (l.tenant, of_key) ON CONFLICT DO NOTHING
        RETURNING * INTO taken;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
    END IF;
    IF EXISTS (SELECT FROM rota.limit_releases r WHERE r.key = of_key) THEN
        WITH gone AS (
            DELETE FROM rota.limit_releases r
            WHERE r.ctid = ANY (ARRAY(SELECT f.ctid FROM rota.limit_releases f WHERE f.key = of_key
                FOR UPDATE SKIP LOCKED))
            RETURNING r.amount, r.run_id, r.ended_as
        )
        SELECT sum(amount), max(run_id) FILTER (WHERE ended_as = 'failed'),
            array_agg(run_id) FILTER (WHERE ended_as <> 'failed')
        INTO freed, failed, ended FROM gone;
        taken.in_use := taken.in_use - coalesce(freed, 0);
        taken.blocked_by := CASE WHEN l.next_after = 'success' AND failed IS NOT NULL THEN failed
                                 WHEN taken.blocked_by = ANY (ended) OR l.next_after IS DISTINCT FROM 'success'
                                     THEN NULL
                                 ELSE taken.blocked_by END;
        UPDATE rota.limit_slots s SET in_use = taken.in_use, blocked_by = taken.blocked_by
        WHERE s.tenant = l.tenant AND s.key = of_key;
    END IF;
    RETURN taken;
END $$;

-- Takes one place in the counter.
-- Called by: take_others.
CREATE FUNCTION rota.use_slot(l rota.limits, s rota.limit_slots, clock timestamptz, cost integer) RETURNS void
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
BEGIN
    IF l.kind = 'rate' THEN
        s := rota.spend_tokens(l, s, clock, cost);
        UPDATE rota.limit_slots u SET spent = s.spent, spent_at = s.spent_at, tokens = s.tokens,
            tokens_at = s.tokens_at, wait_until = NULL,
            admitted = u.admitted + 1, used_at = clock_timestamp()
        WHERE u.tenant = s.tenant AND u.key = s.key;
    ELSE
        UPDATE rota.limit_slots u SET in_use = u.in_use + 1, admitted = u.admitted + 1, used_at = clock_timestamp()
        WHERE u.tenant = s.tenant AND u.key = s.key;
    END IF;
END $$;

-- Takes the other keys of a run that needs more than the one it waits for: all or nothing, and what is full is where
-- it waits from now on. Returns whether it has them all: NULL where somebody holds one of the counters.
-- Called by: admit_key.
CREATE FUNCTION rota.take_others(of_run bigint, payload jsonb, others text[], clock timestamptz) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
DECLARE
    one   text;
    l     rota.limits;
    s     rota.limit_slots;
BEGIN
    FOREACH one IN ARRAY others LOOP
        l := rota.limit_of(one);
        CONTINUE WHEN l.id IS NULL;
        s := rota.take_slots(l, one);
        IF s.key IS NULL THEN
            RETURN NULL;
        ELSIF NOT rota.has_room(l, s, clock, of_run, rota.cost_of(l, payload)) THEN
            UPDATE rota.open_runs o SET limit_key = one WHERE o.id = of_run;
            RETURN false;
        END IF;
    END LOOP;
    FOREACH one IN ARRAY others LOOP
        l := rota.limit_of(one);
        CONTINUE WHEN l.id IS NULL;
        PERFORM rota.use_slot(l, rota.take_slots(l, one), clock, rota.cost_of(l, payload));
    END LOOP;
    RETURN true;
END $$;

-- Makes runs ready that have what they need.
-- Called by: admit_key, admit_runs, forget_key.
CREATE FUNCTION rota.make_ready(ids bigint[], at timestamptz DEFAULT clock_timestamp()) RETURNS text[]
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    touched text[];
BEGIN
    WITH readied AS (
        UPDATE rota.open_runs o
        SET held_by = NULL, held_at = NULL, limit_key = NULL, seq = r.seq, enqueued_at = make_ready.at,
            slots = CASE WHEN cardinality(o.limit_keys) = 1
                THEN CASE WHEN o.limit_keys[1] NOT LIKE 'r%' THEN o.limit_keys END
                         ELSE nullif(ARRAY(SELECT k FROM unnest(o.limit_keys) k WHERE k NOT LIKE 'r%'), '{}') END
        FROM (SELECT u.id, nextval('rota.run_ids') AS seq FROM unnest(ids) AS u (id)) r
        WHERE o.id = ANY (ARRAY[r.id])
        RETURNING o.queue
    )
    SELECT array_agg(DISTINCT queue) INTO touched FROM readied;
    RETURN touched;
END $$;

-- What one start of a run costs a rate: the number at the limit's path in the payload, at least 1 and at most what
-- the limit has; 1 without a path.
-- Called by: admit_key, rate_wait, take_others.
CREATE FUNCTION rota.cost_of(l rota.limits, payload jsonb) RETURNS integer LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT CASE WHEN l.kind <> 'rate' OR l.cost IS NULL
        OR jsonb_typeof(payload #> string_to_array(l.cost, '.')) IS DISTINCT FROM 'number' THEN 1
                ELSE least(greatest(ceil((payload #>> string_to_array(l.cost, '.'))::numeric), 1), greatest(l.cap, 1),
                    coalesce(l.burst, l.cap, 1))::integer END
$$;

-- How many tokens a rate has now, and when there will be `wanted`. Never more than cap in any period: what was spent
-- counts for a whole period after the latest moment at which it may have been (it is kept by 128ths of the period, each
-- under its end). A burst bounds what is spent at one moment, and refills evenly.
-- Called by: admit_key, has_room, rate_wait.
CREATE FUNCTION rota.tokens_of(l rota.limits, s rota.limit_slots, clock timestamptz, wanted integer, OUT room integer,
    OUT ready_at timestamptz)
LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    period interval := make_interval(secs => l.period_seconds);
    free   integer := l.cap;
    level  double precision;
    lack   integer;
    burst  integer := CASE WHEN l.burst IS NOT NULL THEN least(l.burst, l.cap) END;
BEGIN
    wanted := least(greatest(wanted, 1), greatest(l.cap, 1));
    IF burst IS NOT NULL THEN
        wanted := least(wanted, burst);
    END IF;
    FOR i IN 1 .. cardinality(s.spent) LOOP
        -- A clock that was set back by more than a period has spent nothing.
        IF s.spent_at[i] + period > clock AND s.spent_at[i] <= clock + 2 * period THEN
            free := free - s.spent[i];
        END IF;
    END LOOP;
    ready_at := clock;
    lack := wanted - free;
    FOR i IN 1 .. cardinality(s.spent) LOOP
        EXIT WHEN lack <= 0;
        IF s.spent_at[i] + period > clock THEN
            lack := lack - s.spent[i];
            ready_at := s.spent_at[i] + period;
        END IF;
    END LOOP;
    IF burst IS NOT NULL THEN
        level := least(burst, coalesce(s.tokens + greatest(0, extract(epoch FROM clock - s.tokens_at)) * l.cap /
            l.period_seconds, burst));
        IF level < wanted AND l.cap > 0 THEN
            ready_at := greatest(ready_at, clock + make_interval(secs => (wanted - level) * l.period_seconds / l.cap));
        END IF;
        free := least(free, floor(level + 1e-6)::integer);
    END IF;
    IF l.cap = 0 THEN
        ready_at := 'infinity';
    END IF;
    room := greatest(free, 0);
END $$;

-- Whether a key has room for one more run of this cost.
-- Called by: take_others.
CREATE FUNCTION rota.has_room(l rota.limits, s rota.limit_slots, clock timestamptz, of_run bigint, cost integer)
RETURNS boolean LANGUAGE sql STABLE SET jit = off AS $$
    SELECT CASE l.kind WHEN 'rate' THEN (rota.tokens_of(l, s, clock, cost)).room >= cost
                       ELSE s.in_use < l.cap AND coalesce(s.blocked_by = of_run, true) END
$$;

-- When the next of those who wait for a rate may go; NULL: nobody waits.
-- Called by: admit_key.
CREATE FUNCTION rota.rate_wait(l rota.limits, s rota.limit_slots, of_key text, clock timestamptz, ready bigint[])
RETURNS timestamptz LANGUAGE sql STABLE SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_sort = off SET jit = off AS $$
    SELECT (rota.tokens_of(l, s, clock, rota.cost_of(l, o.payload))).ready_at FROM rota.open_runs o
    WHERE o.held_by = 'limit' AND o.limit_key = of_key AND o.id <> ALL (ready) ORDER BY o.priority, o.seq LIMIT 1
$$;

-- Takes so many tokens of a rate. What was spent is kept in steps of 1/128 of the period, so that the list stays
-- short.
-- Called by: admit_key, use_slot.
CREATE FUNCTION rota.spend_tokens(l rota.limits, s rota.limit_slots, clock timestamptz, amount integer)
RETURNS rota.limit_slots LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    step   double precision := l.period_seconds / 128;
    until  timestamptz := to_timestamp((floor(extract(epoch FROM clock) / step) + 1) * step);
    burst  integer := CASE WHEN l.burst IS NOT NULL THEN least(l.burst, l.cap) END;
    last   integer;
BEGIN
    SELECT coalesce(array_agg(u.n ORDER BY u.at), '{}'), coalesce(array_agg(u.at ORDER BY u.at), '{}') INTO s.spent,
        s.spent_at
    FROM unnest(s.spent, s.spent_at) AS u (n, at)
    WHERE u.at + make_interval(secs => l.period_seconds) > clock
      AND u.at <= clock + make_interval(secs => 2 * l.period_seconds);
    last := cardinality(s.spent);
    -- to_timestamp rounds: not below the moment itself.
    until := greatest(until, clock);
    IF last > 0 AND s.spent_at[last] >= clock THEN
        s.spent[last] := s.spent[last] + amount;
    ELSE
        s.spent := s.spent || amount;
        s.spent_at := s.spent_at || until;
    END IF;
    IF burst IS NOT NULL THEN
        s.tokens := greatest(0, least(burst, coalesce(s.tokens + greatest(0, extract(epoch FROM clock - s.tokens_at)) *
            l.cap / l.period_seconds, burst)) - amount);
        s.tokens_at := clock;
    ELSE
        s.tokens := NULL;
        s.tokens_at := NULL;
    END IF;
    RETURN s;
END $$;

-- Does what a limit says to runs that find it full, if they are not to wait. A run that has been at work before
-- always waits.
-- Called by: admit_key.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.settle_full(l rota.limits, of_key text) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    newest bigint;
    gone   bigint[];
    keep   integer := CASE l.on_full WHEN 'skip' THEN 0 WHEN 'replace' THEN 1 ELSE greatest(l.cap, 1) END;
    kept   integer;
BEGIN
    SELECT max(o.id) INTO newest FROM rota.open_runs o WHERE o.held_by = 'limit' AND o.limit_key = of_key;
    gone := ARRAY(SELECT o.id FROM rota.open_runs o
                  WHERE o.held_by = 'limit' AND o.limit_key = of_key AND o.attempt = 0
                    AND o.id NOT IN (SELECT n.id FROM rota.open_runs n
                        WHERE n.held_by = 'limit' AND n.limit_key = of_key AND n.attempt = 0
                                     ORDER BY n.id DESC LIMIT keep)
                  ORDER BY o.id LIMIT 1000 FOR UPDATE SKIP LOCKED);
    IF gone <> '{}' THEN
        UPDATE rota.ledger g SET decision = 'skipped', reason = 'limit', run_id = NULL, enqueued_at = NULL,
            state = NULL,
            details = coalesce(g.details, '{}') || jsonb_build_object('limit', l.name, 'run', o.id)
        FROM rota.open_runs o
        WHERE o.id = ANY (gone) AND o.schedule_id IS NOT NULL AND g.schedule_id = o.schedule_id
          AND g.nominal_at = o.scheduled_for AND g.run_id = o.id
          AND l.on_full = 'skip';
        PERFORM rota.end_waiting_runs(gone, 'cancelled',
            CASE WHEN l.on_full = 'skip' THEN format('skipped (limit %s)', l.name)
                                                              ELSE format('replaced by run %s (limit %s)', newest,
                                                                  l.name) END);
    END IF;
    IF l.on_full = 'cancel_running' THEN
        SELECT count(*) INTO kept FROM (SELECT FROM rota.open_runs o WHERE o.held_by = 'limit' AND o.limit_key = of_key
            LIMIT keep) w;
        -- As many of the oldest as there are runs that wait for their place, those that were asked before among them.
        PERFORM rota.cancel_run(h.id, format('replaced by run %s (limit %s)', newest, l.name), 'rota')
        FROM (SELECT o.id FROM rota.open_runs o WHERE o.slots IS NOT NULL AND o.slots @> ARRAY[of_key]
            AND o.id <> newest ORDER BY o.id LIMIT kept) h
        WHERE NOT EXISTS (SELECT FROM rota.cancel_requests c JOIN rota.open_runs o ON o.id = c.run_id
            AND o.attempt = c.attempt WHERE c.run_id = h.id);
    END IF;
    RETURN cardinality(gone);
END $$;

-- Brings runs from before a limit under it: those that wait wait for it, those that run count. A thousand a call.
-- Called by: admit_runs.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.adopt_runs(max_runs integer DEFAULT 1000) RETURNS integer LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    l       rota.limits;
    one     record;
    keys    text[];
    added   text;
    seen    integer := 0;
    last_id bigint;
    s       rota.limit_slots;
BEGIN
    SELECT * INTO l FROM rota.limits a WHERE a.adopted_id IS NOT NULL ORDER BY a.id LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    SELECT max(r.id), count(*) INTO last_id, seen
    FROM (SELECT o.id FROM rota.open_runs o WHERE o.id > l.adopted_id ORDER BY o.id LIMIT max_runs) r;
    FOR one IN
        SELECT o.* FROM rota.open_runs o WHERE o.id > l.adopted_id AND o.id <= last_id
           AND (l.jobs IS NULL OR o.job = ANY (l.jobs)) AND (l.queue IS NULL OR l.queue = o.queue)
           AND (l.tenant = '' OR l.tenant = o.tenant) AND (l.schedule IS NULL OR l.schedule = o.schedule)
           AND (o.limit_keys IS NULL OR NOT EXISTS (SELECT FROM unnest(o.limit_keys) k
               WHERE split_part(k, ':', 1) = left(l.kind, 1) || l.id))
        ORDER BY o.id FOR UPDATE SKIP LOCKED
    LOOP
        keys := rota.limit_keys_of(one.job, one.queue, one.tenant, one.schedule, one.payload);
        added := (SELECT k FROM unnest(keys) k WHERE split_part(k, ':', 1) = left(l.kind, 1) || l.id);
        CONTINUE WHEN added IS NULL;
        IF one.state = 'running' OR one.held_by = 'suspect' THEN
            CONTINUE WHEN l.kind = 'rate';
            s := rota.take_slots(l, added);
            CONTINUE WHEN s.key IS NULL;
            UPDATE rota.limit_slots u SET in_use = u.in_use + 1 WHERE u.tenant = s.tenant AND u.key = s.key;
            UPDATE rota.open_runs o SET limit_keys = coalesce(o.limit_keys, '{}') || added,
                slots = coalesce(o.slots, '{}') || added WHERE o.id = one.id;
        ELSE
            UPDATE rota.open_runs o
            SET limit_keys = keys, limit_key = (rota.missing_keys(keys, o.slots))[1],
                held_by = CASE WHEN o.state = 'queued' AND o.held_by IS NULL THEN 'limit' ELSE o.held_by END
            WHERE o.id = one.id;
        END IF;
    END LOOP;
    UPDATE rota.limits a SET adopted_id = CASE WHEN seen < max_runs THEN NULL ELSE last_id END
    WHERE a.tenant = l.tenant AND a.name = l.name;
    RETURN greatest(seen, 1);
END $$;

-- A limit is gone: whoever waits for one of its keys, waits for the rest only.
-- Called by: admit_key.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.forget_key(of_key text, max_runs integer, OUT admitted integer, OUT touched text[])
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    ready bigint[];
BEGIN
    DELETE FROM rota.limit_releases r WHERE r.ctid = ANY (ARRAY(SELECT f.ctid FROM rota.limit_releases f
        WHERE f.key = of_key FOR UPDATE SKIP LOCKED));
    DELETE FROM rota.limit_slots s WHERE s.ctid = ANY (ARRAY(SELECT f.ctid FROM rota.limit_slots f WHERE f.key = of_key
        FOR UPDATE SKIP LOCKED));
    WITH freed AS (
        UPDATE rota.open_runs o
        SET limit_keys = nullif(array_remove(o.limit_keys, of_key), '{}'),
            slots = nullif(array_remove(o.slots, of_key), '{}'),
            limit_key = (rota.missing_keys(array_remove(o.limit_keys, of_key), o.slots))[1],
            held_by = CASE WHEN cardinality(rota.missing_keys(array_remove(o.limit_keys, of_key), o.slots)) > 0
                THEN 'limit' END
        WHERE o.ctid = ANY (ARRAY(SELECT w.ctid FROM rota.open_runs w WHERE w.held_by = 'limit' AND w.limit_key = of_key
                                  ORDER BY w.priority, w.seq LIMIT max_runs FOR UPDATE SKIP LOCKED))
        RETURNING o.id, o.held_by, o.priority, o.seq
    )
    SELECT coalesce(array_agg(id ORDER BY priority, seq) FILTER (WHERE held_by IS NULL), '{}'), count(*) INTO ready,
        admitted FROM freed;
    touched := rota.make_ready(ready);
END $$;

-- Counters that had gone wrong: each row is a mistake that was found and mended.
CREATE TABLE rota.limit_repairs (
    tenant  text COLLATE "C" NOT NULL,
    key     text COLLATE "C" NOT NULL,
    at      timestamptz NOT NULL DEFAULT rota.now(),
    counted integer NOT NULL,
    held    integer NOT NULL,
    PRIMARY KEY (tenant, key, at)
);
COMMENT ON TABLE rota.limit_repairs IS 'Counters of limits that differed from the runs, and were corrected.';

-- Counters that differ from the runs. That is always a mistake: it is corrected and reported. Everything is read at
-- one moment, because whatever releases a slot records it in the same transaction.
-- Called by: mend_limits.
CREATE FUNCTION rota.limit_differences() RETURNS TABLE (tenant text, key text, in_use integer, held integer)
LANGUAGE sql STABLE SET jit = off AS $$
    SELECT coalesce(s.tenant, ''), coalesce(s.key, h.key), coalesce(s.in_use, 0), coalesce(h.n, 0) + coalesce(r.n, 0)
    FROM rota.limit_slots s
    FULL JOIN (SELECT k AS key, count(*)::integer AS n FROM rota.open_runs o, unnest(o.slots) k
        WHERE o.slots IS NOT NULL GROUP BY k) h ON h.key = s.key
    LEFT JOIN (SELECT f.key, sum(f.amount)::integer AS n FROM rota.limit_releases f GROUP BY f.key) r
        ON r.key = coalesce(s.key, h.key)
    WHERE coalesce(s.in_use, 0) <> coalesce(h.n, 0) + coalesce(r.n, 0)
      AND EXISTS (SELECT FROM rota.limit_of(coalesce(s.key, h.key)) l WHERE l.id IS NOT NULL)
$$;

-- Sets counters of limits that differ from the runs to what the runs say, and notes it in rota.limit_repairs;
-- returns how many. What somebody holds is left for the next time.
-- Called by: sql/upkeep/mend_limits.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.mend_limits() RETURNS integer LANGUAGE plpgsql VOLATILE SET lock_timeout = '5s'
SET jit = off AS $$
DECLARE
    odd    record;
    truth  integer;
    mended integer := 0;
BEGIN
    FOR odd IN SELECT d.* FROM rota.limit_differences() d ORDER BY d.key LIMIT 100 LOOP
        INSERT INTO rota.limit_slots (tenant, key) SELECT (rota.limit_of(odd.key)).tenant, odd.key
        WHERE NOT EXISTS (SELECT FROM rota.limit_slots s WHERE s.key = odd.key) ON CONFLICT DO NOTHING;
        PERFORM FROM rota.limit_slots s WHERE s.key = odd.key FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        -- Anew, under the lock: nobody admits now, and whoever gives back counts the same in either way.
        truth := (SELECT d.held FROM rota.limit_differences() d WHERE d.key = odd.key);
        CONTINUE WHEN truth IS NULL;
        UPDATE rota.limit_slots s SET in_use = truth WHERE s.key = odd.key;
        INSERT INTO rota.limit_repairs (tenant, key, counted, held) VALUES (odd.tenant, odd.key, odd.in_use, truth)
        ON CONFLICT DO NOTHING;
        mended := mended + 1;
    END LOOP;
    IF mended > 0 THEN
        INSERT INTO rota.count_changes (name, amount) VALUES ('limits_mended', mended);
        PERFORM pg_notify('rota', 'limits');
    END IF;
    -- Counters that nobody has used for an hour, and what was mended long ago.
    DELETE FROM rota.limit_slots s WHERE s.ctid = ANY (ARRAY(
        SELECT u.ctid FROM rota.limit_slots u LEFT JOIN LATERAL rota.limit_of(u.key) l ON true
        WHERE u.in_use = 0 AND u.blocked_by IS NULL
          AND u.used_at < clock_timestamp() - make_interval(secs => greatest(3600, 2 * coalesce(l.period_seconds, 0)))
          AND NOT EXISTS (SELECT FROM rota.limit_releases r WHERE r.key = u.key)
        LIMIT 1000 FOR UPDATE OF u SKIP LOCKED));
    DELETE FROM rota.limit_repairs r WHERE r.at < rota.now() - interval '7 days';
    RETURN mended;
END $$;

-- 25_errors.sql

-- `error_groups`: failures that are one and the same error, by type, place and pattern. Whoever ends an attempt
-- appends to `error_changes`; `fold_errors` counts behind. `handled_errors` and `handled_runs` are what somebody has
-- seen to. Views: `errors`, `dead_letters`.

-- One row for each group of failures: what it looks like, where it comes from, how often it happened, and when first
-- and last.
CREATE TABLE rota.error_groups (
    id            text COLLATE "C" PRIMARY KEY,
    error_type    text NOT NULL,
    error         text NOT NULL,    -- the last one
    -- where in the application's own code, the last two parts of its path; NULL: nowhere
    file          text,
    line          integer,          -- of the last one
    function      text,
    is_system     boolean NOT NULL,
    first_seen_at timestamptz NOT NULL,
    last_seen_at  timestamptz NOT NULL,
    failures      bigint NOT NULL,
    runs          bigint NOT NULL,  -- that ended as failed
    last_run_id   bigint NOT NULL,
    returned_at   timestamptz,      -- when it last happened again after a week without
    quiet_since   timestamptz       -- when it had happened before that
) WITH (fillfactor = 70);
CREATE INDEX error_groups_seen ON rota.error_groups (last_seen_at);

-- By ten minutes; by the hour what is older than two days.
CREATE TABLE rota.error_counts (
    error_group text COLLATE "C" NOT NULL,
    at          timestamptz NOT NULL,
    job         text COLLATE "C" NOT NULL,
    failures    bigint NOT NULL,
    runs        bigint NOT NULL,
    PRIMARY KEY (error_group, at, job)
) WITH (fillfactor = 70);
CREATE INDEX error_counts_at ON rota.error_counts (at);

-- Failures that are not counted yet: appended by whoever ends an attempt.
CREATE TABLE rota.error_changes (
    error_group text COLLATE "C" NOT NULL,
    job         text COLLATE "C" NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    run_id      bigint NOT NULL,
    at          timestamptz NOT NULL,
    is_end      boolean NOT NULL,  -- its run ended as failed
    error_type  text NOT NULL,
    error       text NOT NULL,
    file        text,
    line        integer,
    function    text
);

-- What stays of a message when ids, numbers and what stands in quotes are taken out of its first line.
-- Called by: group_error.
CREATE FUNCTION rota.error_pattern(error text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT left(regexp_replace(regexp_replace(left(split_part(error, E'\n', 1), 500),
        $q$"[^"]*"|'[^']*'|`[^`]*`|“[^”]*”$q$, '…', 'g'), '\S*(?:\d|@)\S*', '…', 'g'), 200)
$$;

-- Where in the application's own code it was raised: the innermost frame that is no library's and not Rota's, else the
-- innermost. A path differs with the machine and the release: its last two parts do not.
-- Called by: group_error.
CREATE FUNCTION rota.error_place(traceback text, OUT file text, OUT line integer, OUT function text)
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET jit = off AS $$
    SELECT substring(f.m[1] FROM '[^/\\]*[/\\]?[^/\\]*$'), f.m[2]::integer, left(f.m[3], 200)
    FROM regexp_matches(right(traceback, 8000), '^[ |]*File "([^"\n]+)", line (\d{1,9}), in ([^\n]+)', 'gn')
        WITH ORDINALITY AS f (m, n)
    ORDER BY f.m[1] ~ 'site-packages|dist-packages|/lib/python\d|/rota/(?:runtime|executors|jobs|store)/|^<', f.n DESC
    LIMIT 1
$$;

-- The group of a failure. Where no code of the application is known to be at fault, its job stands for the place; of a
-- lost worker the message is about that worker.
-- Called by: note_ended_error, requeue_runs, rescue_runs.
CREATE FUNCTION rota.group_error(
    job text, error_type text, error text, traceback text, OUT id text, OUT file text, OUT line integer,
    OUT function text
) LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET jit = off AS $$
BEGIN
    IF error_type IS NULL THEN
        RETURN;
    END IF;
    IF traceback IS NOT NULL THEN
        SELECT p.file, p.line, p.function INTO group_error.file, group_error.line, group_error.function
        FROM rota.error_place(traceback) p;
    END IF;
    id := left(encode(sha256(convert_to(concat_ws(E'\n', error_type, coalesce(file || ' ' || function, 'job ' || job),
        CASE WHEN error_type NOT IN ('WorkerLost', 'SharedLoss') THEN rota.error_pattern(error) END), 'UTF8')), 'hex'),
            12);
END $$;

-- Trigger: the error of a run that ends gets its group, and is counted by an append.
CREATE FUNCTION rota.note_ended_error() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found record := rota.group_error(NEW.job, NEW.error_type, NEW.error, NEW.traceback);
BEGIN
    NEW.error_group := found.id;
    INSERT INTO rota.error_changes (error_group, job, queue, run_id, at, is_end, error_type, error, file, line,
        function)
    VALUES (found.id, NEW.job, NEW.queue, NEW.id, NEW.finished_at, NEW.state = 'failed', left(NEW.error_type, 200),
            left(coalesce(NEW.error, ''), 1000), found.file, found.line, found.function);
    RETURN NEW;
END $$;
CREATE TRIGGER ended_runs_error BEFORE INSERT ON rota.ended_runs FOR EACH ROW WHEN (NEW.error_type IS NOT NULL)
EXECUTE FUNCTION rota.note_ended_error();

-- An error line for an attempt whose worker cannot write it any more. Nothing where its day has no partition: a line is
-- evidence, and must not keep a run from being taken back. Its number comes after all that the attempt may have written
-- itself.
-- Called by: log_failed_run, rescue_runs, sql/runs/time_out.sql.
CREATE FUNCTION rota.log_failure(run_id bigint, attempt integer, worker bigint, job text, tenant text, error_type text,
    error text)
RETURNS void LANGUAGE sql VOLATILE SET jit = off AS $$
    INSERT INTO rota.logs (at, run_id, worker, attempt, seq, level, job, tenant, message, fields)
    SELECT c.at, run_id, coalesce(worker, 0), attempt, 2147483647, 'error', job, tenant, error_type || ': ' || error,
           jsonb_build_object('error_type', error_type)
    FROM (SELECT rota.now() AS at) c WHERE to_regclass('rota.logs_' || to_char(c.at AT TIME ZONE 'UTC', 'YYYYMMDD'))
        IS NOT NULL
$$;

-- Trigger: an error line for a run that failed without an attempt, of a job that nobody knows.
CREATE FUNCTION rota.log_failed_run() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    PERFORM rota.log_failure(NEW.id, NEW.attempt, NEW.worker, NEW.job, NEW.tenant, NEW.error_type,
        coalesce(NEW.error, ''));
    RETURN NULL;
END $$;
CREATE TRIGGER ended_runs_zlog AFTER INSERT ON rota.ended_runs FOR EACH ROW
WHEN (NEW.state = 'failed' AND NEW.attempt_state IS NULL AND NEW.error_type IS NOT NULL)
    EXECUTE FUNCTION rota.log_failed_run();

-- Adds what has happened to the groups. Nobody else writes them: what people say about a group is in a table of its
-- own.
-- Called by: handle_error, sql/errors/fold.sql, sql/upkeep/fold_errors.sql.
-- Locks: "errors" if it is free.
CREATE FUNCTION rota.fold_errors(max_changes integer DEFAULT 50000) RETURNS integer LANGUAGE plpgsql VOLATILE
SET lock_timeout = '5s' SET jit = off AS $$
DECLARE
    folded integer;
BEGIN
    IF NOT EXISTS (SELECT FROM rota.error_changes) OR NOT rota.try_lock('errors') THEN
        RETURN 0;
    END IF;
    WITH gone AS MATERIALIZED (
        DELETE FROM rota.error_changes d WHERE d.ctid = ANY (ARRAY(SELECT c.ctid FROM rota.error_changes c
            LIMIT max_changes))
        RETURNING d.*
    ), counted AS (
        INSERT INTO rota.error_counts AS c (error_group, at, job, failures, runs)
        SELECT g.error_group, date_bin('10 minutes', g.at, '2001-01-01 00:00Z'), g.job, count(*),
            count(*) FILTER (WHERE g.is_end)
        FROM gone g GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
        ON CONFLICT (error_group, at, job) DO UPDATE SET failures = c.failures + excluded.failures,
            runs = c.runs + excluded.runs
    ), last AS (
        SELECT DISTINCT ON (g.error_group) g.* FROM gone g ORDER BY g.error_group, g.at DESC, g.run_id DESC
    ), summed AS (
        SELECT g.error_group, min(g.at) AS first_at, count(*) AS failures, count(*) FILTER (WHERE g.is_end) AS runs
        FROM gone g GROUP BY 1
    ), grouped AS (
        INSERT INTO rota.error_groups AS e (id, error_type, error, file, line, function, is_system, first_seen_at,
            last_seen_at, failures, runs, last_run_id)
        SELECT l.error_group, l.error_type, l.error, l.file, l.line, l.function, l.queue = 'rota' || '.system',
            s.first_at, l.at, s.failures, s.runs, l.run_id
        FROM last l JOIN summed s ON s.error_group = l.error_group ORDER BY 1
        ON CONFLICT (id) DO UPDATE SET
            error = excluded.error, line = excluded.line, last_run_id = excluded.last_run_id,
            first_seen_at = least(e.first_seen_at, excluded.first_seen_at),
            last_seen_at = greatest(e.last_seen_at, excluded.last_seen_at),
            failures = e.failures + excluded.failures, runs = e.runs + excluded.runs,
            returned_at = CASE WHEN excluded.first_seen_at > e.last_seen_at + interval '7 days'
                THEN excluded.first_seen_at ELSE e.returned_at END,
            quiet_since = CASE WHEN excluded.first_seen_at > e.last_seen_at + interval '7 days' THEN e.last_seen_at
                ELSE e.quiet_since END
    )
    SELECT count(*) INTO folded FROM gone;
    RETURN folded;
END $$;

-- Folds counts that are older than two days into hours, and drops the oldest groups beyond what somebody could look
-- at: messages may differ without end.
-- Called by: sql/upkeep/tidy_errors.sql.
-- Locks: "errors" if it is free.
CREATE FUNCTION rota.tidy_errors(most_groups integer DEFAULT 10000) RETURNS void LANGUAGE plpgsql VOLATILE
SET lock_timeout = '5s' SET jit = off AS $$
BEGIN
    IF NOT rota.try_lock('errors') THEN
        RETURN;
    END IF;
    WITH fine AS (
        DELETE FROM rota.error_counts c
        WHERE c.at < date_bin('1 hour', rota.now(), '2001-01-01 00:00Z') - interval '2 days'
          AND c.at > rota.now() - interval '14 days'
          AND c.at <> date_bin('1 hour', c.at, '2001-01-01 00:00Z')
        RETURNING c.*
    )
    INSERT INTO rota.error_counts AS c (error_group, at, job, failures, runs)
    SELECT f.error_group, date_bin('1 hour', f.at, '2001-01-01 00:00Z'), f.job, sum(f.failures), sum(f.runs) FROM fine f
    GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (error_group, at, job) DO UPDATE SET failures = c.failures + excluded.failures,
        runs = c.runs + excluded.runs;
    PERFORM rota.forget_errors(ARRAY(SELECT g.id FROM rota.error_groups g
        ORDER BY g.last_seen_at DESC OFFSET most_groups));
END $$;

-- Deletes groups with all that is kept about them.
-- Called by: prune_rows, tidy_errors.
CREATE FUNCTION rota.forget_errors(ids text[]) RETURNS integer LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    removed integer;
BEGIN
    DELETE FROM rota.error_counts c WHERE c.error_group = ANY (ids);
    DELETE FROM rota.handled_errors h WHERE h.error_group = ANY (ids);
    DELETE FROM rota.error_groups g WHERE g.id = ANY (ids);
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;

-- The errors of runs that wait for another attempt, those first that are due first. Pinned: planned while the table was
-- small, it would sort all that waits.
-- Called by: sql/overview/failing.sql, why_job.
CREATE FUNCTION rota.waiting_errors(most integer) RETURNS TABLE (job text, last_error text)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
BEGIN
    RETURN QUERY SELECT o.job, o.last_error FROM rota.open_runs o WHERE o.is_future ORDER BY o.run_at LIMIT most;
END $$;

-- Groups that somebody has seen to, until they happen again.
CREATE TABLE rota.handled_errors (
    error_group text COLLATE "C" PRIMARY KEY,
    handled_at  timestamptz NOT NULL,
    handled_by  text NOT NULL,
    reason      text
);

-- Failed runs that somebody has seen to.
CREATE TABLE rota.handled_runs (
    run_id     bigint PRIMARY KEY,
    handled_at timestamptz NOT NULL,
    handled_by text NOT NULL,
    reason     text
);
CREATE INDEX handled_runs_at ON rota.handled_runs (handled_at);

-- Marks an error group as handled, until it happens again.
-- Called by: sql/errors/handle.sql, users.
CREATE FUNCTION rota.handle_error(error_group text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET lock_timeout = '5s' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    who  text := coalesce(handle_error.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    seen record;
BEGIN
    PERFORM rota.fold_errors();
    SELECT e.* INTO seen FROM rota.errors e WHERE e.id = handle_error.error_group;
    IF seen.id IS NULL THEN
        RAISE EXCEPTION 'there is no error group %', handle_error.error_group USING ERRCODE = 'RO012';
    ELSIF seen.standing = 'handled' THEN
        RAISE EXCEPTION 'error group % has not happened since % handled it', seen.id, seen.handled_by
            USING ERRCODE = 'RO005', HINT = 'To change the note, reopen it first.';
    END IF;
    INSERT INTO rota.handled_errors AS h (error_group, handled_at, handled_by, reason)
    VALUES (seen.id, rota.now(), who, handle_error.reason)
    ON CONFLICT (error_group) DO UPDATE SET handled_at = excluded.handled_at, handled_by = excluded.handled_by,
        reason = excluded.reason;
    PERFORM rota.write_audit(who, 'error.handled', 'error', seen.id, jsonb_build_object('standing', seen.standing),
        jsonb_build_object('standing', 'handled', 'error_type', seen.error_type, 'failures', seen.failures),
        handle_error.reason);
END $$;

-- A failed run is marked as handled: somebody has looked, and it needs no attention any more. It stays failed.
-- Called by: sql/runs/handle.sql, users.
CREATE FUNCTION rota.handle_run(run_id bigint, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET lock_timeout = '5s' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    who   text := coalesce(handle_run.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    place record := rota.find_ended(handle_run.run_id);
    old   record;
BEGIN
    IF place.state IS DISTINCT FROM 'failed' THEN
        place.state := coalesce((SELECT o.state FROM rota.open_runs o WHERE o.id = handle_run.run_id), place.state);
        IF place.state IS NULL THEN
            RAISE EXCEPTION 'there is no run %', handle_run.run_id USING ERRCODE = 'RO004';
        END IF;
        RAISE EXCEPTION 'run % is %', handle_run.run_id, place.state
            USING ERRCODE = 'RO005', HINT = 'Only a run that failed permanently can be handled.';
    END IF;
    SELECT e.tenant, h.handled_by INTO old
    FROM rota.ended_runs e LEFT JOIN LATERAL rota.handled(e.id, e.error_group, e.finished_at) h ON true
    WHERE e.id = handle_run.run_id AND e.keep_class = place.keep_class AND e.finished_at = place.finished_at;
    IF old.handled_by IS NOT NULL THEN
        RAISE EXCEPTION 'run % was already handled by %', handle_run.run_id, old.handled_by USING ERRCODE = 'RO005';
    END IF;
    INSERT INTO rota.handled_runs AS h (run_id, handled_at, handled_by, reason)
    VALUES (handle_run.run_id, rota.now(), who, handle_run.reason)
    ON CONFLICT (run_id) DO UPDATE SET handled_at = excluded.handled_at, handled_by = excluded.handled_by,
        reason = excluded.reason;
    PERFORM rota.write_audit(who, 'run.handled', 'run', handle_run.run_id::text, NULL, NULL, handle_run.reason,
        old.tenant);
END $$;

-- Who has seen to a failed run: the run itself is handled, or its group up to then.
-- Called by: dead_letters, handle_run, sql/runs/fitting.sql, sql/runs/handled.sql.
CREATE FUNCTION rota.handled(run_id bigint, error_group text, finished_at timestamptz)
RETURNS TABLE (handled_at timestamptz, handled_by text, reason text) LANGUAGE sql STABLE AS $$
    SELECT h.handled_at, h.handled_by, h.reason FROM (
        SELECT r.handled_at, r.handled_by, r.reason FROM rota.handled_runs r WHERE r.run_id = handled.run_id
        UNION ALL
        SELECT g.handled_at, g.handled_by, g.reason FROM rota.handled_errors g
        WHERE g.error_group = handled.error_group) h
    WHERE h.handled_at >= handled.finished_at ORDER BY h.handled_at LIMIT 1
$$;

-- An error group that was marked as handled needs attention again.
-- Called by: sql/errors/reopen.sql, users.
CREATE FUNCTION rota.reopen_error(error_group text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET lock_timeout = '5s' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    old rota.handled_errors;
BEGIN
    IF NOT EXISTS (SELECT FROM rota.error_groups g WHERE g.id = reopen_error.error_group) THEN
        RAISE EXCEPTION 'there is no error group %', reopen_error.error_group USING ERRCODE = 'RO012';
    END IF;
    DELETE FROM rota.handled_errors h WHERE h.error_group = reopen_error.error_group RETURNING h.* INTO old;
    IF old.error_group IS NULL THEN
        RAISE EXCEPTION 'error group % is not handled', reopen_error.error_group USING ERRCODE = 'RO005';
    END IF;
    PERFORM rota.write_audit(reopen_error.actor, 'error.reopened', 'error', old.error_group,
        jsonb_build_object('handled_by', old.handled_by, 'handled_at', old.handled_at, 'reason', old.reason), NULL,
        reopen_error.reason);
END $$;

-- A failed run that was marked as handled needs attention again.
-- Called by: sql/runs/reopen.sql, users.
CREATE FUNCTION rota.reopen_run(run_id bigint, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET lock_timeout = '5s' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    place record := rota.find_ended(reopen_run.run_id);
    old   rota.handled_runs;
BEGIN
    IF place.state IS NULL AND NOT EXISTS (SELECT FROM rota.open_runs o WHERE o.id = reopen_run.run_id) THEN
        RAISE EXCEPTION 'there is no run %', reopen_run.run_id USING ERRCODE = 'RO004';
    END IF;
    DELETE FROM rota.handled_runs h WHERE h.run_id = reopen_run.run_id RETURNING h.* INTO old;
    IF old.run_id IS NULL THEN
        RAISE EXCEPTION 'run % is not handled', reopen_run.run_id
            USING ERRCODE = 'RO005', HINT = 'If its error group is handled, reopen the group.';
    END IF;
    PERFORM rota.write_audit(reopen_run.actor, 'run.reopened', 'run', old.run_id::text,
        jsonb_build_object('handled_by', old.handled_by, 'handled_at', old.handled_at, 'reason', old.reason), NULL,
        reopen_run.reason, coalesce((SELECT e.tenant FROM rota.ended_runs e
            WHERE e.id = old.run_id AND e.finished_at = place.finished_at), ''));
END $$;

CREATE VIEW rota.errors AS
SELECT g.id, g.error_type, g.error, g.file, g.line, g.function, g.is_system, g.first_seen_at, g.last_seen_at,
    g.failures, g.runs, g.last_run_id,
       CASE WHEN h.handled_at >= g.last_seen_at THEN 'handled'
            WHEN g.last_seen_at < n.now - interval '7 days' THEN 'quiet'
            WHEN h.handled_at IS NOT NULL OR g.returned_at > n.now - interval '7 days' THEN 'back'
            WHEN g.first_seen_at > n.now - interval '1 day' THEN 'new'
            ELSE 'known' END AS standing,
       g.returned_at, g.quiet_since, h.handled_at, h.handled_by, h.reason AS handled_reason
FROM rota.error_groups g CROSS JOIN (SELECT rota.now() AS now OFFSET 0) n LEFT JOIN rota.handled_errors h
    ON h.error_group = g.id;
COMMENT ON VIEW rota.errors
    IS 'Failures grouped by type, place and message: how often, since when, and who handled them.';

-- Every final failure, whatever its end_reason.
CREATE VIEW rota.dead_letters AS
SELECT e.id, e.job, e.queue, e.tenant, e.priority, e.payload, e.attempts_used, e.max_attempts, e.error_type, e.error,
       e.end_reason, coalesce(e.tags, '{}') AS tags, e.schedule, e.created_at, e.finished_at, e.error_group,
       h.handled_at, h.handled_by, h.reason AS handled_reason
FROM rota.ended_runs e LEFT JOIN LATERAL rota.handled(e.id, e.error_group, e.finished_at) h ON true
WHERE e.state = 'failed';
COMMENT ON VIEW rota.dead_letters IS 'Runs that failed permanently, until they are retried or removed by retention.';

-- 26_retention.sql

-- How long history is kept. A run goes to partitions by its class (`keep_rules`: short, standard, long);
-- `prune_runs`, `prune_rows`, `prune_lines` remove what is past its time, in small steps, whole partitions where
-- that is possible. `pruning_runs` and `pruning_logs` keep two passes apart.

-- What is kept for a shorter time than usual: in partitions of its own, so that each of them goes as a whole.
CREATE TABLE rota.ended_runs_short PARTITION OF rota.ended_runs FOR
    VALUES IN ('short') PARTITION BY RANGE (finished_at);

-- What is kept for longer than usual.
CREATE TABLE rota.ended_runs_long PARTITION OF rota.ended_runs FOR VALUES IN ('long') PARTITION BY RANGE (finished_at);

-- Few partitions beat many: what is kept for a year lies in stretches of four weeks.
INSERT INTO rota.partitioned VALUES ('ended_runs_short', 7), ('ended_runs_long', 28);
SELECT rota.ensure_partitions(rota.now() - interval '1 day', rota.now() + interval '7 days');

-- What a job's runs are kept in, by outcome: short, standard or long. Only what differs from standard has a row; job
-- '': of every job that says nothing. A finish looks once whether there is any.
CREATE TABLE rota.keep_rules (
    job        text COLLATE "C" NOT NULL,
    state      text COLLATE "C" NOT NULL CHECK (state IN ('succeeded', 'failed', 'cancelled')),
    keep_class text COLLATE "C" NOT NULL CHECK (keep_class IN ('short', 'standard', 'long')),
    PRIMARY KEY (job, state)
);

-- The class of partitions that a run of this job with this end goes to.
-- Called by: end_waiting_runs.
CREATE FUNCTION rota.keep_class_of(job text, state text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT k.keep_class FROM rota.keep_rules k
        WHERE k.job = keep_class_of.job AND k.state = keep_class_of.state),
                    (SELECT k.keep_class FROM rota.keep_rules k WHERE k.job = '' AND k.state = keep_class_of.state),
                    'standard')
$$;

-- The class of partitions for what is kept so many days: short, standard or long.
-- Called by: write_keep_rules.
CREATE FUNCTION rota.keep_class_for(days integer, defaults jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN days <= (defaults ->> 'short_days')::integer THEN 'short'
                WHEN days <= (defaults ->> 'run_days')::integer THEN 'standard' ELSE 'long' END
$$;

-- For how many days a run that ended like this is kept. A job that says one number means it for failures too.
-- Called by: write_keep_rules.
CREATE FUNCTION rota.run_days(policy jsonb, state text, defaults jsonb) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(CASE WHEN state = 'failed' THEN policy ->> 'failed_days' END, policy ->> 'days',
                    CASE WHEN state = 'failed' THEN defaults ->> 'failed_run_days' END,
                    defaults ->> 'run_days')::integer
$$;

-- Trigger: a policy of retention follows the code until somebody touches it.
CREATE FUNCTION rota.check_retention() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    longest integer := (SELECT (s.retention ->> 'long_days')::integer FROM rota.settings s);
    part    record;
BEGIN
    IF rota.is_syncing() AND NEW.code ? 'retention' AND NOT NEW.edited ? 'retention' THEN
        NEW.retention := nullif(NEW.code -> 'retention', 'null');
    END IF;
    IF jsonb_typeof(NEW.retention) <> 'object' THEN
        PERFORM rota.bad_job(NEW.name, format('retention must be a JSON object, not %s', NEW.retention));
    END IF;
    FOR part IN SELECT * FROM jsonb_each(NEW.retention) LOOP
        IF part.key NOT IN ('days', 'count', 'failed_days', 'failed_count', 'log_days', 'log_count', 'failed_log_days')
            THEN
            PERFORM rota.bad_job(NEW.name, format('retention has an unknown option "%s"', part.key),
                'Choose from days, count, failed_days, failed_count, log_days, log_count, failed_log_days.');
        ELSIF part.value <> 'null' AND (jsonb_typeof(part.value) <> 'number' OR part.value::numeric < 1
            OR part.value::numeric % 1 <> 0) THEN
            PERFORM rota.bad_job(NEW.name, format('retention option "%s" must be a whole number of at least 1, not %s',
                part.key, part.value));
        ELSIF part.value <> 'null' AND part.key LIKE '%days' AND part.value::numeric > longest THEN
            PERFORM rota.bad_job(NEW.name, format('retention option "%s" must be at most %s days, not %s',
                part.key, longest, part.value), 'Raise long_days in [retention] of the configuration.');
        END IF;
    END LOOP;
    RETURN NEW;
END $$;
CREATE TRIGGER jobs_retention BEFORE INSERT OR UPDATE OF code, retention ON rota.jobs FOR EACH ROW
    EXECUTE FUNCTION rota.check_retention();

-- Writes the rules of one job from its policy; of_job NULL: of all jobs, and what holds for jobs without a policy.
-- Called by: configure_retention, follow_retention.
CREATE FUNCTION rota.write_keep_rules(of_job text) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    defaults jsonb := (SELECT s.retention FROM rota.settings s);
BEGIN
    DELETE FROM rota.keep_rules k WHERE of_job IS NULL OR k.job = of_job;
    INSERT INTO rota.keep_rules (job, state, keep_class)
    SELECT p.job, p.state, p.own FROM (
        SELECT j.name AS job, s.state, rota.keep_class_for(rota.run_days(j.retention, s.state, defaults),
               defaults) AS own, rota.keep_class_for(rota.run_days(NULL, s.state, defaults), defaults) AS usual
        FROM (SELECT name, retention FROM rota.jobs WHERE retention IS NOT NULL AND (of_job IS NULL OR name = of_job)
              UNION ALL SELECT '', NULL WHERE of_job IS NULL) j
        CROSS JOIN unnest('{succeeded,failed,cancelled}'::text[]) AS s (state)) p
    WHERE p.own <> 'standard' OR (p.job <> '' AND p.usual <> 'standard');
END $$;

-- Trigger: the rules of retention follow what a job says.
CREATE FUNCTION rota.follow_retention() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM rota.keep_rules k WHERE k.job = OLD.name;
    ELSIF (CASE WHEN TG_OP = 'UPDATE' THEN OLD.retention END) IS DISTINCT FROM NEW.retention THEN
        PERFORM rota.write_keep_rules(NEW.name);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_retention_rules AFTER INSERT OR UPDATE OR DELETE ON rota.jobs FOR EACH ROW
    EXECUTE FUNCTION rota.follow_retention();

-- Sets what is kept for how long; false if nothing changed. The rules by job follow.
-- Called by: sql/retention/configure.sql.
CREATE FUNCTION rota.configure_retention(wanted jsonb) RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    UPDATE rota.settings s SET retention = wanted WHERE s.retention <> wanted;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM rota.write_keep_rules(NULL);
    RETURN true;
END $$;

-- Every partition of the history, those too that were detached and not yet dropped. Their names say from when they are.
-- Called by: detach_part, drop_part, sql/retention/parts.sql, sql/tenants/stretches.sql.
CREATE FUNCTION rota.history_parts() RETURNS TABLE (
    parent text, partition text, relation oid, from_at timestamptz, to_at timestamptz, state text,
    estimated_rows bigint, bytes bigint
) LANGUAGE sql STABLE AS $$
    SELECT r.parent, c.relname::text, c.oid, d.first::timestamp AT TIME ZONE 'UTC',
        (d.first + r.days)::timestamp AT TIME ZONE 'UTC',
           CASE WHEN i.inhrelid IS NULL THEN 'detached' WHEN i.inhdetachpending THEN 'detaching' ELSE 'attached' END,
           greatest(c.reltuples, 0)::bigint, pg_total_relation_size(c.oid)
    FROM rota.partitioned r
    JOIN pg_class own ON own.oid = 'rota.jobs'::regclass
    JOIN pg_class c ON c.relnamespace = own.relnamespace AND c.relkind = 'r'
        AND c.relname ~ ('^' || r.parent || '_[0-9]{8}$')
    CROSS JOIN LATERAL (SELECT to_date(right(c.relname, 8), 'YYYYMMDD') AS first) d
    LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
$$;

-- A pass of retention is many transactions: it holds one of these from a transaction of its own, which changes nothing.
CREATE TABLE rota.pruning_runs ();

-- The same, for passes over log lines.
CREATE TABLE rota.pruning_logs ();

-- Removes runs of one job that ended like this, up to a place in their order; the oldest first, a portion at a time.
-- A class may be left to the dropping of its partitions. What somebody works on just now is left for the next pass.
-- Called by: sql/retention/prune_runs.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.prune_runs(of_job text, of_states text[], upto_at timestamptz, upto_id bigint, spared_class text,
    max_runs integer)
RETURNS integer LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET plan_cache_mode = force_custom_plan
SET jit = off AS $$
DECLARE
    ids   bigint[];
    since timestamptz;
    first timestamptz;
    last  timestamptz;
BEGIN
    SELECT array_agg(p.id), min(p.created_at), min(p.finished_at), max(p.finished_at) INTO ids, since, first, last
    FROM (SELECT r.id, r.created_at, r.finished_at FROM rota.ended_runs r
          WHERE r.job = of_job AND r.state = ANY (of_states) AND r.finished_at <= upto_at
            AND (r.finished_at < upto_at OR r.id <= upto_id)
            AND r.keep_class <> spared_class
          ORDER BY r.finished_at LIMIT max_runs FOR UPDATE SKIP LOCKED) p;
    IF ids IS NULL THEN
        RETURN 0;
    END IF;
    DELETE FROM rota.ended_runs r WHERE r.id = ANY (ids) AND r.finished_at BETWEEN first AND last;
    PERFORM rota.delete_traces(ids, since);
    RETURN cardinality(ids);
END $$;

-- Removes rows of the small tables that are kept by time, the oldest first, so many at most. `part` names the table,
-- as in store/retention/retention.py.
-- Called by: sql/retention/prune_rows.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.prune_rows(relation text, before_at timestamptz, max_rows integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    removed integer;
BEGIN
    CASE relation
    WHEN 'rollups' THEN
        DELETE FROM rota.rollup_minutes r WHERE r.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.rollup_minutes o WHERE o.minute < before_at ORDER BY o.minute LIMIT max_rows
            FOR UPDATE SKIP LOCKED));
    WHEN 'rollup_sums' THEN
        DELETE FROM rota.rollup_spans r WHERE r.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.rollup_spans o WHERE o.span <> 'ever' AND o.started_at < before_at LIMIT max_rows
            FOR UPDATE SKIP LOCKED));
    WHEN 'schedule_days' THEN
        DELETE FROM rota.schedule_days d WHERE d.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.schedule_days o WHERE o.day < (before_at AT TIME ZONE 'UTC')::date LIMIT max_rows
            FOR UPDATE SKIP LOCKED));
    WHEN 'id_marks' THEN
        DELETE FROM rota.id_marks m WHERE m.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.id_marks o WHERE o.at < before_at LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'audit' THEN
        -- Ids rise with the time: nothing behind the first that is young enough is looked at.
        DELETE FROM rota.audit a WHERE a.id IN (
            SELECT o.id FROM (SELECT e.id, e.at FROM rota.audit e ORDER BY e.id LIMIT max_rows) o
            WHERE o.at < before_at);
    WHEN 'backfill_times' THEN
        DELETE FROM rota.backfill_times t WHERE (t.backfill_id, t.nominal_at) IN (
            SELECT o.backfill_id, o.nominal_at FROM rota.backfill_times o JOIN rota.old_backfills(before_at) b
                ON b = o.backfill_id
            LIMIT max_rows FOR UPDATE OF o SKIP LOCKED);
    WHEN 'backfills' THEN
        DELETE FROM rota.backfills b WHERE b.id IN (
            SELECT o FROM rota.old_backfills(before_at) o
            WHERE NOT EXISTS (SELECT FROM rota.backfill_times t WHERE t.backfill_id = o) LIMIT max_rows);
    WHEN 'schedules' THEN
        PERFORM rota.act_as('rota');
        DELETE FROM rota.schedules s WHERE s.id = ANY (ARRAY(
            SELECT o.id FROM rota.schedules o WHERE o.id IN (SELECT rota.old_schedules(before_at)) LIMIT max_rows
            FOR UPDATE SKIP LOCKED));
    WHEN 'init_runs' THEN
        DELETE FROM rota.init_runs i WHERE (i.schedule_id, i.marker) IN (
            SELECT o.schedule_id, o.marker FROM rota.init_runs o WHERE rota.is_old_init(o, before_at) LIMIT max_rows
            FOR UPDATE SKIP LOCKED);
    WHEN 'error_counts' THEN
        DELETE FROM rota.error_counts c WHERE c.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.error_counts o WHERE o.at < before_at ORDER BY o.at LIMIT max_rows
            FOR UPDATE SKIP LOCKED));
    WHEN 'error_groups' THEN
        RETURN rota.forget_errors(ARRAY(SELECT g.id FROM rota.error_groups g WHERE g.last_seen_at < before_at
                                        ORDER BY g.last_seen_at LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'handled_runs' THEN
        DELETE FROM rota.handled_runs h WHERE h.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.handled_runs o WHERE o.handled_at < before_at ORDER BY o.handled_at LIMIT max_rows
            FOR UPDATE SKIP LOCKED));
    WHEN 'bulk_actions' THEN
        -- One that runs or is paused stays, however old.
        DELETE FROM rota.bulk_actions b WHERE b.id = ANY (ARRAY(
            SELECT o.id FROM rota.bulk_actions o WHERE o.finished_at < before_at ORDER BY o.id LIMIT max_rows
            FOR UPDATE SKIP LOCKED));
    END CASE;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;

-- Removes attempts and lines of the runs in a partition that was detached, a portion at a time: returns where to go
-- on (NULL: done). Only a run that was claimed more than once can have attempts beside its own.
-- Called by: sql/retention/prune_traces.sql.
CREATE FUNCTION rota.prune_traces(partition text, after_id bigint, with_logs boolean, max_runs integer,
    OUT last_id bigint, OUT removed bigint)
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    ids   bigint[];
    since timestamptz;
BEGIN
    EXECUTE format('SELECT array_agg(p.id), max(p.id), min(p.created_at)
                    FROM (SELECT id, created_at FROM rota.%I WHERE id > $1 AND ($3 OR attempt > 1) ORDER BY id
                        LIMIT $2) p', partition)
    INTO ids, last_id, since USING after_id, max_runs, with_logs;
    removed := CASE WHEN ids IS NULL THEN 0 ELSE rota.delete_traces(ids, since) END;
END $$;

-- Removes lines of one job between two instants, about so many at a time: returns up to where it came (NULL: done).
-- Those of failed runs may be spared.
-- Called by: sql/retention/prune_lines.sql.
CREATE FUNCTION rota.prune_lines(of_job text, after_at timestamptz, before_at timestamptz, spare_failed boolean,
    max_lines integer, OUT last_at timestamptz, OUT removed bigint) LANGUAGE plpgsql VOLATILE SET enable_seqscan = off
SET plan_cache_mode = force_custom_plan SET jit = off AS $$
BEGIN
    SELECT max(p.at) INTO last_at FROM (
        SELECT l.at FROM rota.logs l WHERE l.job = of_job AND l.at > after_at AND l.at < before_at
        ORDER BY l.at LIMIT max_lines) p;
    DELETE FROM rota.logs l WHERE l.job = of_job AND l.at > after_at AND l.at <= last_at
        AND NOT (spare_failed AND EXISTS (SELECT FROM rota.ended_runs r WHERE r.id = l.run_id AND r.state = 'failed'
            AND r.finished_at >= after_at));
    GET DIAGNOSTICS removed = ROW_COUNT;
END $$;

-- Removes lines of all jobs but these, in one partition, some pages at a time: returns where to go on (NULL: done).
-- Called by: sql/retention/prune_log_pages.sql.
CREATE FUNCTION rota.prune_log_pages(partition text, kept_jobs text[], from_page bigint, pages integer,
    OUT next_page bigint, OUT removed bigint)
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    EXECUTE format('DELETE FROM ONLY rota.%I WHERE ctid >= $1 AND ctid < $2 AND job <> ALL ($3)', partition)
    USING format('(%s,0)', from_page)::tid, format('(%s,0)', from_page + pages)::tid, kept_jobs;
    GET DIAGNOSTICS removed = ROW_COUNT;
    next_page := CASE WHEN from_page + pages < pg_relation_size(format('rota.%I', partition)::regclass) /
        current_setting('block_size')::integer
                 THEN from_page + pages END;
END $$;

-- Finished schedules that retention may delete: not Rota's own, not one that has a run to come or that another one
-- requires. What code declares would be made again by it: that goes only where it cannot run again.
-- Called by: prune_rows, sql/retention/count_rows.sql.
CREATE FUNCTION rota.old_schedules(before_at timestamptz) RETURNS SETOF bigint LANGUAGE sql STABLE SET jit = off AS $$
    SELECT s.id FROM rota.schedules s
    WHERE s.finished_at < before_at AND NOT s.is_system
      AND (s.origin IS NULL OR s.run_at < before_at OR s.end_at < before_at)
      AND NOT EXISTS (SELECT FROM rota.open_runs o WHERE o.schedule_id = s.id)
      AND (s.tenant, s.name) NOT IN (SELECT r.tenant, q ->> 'name'
          FROM rota.schedules r, jsonb_array_elements(r.requires) q WHERE q ? 'name')
$$;

-- Backfills that retention may delete. One of which a run is still to come stays whole.
-- Called by: prune_rows, sql/retention/count_rows.sql.
CREATE FUNCTION rota.old_backfills(before_at timestamptz) RETURNS SETOF bigint LANGUAGE sql STABLE SET jit = off AS $$
    SELECT b.id FROM rota.backfills b
    WHERE b.created_at < before_at
      AND NOT EXISTS (SELECT FROM rota.backfill_times t JOIN rota.open_runs o ON o.id = t.run_id
          WHERE t.backfill_id = b.id)
$$;

-- 27_metrics.sql

-- Counts that are kept and not counted again: `rollup_minutes` and `rollup_spans` (attempts by job, queue and
-- outcome, with a histogram), `counts` (what the database sees), `job_counts`, `depths` (what waits), `samples`.
-- Writers append, somebody folds: no two of them wait for one another. View: `job_status`.

-- Two histograms, bucket by bucket.
-- Called by: fold_counts, sum_buckets.
CREATE FUNCTION rota.add_buckets(a bigint[], b bigint[]) RETURNS bigint[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT array_agg(x + y ORDER BY n) FROM unnest(a, b) WITH ORDINALITY AS t (x, y, n)
$$;

-- The sum of histograms.
-- Called by: fold_counts, sql/metrics/counters.sql, take_sample.
CREATE AGGREGATE rota.sum_buckets(bigint[]) (SFUNC = rota.add_buckets, STYPE = bigint[]);

-- A histogram as one number, sixteen digits a bucket, so that sums of numbers are sums of histograms
-- (docs/decisions/0016-histograms-as-numbers.md).
-- Called by: take_sample.
CREATE FUNCTION rota.pack_buckets(buckets bigint[]) RETURNS numeric LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT string_agg(lpad(b.count::text, 16, '0'), '' ORDER BY b.n DESC)::numeric
    FROM unnest(buckets) WITH ORDINALITY AS b (count, n)
$$;

-- The buckets of a histogram that pack_buckets made one number, or of a sum of such numbers. For scripts and psql:
-- the program reads them by itself (model/histogram.py).
CREATE FUNCTION rota.unpack_buckets(histogram numeric) RETURNS bigint[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT array_agg(substr(d.digits, 625 - 16 * n, 16)::bigint ORDER BY n)
    FROM (SELECT lpad(histogram::text, 640, '0') AS digits OFFSET 0) AS d, generate_series(0, 39) AS n
$$;

-- Attempts per minute, job, queue and outcome. Each worker writes rows of its own, so that no two of them ever wait for
-- one another; when a minute is over it is folded into one row for all.
CREATE TABLE rota.rollup_minutes (
    minute      timestamptz NOT NULL,
    job         text COLLATE "C" NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    outcome     text COLLATE "C" NOT NULL,  -- a state of an attempt
    worker      bigint NOT NULL,            -- 0: folded
    attempts    bigint NOT NULL,
    duration_ms double precision NOT NULL,  -- their sum
    longest_ms  real NOT NULL,
    -- how many lasted up to 2^n microseconds, n from 0 to 39
    histogram   numeric NOT NULL CHECK (histogram >= 0 AND scale(histogram) = 0),
    PRIMARY KEY (minute, job, queue, outcome, worker)
);
CREATE INDEX rollup_minutes_job ON rota.rollup_minutes (job, minute);
CREATE INDEX rollup_minutes_unfolded ON rota.rollup_minutes (minute) WHERE worker <> 0;

-- The same of longer spans, and of all that ever was. Rows of job '' are for all jobs of a queue, those of job '' and
-- queue '' for everything. Minutes of single jobs are not here: a minute is added when it is folded.
CREATE TABLE rota.rollup_spans (
    span        text COLLATE "C" NOT NULL CHECK (span IN ('minute', 'hour', 'day', 'ever')),
    started_at  timestamptz NOT NULL,  -- -infinity: ever
    job         text COLLATE "C" NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    outcome     text COLLATE "C" NOT NULL,
    attempts    bigint NOT NULL,
    duration_ms double precision NOT NULL,
    longest_ms  real NOT NULL,
    histogram   numeric NOT NULL CHECK (histogram >= 0 AND scale(histogram) = 0),
    first_at    timestamptz NOT NULL,  -- the first minute that it holds
    PRIMARY KEY (span, started_at, job, queue, outcome)
) WITH (fillfactor = 70);
-- Of one job, whichever queue; of one queue, and of everything.
CREATE INDEX rollup_spans_job ON rota.rollup_spans (span, job, started_at);
CREATE INDEX rollup_spans_queue ON rota.rollup_spans (span, job, queue, started_at);

-- Adds what a worker has counted since it last wrote. Sorted, like every writer of many rows.
-- Called by: count_attempt, sql/metrics/add_rollups.sql.
CREATE FUNCTION rota.add_tallies(
    for_worker bigint, jobs text[], queues text[], outcomes text[], attempts integer[],
    durations_ms double precision[], longests_ms real[], histograms numeric[]
) RETURNS void LANGUAGE sql VOLATILE SET jit = off AS $$
    INSERT INTO rota.rollup_minutes AS r (minute, job, queue, outcome, worker, attempts, duration_ms, longest_ms,
        histogram)
    SELECT date_trunc('minute', (SELECT rota.now())), t.job, t.queue, t.outcome, for_worker, t.attempts, t.duration_ms,
        t.longest_ms, t.histogram
    FROM unnest(jobs, queues, outcomes, attempts, durations_ms, longests_ms, histograms)
         AS t (job, queue, outcome, attempts, duration_ms, longest_ms, histogram)
    ORDER BY t.job, t.queue, t.outcome
    ON CONFLICT (minute, job, queue, outcome, worker) DO UPDATE SET
        attempts = r.attempts + excluded.attempts,
        duration_ms = r.duration_ms + excluded.duration_ms,
        longest_ms = greatest(r.longest_ms, excluded.longest_ms),
        histogram = r.histogram + excluded.histogram
$$;

-- The longer spans that a minute belongs to.
-- Called by: fold_rollups.
CREATE FUNCTION rota.spans_of(minute timestamptz) RETURNS TABLE (span text, started_at timestamptz)
LANGUAGE sql IMMUTABLE AS $$
    VALUES ('minute', minute),
           ('hour', date_trunc('hour', minute AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'),
           ('day', date_trunc('day', minute AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'),
           ('ever', '-infinity'::timestamptz)
$$;

-- Folds minutes that are over into one row for all workers, one minute at a time, and adds them to the longer spans. A
-- worker writes every second, into the minute of the moment: after five seconds hardly anything still comes, and what
-- comes is folded the next time.
-- Called by: sql/upkeep/fold_rollups.sql.
-- Locks: "rollups" if it is free.
CREATE FUNCTION rota.fold_rollups(max_minutes integer) RETURNS integer LANGUAGE plpgsql VOLATILE SET jit = off
SET lock_timeout = '5s' AS $$
DECLARE
    closed timestamptz;
    folded integer := 0;
BEGIN
    IF NOT rota.try_lock('rollups') THEN
        RETURN 0;
    END IF;
    FOR closed IN
        SELECT DISTINCT r.minute FROM rota.rollup_minutes r
        WHERE r.worker <> 0 AND r.minute < date_trunc('minute', rota.now() - interval '5 seconds')
        ORDER BY r.minute LIMIT max_minutes
    LOOP
        WITH gone AS (
            DELETE FROM rota.rollup_minutes r WHERE r.minute = closed RETURNING r.*
        ), kept AS (
            INSERT INTO rota.rollup_minutes (minute, job, queue, outcome, worker, attempts, duration_ms, longest_ms,
                histogram)
            SELECT minute, job, queue, outcome, 0, sum(attempts), sum(duration_ms), max(longest_ms), sum(histogram)
            FROM gone GROUP BY minute, job, queue, outcome
        ), fresh AS (
            -- What somebody wrote late into a minute that was folded before: only that is new.
            SELECT job, queue, outcome, sum(attempts) AS attempts, sum(duration_ms) AS duration_ms,
                   max(longest_ms) AS longest_ms, sum(histogram) AS histogram
            FROM gone WHERE worker <> 0 GROUP BY GROUPING SETS ((job, queue, outcome), (queue, outcome), (outcome))
        )
        INSERT INTO rota.rollup_spans AS t (span, started_at, job, queue, outcome, attempts, duration_ms, longest_ms,
            histogram, first_at)
        SELECT s.span, s.started_at, coalesce(f.job, ''), coalesce(f.queue, ''), f.outcome, f.attempts, f.duration_ms,
               f.longest_ms, f.histogram, closed
        FROM fresh f CROSS JOIN rota.spans_of(closed) s
        WHERE s.span <> 'minute' OR f.job IS NULL
        ORDER BY 1, 2, 3, 4, 5
        ON CONFLICT (span, started_at, job, queue, outcome) DO UPDATE SET
            attempts = t.attempts + excluded.attempts,
            duration_ms = t.duration_ms + excluded.duration_ms,
            longest_ms = greatest(t.longest_ms, excluded.longest_ms),
            histogram = t.histogram + excluded.histogram,
            first_at = least(t.first_at, excluded.first_at);
        folded := folded + 1;
    END LOOP;
    RETURN folded;
END $$;

-- Counts that only grow, by name and labels.
CREATE TABLE rota.counts (
    name    text COLLATE "C" NOT NULL,
    labels  jsonb NOT NULL,
    amount  bigint NOT NULL,
    total   double precision NOT NULL,
    buckets bigint[],
    at      timestamptz NOT NULL,  -- of the last change, by the real clock
    PRIMARY KEY (name, labels)
) WITH (fillfactor = 70);

-- What happens and is no attempt: appended, so that nobody waits for anybody, and folded by upkeep. A
-- figure may have a sum and buckets, as those of roll-ups.
CREATE TABLE rota.count_changes (
    name    text COLLATE "C" NOT NULL,
    labels  jsonb NOT NULL DEFAULT '{}',
    amount  bigint NOT NULL,
    total   double precision NOT NULL DEFAULT 0,
    buckets bigint[],
    at      timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Appends what a worker has counted since it last wrote.
-- Called by: sql/metrics/add_counters.sql.
CREATE FUNCTION rota.add_counts(names text[], labels text[], amounts bigint[], totals double precision[],
    all_buckets text[])
RETURNS void LANGUAGE sql VOLATILE SET jit = off AS $$
    INSERT INTO rota.count_changes (name, labels, amount, total, buckets)
    SELECT c.name, c.labels::jsonb, c.amount, c.total, c.buckets::bigint[]
    FROM unnest(names, labels, amounts, totals, all_buckets) AS c (name, labels, amount, total, buckets)
$$;

-- Moves what was appended to rota.count_changes into rota.counts. One folder at a time (lock "counts"); writers
-- never wait for it.
-- Called by: sql/upkeep/fold_counters.sql.
-- Locks: "counts" if it is free.
CREATE FUNCTION rota.fold_counts() RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off SET lock_timeout = '5s' AS $$
BEGIN
    IF NOT rota.try_lock('counts') THEN
        RETURN;
    END IF;
    WITH gone AS (
        DELETE FROM rota.count_changes RETURNING name, labels, amount, total, buckets, at
    )
    INSERT INTO rota.counts AS c (name, labels, amount, total, buckets, at)
    SELECT name, labels, sum(amount), sum(total), rota.sum_buckets(buckets) FILTER (WHERE buckets IS NOT NULL), max(at)
    FROM gone GROUP BY name, labels
    ON CONFLICT (name, labels) DO UPDATE SET
        amount = c.amount + excluded.amount, total = c.total + excluded.total,
        buckets = coalesce(rota.add_buckets(c.buckets, excluded.buckets), c.buckets, excluded.buckets),
        at = greatest(c.at, excluded.at);
END $$;

-- Trigger: counts ends of runs other than success. Successes are counted by their attempts, so that one costs
-- nothing here.
CREATE FUNCTION rota.count_run_end() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    INSERT INTO rota.count_changes (name, labels, amount)
    VALUES ('runs_ended', jsonb_build_object('job', NEW.job, 'queue', NEW.queue, 'state', NEW.state), 1);
    RETURN NULL;
END $$;
CREATE TRIGGER ended_runs_zcount AFTER INSERT ON rota.ended_runs FOR EACH ROW WHEN (NEW.state <> 'succeeded')
EXECUTE FUNCTION rota.count_run_end();

-- Counts one attempt. The row is this session's own, so that nobody waits for anybody.
-- Called by: count_lost_attempt, count_lost_end, sql/runs/time_out.sql.
CREATE FUNCTION rota.count_attempt(job text, queue text, outcome text, duration_ms double precision) RETURNS void
LANGUAGE sql VOLATILE SET jit = off AS $$
    SELECT rota.add_tallies(-pg_backend_pid(), ARRAY[job], ARRAY[queue], ARRAY[outcome], ARRAY[1], ARRAY[d.ms],
        ARRAY[d.ms::real],
        -- Bucket n holds what lasted less than 2^n microseconds.
        ARRAY[trunc(10::numeric ^ (16 * width_bucket(d.ms * 1000, ARRAY(SELECT 2::double precision ^ n
            FROM generate_series(0, 38) AS n))))])
    FROM (SELECT greatest(coalesce(duration_ms, 0), 0) AS ms) d
$$;

-- Trigger: counts a lost attempt that becomes a past one. With attempts left that happens while its run is still its
-- worker's. A retry of a run whose last attempt was lost writes such a row too, of an attempt that was counted when
-- the run ended.
CREATE FUNCTION rota.count_lost_attempt() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    PERFORM rota.count_attempt(o.job, o.queue, 'lost', rota.lost_duration_ms(NEW.worker, NEW.started_at))
    FROM rota.open_runs o WHERE o.id = NEW.run_id AND o.attempt = NEW.attempt AND o.worker = NEW.worker;
    RETURN NULL;
END $$;
CREATE TRIGGER past_attempts_lost AFTER INSERT ON rota.past_attempts FOR EACH ROW WHEN (NEW.state = 'lost')
EXECUTE FUNCTION rota.count_lost_attempt();

-- Trigger: counts a last attempt that was lost. A worker that lives has counted what it writes: a suspect that took
-- only its own process with it.
CREATE FUNCTION rota.count_lost_end() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    PERFORM rota.count_attempt(NEW.job, NEW.queue, 'lost', rota.lost_duration_ms(NEW.worker, NEW.started_at))
    WHERE NOT EXISTS (SELECT FROM rota.workers w WHERE w.id = NEW.worker AND w.state IN ('live', 'stopping'));
    RETURN NULL;
END $$;
CREATE TRIGGER ended_runs_zlost AFTER INSERT ON rota.ended_runs FOR EACH ROW WHEN (NEW.attempt_state = 'lost')
EXECUTE FUNCTION rota.count_lost_end();

-- How long a lost attempt took: until its worker was last heard of. started_at is by the clock of the business, a
-- heartbeat by the real one.
-- Called by: count_lost_attempt, count_lost_end.
CREATE FUNCTION rota.lost_duration_ms(of_worker bigint, since timestamptz) RETURNS double precision
LANGUAGE sql STABLE SET jit = off AS $$
    SELECT extract(epoch FROM w.heartbeat_at + s.clock_offset - since) * 1000 FROM rota.workers w, rota.settings s
    WHERE w.id = of_worker
$$;

-- Trigger: counts workers that are declared lost.
CREATE FUNCTION rota.count_lost_worker() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    INSERT INTO rota.count_changes (name, amount) VALUES ('workers_lost', 1);
    RETURN NULL;
END $$;
CREATE TRIGGER workers_lost AFTER UPDATE OF state ON rota.workers FOR EACH ROW
WHEN (NEW.state = 'lost' AND OLD.state <> 'lost') EXECUTE FUNCTION rota.count_lost_worker();

-- Trigger: counts every decision of a tick, and how long after its nominal time it was taken.
CREATE FUNCTION rota.count_decisions() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    powers constant double precision[] := ARRAY(SELECT 2::double precision ^ n FROM generate_series(0, 38) AS n);
BEGIN
    INSERT INTO rota.count_changes (name, labels, amount)
    SELECT 'occurrences', jsonb_strip_nulls(jsonb_build_object('decision', d.decision, 'reason', d.reason)),
        sum(d.count)
    FROM decided d GROUP BY d.decision, d.reason;
    INSERT INTO rota.count_changes (name, amount, total, buckets)
    SELECT 'schedule_claims', sum(b.runs), sum(b.seconds), array_agg(coalesce(b.runs, 0)::bigint ORDER BY n.n)
    FROM generate_series(0, 39) AS n (n) LEFT JOIN (
        SELECT width_bucket(c.late, powers) AS n, count(*) AS runs, sum(c.late) / 1e6 AS seconds
        FROM (SELECT greatest(0, extract(epoch FROM d.claimed_at - d.nominal_at)::double precision * 1e6) AS late
              FROM decided d WHERE d.decision = 'ran' AND d.decided_by IS NOT NULL) c GROUP BY 1) b ON b.n = n.n
    HAVING sum(b.runs) > 0;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_count AFTER INSERT ON rota.ledger REFERENCING NEW TABLE AS decided FOR EACH STATEMENT
EXECUTE FUNCTION rota.count_decisions();

-- Counts the unfinished runs of a schedule that somebody triggered: one that counts from the end of its runs does
-- not wait for them.
-- Called by: sql/schedules/read_due.sql.
CREATE FUNCTION rota.count_triggered(schedule_id bigint) RETURNS integer LANGUAGE sql STABLE
SET enable_seqscan = off SET jit = off AS $$
    SELECT count(*)::integer FROM rota.open_runs o WHERE o.schedule_id = count_triggered.schedule_id
        AND o.scheduled_for IS NULL
$$;

-- How many runs of each job have ended how, up to a moment.
CREATE TABLE rota.job_counts (
    job        text COLLATE "C" PRIMARY KEY,
    counted_to timestamptz NOT NULL,  -- those finished up to here are in the counts
    succeeded  bigint NOT NULL DEFAULT 0,
    failed     bigint NOT NULL DEFAULT 0,
    cancelled  bigint NOT NULL DEFAULT 0
);

-- Adds to rota.job_counts what has ended since the last count, up to two minutes ago: by then every end that was
-- stamped earlier is committed. One counter at a time.
-- Called by: sql/upkeep/count_runs.sql.
-- Locks: "job_counts" if it is free.
CREATE FUNCTION rota.count_ended_runs() RETURNS integer LANGUAGE plpgsql VOLATILE SET jit = off
SET lock_timeout = '5s' AS $$
DECLARE
    upto    timestamptz := rota.now() - interval '2 minutes';
    counted integer;
BEGIN
    IF NOT rota.try_lock('job_counts') THEN
        RETURN 0;
    END IF;
    INSERT INTO rota.job_counts AS c (job, counted_to, succeeded, failed, cancelled)
    SELECT j.name, upto, e.succeeded, e.failed, e.cancelled
    FROM rota.jobs j LEFT JOIN rota.job_counts c ON c.job = j.name
    CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE r.state = 'succeeded') AS succeeded,
               count(*) FILTER (WHERE r.state = 'failed') AS failed,
               count(*) FILTER (WHERE r.state = 'cancelled') AS cancelled
        FROM rota.ended_runs r
        WHERE r.job = j.name AND r.finished_at > coalesce(c.counted_to, '-infinity') AND r.finished_at <= upto
    ) e
    WHERE coalesce(c.counted_to, '-infinity') < upto AND e.succeeded + e.failed + e.cancelled > 0
    ON CONFLICT (job) DO UPDATE SET counted_to = excluded.counted_to, succeeded = c.succeeded + excluded.succeeded,
        failed = c.failed + excluded.failed, cancelled = c.cancelled + excluded.cancelled;
    GET DIAGNOSTICS counted = ROW_COUNT;
    RETURN counted;
END $$;

-- What waits and runs, counted now and then by whoever finds the last count old. As many open runs cost a reader
-- nothing then; the figures are as old as depth_marks says.
CREATE TABLE rota.depths (
    queue     text COLLATE "C" NOT NULL,
    job       text COLLATE "C" NOT NULL,
    blocked   bigint NOT NULL,
    scheduled bigint NOT NULL,
    queued    bigint NOT NULL,  -- with the held
    held      bigint NOT NULL,
    running   bigint NOT NULL,
    oldest_at timestamptz,      -- since when the oldest waits that a worker may take; real clock
    -- Counts. What is over is apart, in a column of its own: it does not wait, and is not counted among what has ended
    -- yet.
    expired   bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, job)
) WITH (fillfactor = 50);

-- One row: when depths were counted, and how long it took.
CREATE TABLE rota.depth_marks (
    is_only_row boolean PRIMARY KEY DEFAULT true CHECK (is_only_row),
    counted_at  timestamptz NOT NULL DEFAULT '-infinity',  -- real clock
    took_ms     double precision NOT NULL DEFAULT 0
);
INSERT INTO rota.depth_marks DEFAULT VALUES;

-- Counts open runs into rota.depths unless that was done less than so many seconds ago; a long count less often, so
-- that it takes under 2 % of the time, but no count that took long and no clock that was set back puts the next one
-- off for more than five minutes. Returns whether it counted.
-- Called by: read_depths, sql/upkeep/count_depths.sql.
-- Locks: "depths" if it is free.
CREATE FUNCTION rota.count_depths(max_age_seconds double precision) RETURNS boolean LANGUAGE plpgsql VOLATILE
SET jit = off SET lock_timeout = '5s' AS $$
DECLARE
    began timestamptz := clock_timestamp();
BEGIN
    IF NOT EXISTS (SELECT FROM rota.depth_marks m
                   WHERE m.counted_at <= began - make_interval(secs => greatest(max_age_seconds,
                       least(m.took_ms / 20, 300)))
                      OR m.counted_at > began + interval '1 minute')
       OR NOT rota.try_lock('depths') THEN
        RETURN false;
    END IF;
    WITH counted AS MATERIALIZED (
        SELECT * FROM rota.count_open_runs()
    ), gone AS (
        DELETE FROM rota.depths d WHERE NOT EXISTS (SELECT FROM counted c WHERE c.queue = d.queue AND c.job = d.job)
    )
    INSERT INTO rota.depths AS d (queue, job, blocked, scheduled, queued, held, running, expired, oldest_at)
    SELECT c.queue, c.job, c.blocked, c.scheduled, c.queued, c.held, c.running, c.expired, c.oldest_at FROM counted c
    ON CONFLICT (queue, job) DO UPDATE SET
        blocked = excluded.blocked, scheduled = excluded.scheduled, queued = excluded.queued, held = excluded.held,
        running = excluded.running, expired = excluded.expired, oldest_at = excluded.oldest_at
    WHERE (d.blocked, d.scheduled, d.queued, d.held, d.running, d.expired, d.oldest_at) IS DISTINCT FROM
          (excluded.blocked, excluded.scheduled, excluded.queued, excluded.held, excluded.running, excluded.expired,
              excluded.oldest_at);
    UPDATE rota.depth_marks SET counted_at = began, took_ms = extract(epoch FROM clock_timestamp() - began) * 1000;
    RETURN true;
END $$;

-- What waits and runs by queue and job: counted now while that is cheap, else as it was counted last, about two
-- seconds ago or as long as a count takes.
-- Called by: sql/attention/unserved.sql, sql/jobs/depths.sql, sql/logs/of_queue.sql, sql/queues/jobs.sql,
-- sql/queues/list.sql, sql/stats/depths.sql, take_sample.
CREATE FUNCTION rota.read_depths() RETURNS TABLE (
    queue text, job text, blocked bigint, scheduled bigint, queued bigint, held bigint, running bigint, expired bigint,
    oldest_at timestamptz, counted_at timestamptz
) LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
BEGIN
    IF rota.has_many_open_runs() THEN
        PERFORM rota.count_depths(2);
        RETURN QUERY
        SELECT d.queue, d.job, d.blocked, d.scheduled, d.queued, d.held, d.running, d.expired, d.oldest_at, m.counted_at
        FROM rota.depths d CROSS JOIN rota.depth_marks m;
    ELSE
        RETURN QUERY SELECT c.*, clock_timestamp() FROM rota.count_open_runs() c;
    END IF;
END $$;

-- As read_depths, for callers that must not write: where there are many open runs, as they were counted last.
-- Called by: note_queue_cap, why_job, why_queue.
CREATE FUNCTION rota.kept_depths() RETURNS SETOF rota.depths LANGUAGE plpgsql STABLE SET jit = off AS $$
BEGIN
    IF rota.has_many_open_runs() THEN
        RETURN QUERY SELECT d.* FROM rota.depths d;
    ELSE
        RETURN QUERY SELECT (jsonb_populate_record(NULL::rota.depths, to_jsonb(c))).* FROM rota.count_open_runs() c;
    END IF;
END $$;

-- How queues stood in each minute, for charts: what nobody could tell afterwards. Kept for nine days: a week, and the
-- day before it.
CREATE TABLE rota.samples (
    queue          text COLLATE "C" NOT NULL,  -- '': all of them
    minute         timestamptz NOT NULL,
    queued         bigint NOT NULL,
    running        bigint NOT NULL,
    oldest_seconds double precision,           -- how long the oldest had waited that a worker could take
    pickups        bigint NOT NULL,            -- claims that were ever measured, up to then
    histogram      numeric NOT NULL,           -- of their waits, as in rollup_minutes
    PRIMARY KEY (queue, minute)
);
COMMENT ON TABLE rota.samples
    IS 'Waiting and running runs in each minute of the last nine days, and how long claimed runs waited up to then.';

-- Writes how queues stand, once a minute, by whoever comes first. A queue that rests has no row; the two hundred
-- busiest have.
-- Called by: sql/upkeep/take_sample.sql.
-- Locks: "samples" if it is free.
CREATE FUNCTION rota.take_sample() RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    this_minute constant timestamptz := date_trunc('minute', rota.now());
BEGIN
    IF EXISTS (SELECT FROM rota.samples s WHERE s.queue = '' AND s.minute = this_minute) OR NOT rota.try_lock('samples')
        THEN
        RETURN false;
    END IF;
    WITH depths AS (
        SELECT coalesce(d.queue, '') AS queue, coalesce(sum(d.queued), 0) AS queued,
               coalesce(sum(d.running), 0) AS running,
               extract(epoch FROM clock_timestamp() - min(d.oldest_at))::double precision AS oldest_seconds
        FROM rota.read_depths() d GROUP BY GROUPING SETS ((d.queue), ())
    ), pickups AS (
        SELECT coalesce(c.labels ->> 'queue', '') AS queue, sum(c.amount) AS amount,
            rota.pack_buckets(rota.sum_buckets(c.buckets)) AS histogram,
               max(c.at) AS at
        FROM (SELECT name, labels, amount, buckets, at FROM rota.counts UNION ALL
              SELECT name, labels, amount, buckets, at FROM rota.count_changes) c
        WHERE c.name = 'pickups' AND c.buckets IS NOT NULL AND c.labels ? 'queue'
        GROUP BY GROUPING SETS ((c.labels ->> 'queue'), ())
    )
    INSERT INTO rota.samples (queue, minute, queued, running, oldest_seconds, pickups, histogram)
    SELECT coalesce(d.queue, p.queue), this_minute, coalesce(d.queued, 0), coalesce(d.running, 0), d.oldest_seconds,
           coalesce(p.amount, 0), coalesce(p.histogram, 0)
    FROM depths d FULL JOIN pickups p ON p.queue = d.queue
    WHERE coalesce(d.queue, p.queue) = '' OR d.queue IS NOT NULL OR p.at > clock_timestamp() - interval '3 minutes'
    ORDER BY coalesce(d.queue, p.queue) <> '', coalesce(d.queued, 0) + coalesce(d.running, 0) DESC, 1 LIMIT 201
    ON CONFLICT DO NOTHING;
    IF extract(minute FROM this_minute) = 0 THEN
        DELETE FROM rota.samples s WHERE s.minute < this_minute - interval '9 days';
    END IF;
    RETURN true;
END $$;

-- What lists show of each job.
CREATE VIEW rota.job_status AS
SELECT j.name, j.queue, j.is_enabled AS enabled,
       CASE WHEN j.is_enabled THEN 'active' ELSE 'disabled' END AS state,
       l.finished_at AS last_run_at, l.state = 'succeeded' AS last_run_success,
       (SELECT e.finished_at FROM rota.ended_runs e WHERE e.job = j.name AND e.state = 'succeeded'
        ORDER BY e.finished_at DESC LIMIT 1) AS last_success_at,
       s.last_enqueued_at, s.next_run_at, coalesce(s.schedules, 0) AS schedules,
       c.succeeded + c.failed + c.cancelled AS total_runs,
       round(100.0 * c.succeeded / nullif(c.succeeded + c.failed, 0), 1)::double precision AS success_rate_percent,
       r.duration_ms / nullif(r.attempts, 0) AS avg_duration_ms,
       r.longest_ms AS max_duration_ms, r.longest_ms_7d AS max_duration_ms_7d
FROM rota.jobs j
LEFT JOIN LATERAL (
    SELECT e.finished_at, e.state FROM rota.ended_runs e WHERE e.job = j.name ORDER BY e.finished_at DESC LIMIT 1
) l ON true
LEFT JOIN LATERAL (
    SELECT count(*) AS schedules, max(x.last_enqueued_at) AS last_enqueued_at, min(x.next_run_at) AS next_run_at
    FROM rota.schedule_status x WHERE x.job = j.name
) s ON true
LEFT JOIN rota.job_counts k ON k.job = j.name
LEFT JOIN LATERAL (
    SELECT coalesce(k.succeeded, 0) + count(*) FILTER (WHERE e.state = 'succeeded') AS succeeded,
           coalesce(k.failed, 0) + count(*) FILTER (WHERE e.state = 'failed') AS failed,
           coalesce(k.cancelled, 0) + count(*) FILTER (WHERE e.state = 'cancelled') AS cancelled
    FROM rota.ended_runs e WHERE e.job = j.name AND e.finished_at > coalesce(k.counted_to, '-infinity')
) c ON true
LEFT JOIN LATERAL (
    SELECT sum(o.attempts) FILTER (WHERE o.is_ever)::bigint AS attempts,
           sum(o.duration_ms) FILTER (WHERE o.is_ever) AS duration_ms,
           max(o.longest_ms) FILTER (WHERE o.is_ever) AS longest_ms,
           max(o.longest_ms) FILTER (WHERE o.is_young) AS longest_ms_7d
    FROM (
        SELECT x.attempts, x.duration_ms, x.longest_ms, x.outcome, true AS is_ever, false AS is_young
        FROM rota.rollup_spans x WHERE x.span = 'ever' AND x.job = j.name
        UNION ALL
        SELECT x.attempts, x.duration_ms, x.longest_ms, x.outcome, false, true
        FROM rota.rollup_spans x WHERE x.span = 'day' AND x.job = j.name
            AND x.started_at > rota.now() - interval '7 days'
        UNION ALL
        SELECT x.attempts, x.duration_ms, x.longest_ms, x.outcome, true, true
        FROM rota.rollup_minutes x WHERE x.worker <> 0 AND x.job = j.name
    ) o WHERE o.outcome IN ('succeeded', 'failed', 'timed_out', 'lost')
) r ON true;
COMMENT ON VIEW rota.job_status
    IS 'The status of each job: its last runs, its next time, the durations of its attempts.';

-- 28_why.sql

-- `why` explains why a run, a schedule, a job or a queue is not running. Each `why_…` function returns findings (a
-- code and facts); `reasons` holds the texts and their order. Why: docs/decisions/0026-why.md.

-- The texts of why, by code: kept here, so that every face says the same.
CREATE TABLE rota.reasons (
    code      text COLLATE "C" PRIMARY KEY,
    place     smallint NOT NULL,               -- the lowest comes first
    sentence  text NOT NULL,
    next_step text NOT NULL,                   -- what happens next, or what somebody should do
    is_past   boolean NOT NULL DEFAULT false,  -- an event at one time, not a condition that lasts
    command   text                             -- a command that would change it
);
COMMENT ON TABLE rota.reasons IS 'The texts of rota.why, by code.';

INSERT INTO rota.reasons (place, code, sentence, next_step, command, is_past) VALUES
(1, 'attempts_used_up', 'It failed{error} {used}', 'It is a dead letter: it stays failed until somebody retries it.',
    'rota runs retry {run}', true),
(1, 'gave_up', 'It failed with {error_type}, which its job does not retry{error}',
    'It is a dead letter: it stays failed until somebody retries it.', 'rota runs retry {run}', true),
(1, 'job_never_known', 'It failed because no live worker knew job {job} for too long (worker.unknown_job_seconds).',
    'Start a worker that declares the job, then retry the run.', 'rota runs retry {run}', true),
(1, 'run_cancelled', 'It was {end}.', 'It stays cancelled until somebody retries it.', 'rota runs retry {run}', true),
(1, 'run_dropped',
    'It was dropped: queue {queue} was full, and it was among the waiting runs with the lowest priority.',
    'It stays cancelled until somebody retries it; retry it when the queue has room.', 'rota runs retry {run}', true),
(1, 'run_expired', 'It expired: it had not started by its deadline.',
    'It stays cancelled until somebody retries it; a retried run has no deadline.', 'rota runs retry {run}', true),
(1, 'run_failed', 'It failed: {end}{error}', 'It stays failed until somebody retries it.', 'rota runs retry {run}',
    true),
(1, 'run_succeeded', 'It succeeded on attempt {attempt}{took}.', 'No action is needed.', NULL, true),
(5, 'cancel_requested', 'Cancellation was requested{by}{because}.',
    'Its worker passes the request on; the run ends when its handler stops.', 'rota runs show {run}', true),
(6, 'worker_silent', 'It was running on worker {worker} ({worker_name}), which no longer sends heartbeats.',
    'Another live worker rescues the run when the lease has expired.', 'rota workers show {worker}', false),
(7, 'claimed_ahead', 'Worker {worker} ({worker_name}) has claimed it in advance and starts it next.',
    'It starts after the runs that the worker claimed before it.', 'rota workers show {worker}', false),
(8, 'running_isolated',
    'Worker {worker} ({worker_name}) is running it isolated, {where}, because a worker was lost while running it.',
    '{then}', 'rota runs cancel {run}', false),
(9, 'running', 'Worker {worker} ({worker_name}) is running attempt {attempt}.', '{then}', 'rota runs cancel {run}',
    false),
(10, 'debounced', 'It waits for a quiet period: it has the latest of {events}, and each new event postpones it.',
    'It enters queue {queue} when no event has come for the debounce period of its job, and at the latest after the '
    'maximum wait.',
    'rota events list --job {job}', false),
(10, 'snoozed', 'Its handler snoozed it.',
    'It enters queue {queue} when the snooze ends; snoozing uses no attempt.',
    'rota runs cancel {run}', false),
(10, 'spread', 'It is delayed: {crowd} schedules were due at the same time, and {schedule} is number {number} of them.',
    'It enters queue {queue} after the delay; --burst-allowed true exempts a schedule from such delays.',
    'rota schedules update {of_tenant}{schedule} --burst-allowed true', false),
(10, 'waits_for_backoff',
    'Attempt {attempt} {ended}{error} It is waiting to be retried, with {spent} of {allowed} used.',
    'It enters queue {queue} when the backoff is over.', 'rota runs cancel {run}', false),
(10, 'waits_for_time', 'It is scheduled for later.', 'It enters queue {queue} when its time comes.',
    'rota runs cancel {run}', false),
(11, 'not_promoted', 'Its time has come, but no worker has promoted it yet.',
    'Any live worker promotes it within seconds.', 'rota workers list', false),
(12, 'schedule_disabled', 'Schedule {schedule} is disabled{by}.',
    'Its times are skipped and recorded until it is enabled.', 'rota schedules enable {of_tenant}{schedule}', false),
(13, 'schedule_finished', 'It is finished: {why}.', 'It does not run again unless an edit gives it another time.',
    'rota schedules show {of_tenant}{schedule}', true),
(14, 'schedule_parked', 'It is parked because it cannot be processed: {error}',
    'It is retried automatically, and at once if it is edited.', 'rota schedules show {of_tenant}{schedule}', false),
(15, 'schedule_paused', 'Schedule {schedule} is paused{by}{because}.', '{then}',
    'rota schedules resume {of_tenant}{schedule}', false),
(20, 'job_deleted', 'No code declares job {job} any more.', 'Deploy code that declares it, or cancel its waiting runs.',
    'rota runs cancel --job {job}', false),
(21, 'job_disabled', 'Job {job} is disabled{by}{because}.',
    'Its runs wait, and its schedules skip their times, until it is enabled.', 'rota jobs enable {job}', false),
(22, 'queue_paused', 'Queue {queue} is paused{by}{because}.', '{then}', 'rota queues resume {queue}', false),
(22, 'tenant_paused', 'Tenant {tenant} is paused{by}{because}.', '{then}', 'rota tenants resume {tenant}', false),
(25, 'no_tick', 'It is due, but no worker has processed it: {workers}.',
    'Start a worker without --no-scheduler, or resume one that is draining; it processes the schedule within seconds.',
    'rota worker', false),
(26, 'schedule_pending', 'Its next time has not been computed yet.',
    'The next tick of any worker computes it within seconds.', 'rota schedules show {of_tenant}{schedule}', false),
(30, 'no_worker', 'No worker is running{last}.',
    'Start a worker: until then, no run starts and no schedule is processed.', 'rota worker', false),
(30, 'workers_asleep', 'All suitable workers are asleep, without a connection to the database: {workers}.',
    'They find waiting runs when they wake; to wake one now, send SIGUSR1 to process {pid} on {host}.',
    'rota workers list --state asleep', false),
(31, 'queue_unserved', 'No live worker serves queue {queue}: the {workers} serve{s} {queues}.',
    'Start a worker for it, or add it to the queues of a worker.', 'rota worker --queues {queue}', false),
(32, 'job_unknown', 'No live worker knows job {job}: the {workers} other code.',
    'Start a worker whose application declares it. A run that waits longer than worker.unknown_job_seconds (default: '
    'a day) fails.',
    'rota workers list', false),
(33, 'worker_mismatch', 'No worker that knows job {job} serves queue {queue}.',
    'Add the queue to a worker that knows the job.', 'rota worker --queues {queue}', false),
(34, 'workers_failing', '{some} alive but failing: {troubles}.',
    'A failing worker may claim nothing until it recovers; its log has the details.', 'rota workers show {worker}',
    false),
(35, 'workers_draining', '{some} draining{by}{because}.',
    'A draining worker finishes its running attempts and claims nothing until it is resumed.',
    'rota workers resume {worker}', false),
(38, 'shadow', 'It is a shadow schedule: it records its decisions and enqueues nothing.',
    'Its times are recorded as skipped until shadow mode is turned off.',
    'rota schedules update --shadow false {of_tenant}{schedule}', false),
(40, 'suspect', 'A worker was lost while running it, so it waits to be run isolated, in a separate process.', '{then}',
    'rota runs show {run}', false),
(41, 'overlap', 'It waits for run {other} of schedule {schedule}, which has not ended.',
    'It starts when that run has ended.', 'rota runs cancel {other}', false),
(42, 'blocked', 'It waits for other runs to end.', 'It enters queue {queue} when they have ended.',
    'rota runs show {run}', false),
(43, 'held', 'It is held: {held_by}.', 'It enters queue {queue} when the hold ends.', 'rota runs show {run}', false),
(44, 'limit_blocked', 'Limit {limit} is blocked{key}: run {other} failed, and the next run requires its success.',
    'Retry that run, or continue without it: rota limits unblock.', 'rota runs retry {other}', false),
(44, 'limit_full', 'Limit {limit} is full{key}: {in_use} of {cap} slots in use{holders}.', '{then}',
    'rota limits show {of_tenant}{limit}', false),
(44, 'limit_rate', 'Rate limit {limit} is used up{key}: {cap} per {period}.', '{then}',
    'rota limits show {of_tenant}{limit}', false),
(44, 'limit_room', 'It waits to be admitted by limit {limit}{key}, which has capacity.',
    'Any live worker admits it within a second.', 'rota workers list', false),
(44, 'limit_turn', 'It waits for its turn in limit {limit}{key}: {before}.', '{then}',
    'rota limits show {of_tenant}{limit}', false),
(45, 'missed_cap', '{which} was missed{times}: more times were missed than the catch-up limit allows.',
    'It continues with its next time.', 'rota schedules history {of_tenant}{schedule}', true),
(45, 'missed_none', '{which} was missed{times}: no worker processed it in time, and missed times are not caught up.',
    'It continues with its next time; --catch-up sets another policy.',
    'rota schedules update --catch-up latest {of_tenant}{schedule}', true),
(45, 'missed_window', '{which} was missed{times}: when a worker processed it, it was older than the catch-up window.',
    'It continues with its next time.', 'rota schedules update --catch-up-window none {of_tenant}{schedule}', true),
(45, 'skipped_calendar', '{which} was skipped{times}: calendar {calendar} was closed.',
    'It runs at its next time at which the calendar is open.', 'rota calendars show {calendar}', true),
(45, 'skipped_coalesced', '{which} was skipped{times}: a later missed time ran instead.',
    'It continues with its next time.', 'rota schedules history {of_tenant}{schedule}', true),
(45, 'skipped_disabled', '{which} was skipped{times}: the schedule was disabled.', 'Skipped times can be backfilled.',
    'rota schedules backfill --help', true),
(45, 'skipped_dst_gap', '{which} was skipped{times}: the clocks went forward, and it did not exist on that day.',
    'It runs at its next time; --gap run_after runs such a time after the gap.',
    'rota schedules update --gap run_after {of_tenant}{schedule}', true),
(45, 'skipped_job_deleted', '{which} was skipped{times}: no code declared job {job}.',
    'Skipped times can be backfilled.', 'rota schedules backfill --help', true),
(45, 'skipped_job_disabled', '{which} was skipped{times}: job {job} was disabled.',
    'Skipped times can be backfilled.', 'rota schedules backfill --help', true),
(45, 'skipped_limit', '{which} was skipped{times}: a limit was full.',
    'The next time runs if the limit has capacity by then; --on-full wait makes the limit hold runs instead.',
    'rota limits list', false),
(45, 'skipped_max_runs', '{which} was skipped{times}: the schedule had reached its maximum number of runs.',
    'It is finished unless the maximum is raised.', 'rota schedules update --max-runs none {of_tenant}{schedule}',
    true),
(45, 'skipped_overlap', '{which} was skipped{times}: the previous run had not ended.',
    'The next time runs if that run has ended by then; --overlap sets another policy.',
    'rota schedules update --overlap queue_one {of_tenant}{schedule}', true),
(45, 'skipped_paused', '{which} was skipped{times}: the schedule was paused.', 'Skipped times can be backfilled.',
    'rota schedules backfill --help', true),
(45, 'skipped_queue_full', '{which} was skipped{times}: its queue was full.',
    'The next time runs if the queue has room by then.', 'rota queues list', false),
(45, 'skipped_requirement', '{which} was skipped{times}: the schedule requires {unmet}, which had not succeeded.',
    'It runs at its next time if that has succeeded by then.', 'rota why {unmet_first}', true),
(45, 'skipped_shadow', '{which} was skipped{times}: it is a shadow schedule.',
    'A shadow schedule records its decisions and enqueues nothing.',
    'rota schedules update --shadow false {of_tenant}{schedule}', true),
(45, 'superseded_edited', '{which} was superseded{times}: the schedule was edited.', 'It continues with its new times.',
    'rota schedules history {of_tenant}{schedule}', true),
(45, 'superseded_rescheduled', '{which} was superseded{times}: the schedule was rescheduled.',
    'The time that was set applies instead.', 'rota schedules history {of_tenant}{schedule}', true),
(46, 'not_run', '{which} was {decision}{times}: {reason}.', 'It continues with its next time.',
    'rota schedules history {of_tenant}{schedule}', true),
(47, 'run_open', 'Its run {run} has not ended: it is {state}.', 'Ask about that run to see what it waits for.',
    'rota why {run}', false),
(50, 'slots_busy', '{slots} busy with {jobs}; run {longest} of {longest_job} has taken the longest, {duration} so far.',
    'The next run starts when a slot becomes free; more workers or slots would help.', 'rota workers list', false),
(51, 'in_line', '{ahead} ahead of it in queue {queue}.', '{then}', 'rota queues show {queue}', false),
(52, 'next_in_line', 'It is next in queue {queue}.', 'The next worker with a free slot claims it.',
    'rota queues show {queue}', false),
(52, 'queue_full', 'Queue {queue} is full: {waiting}, and its cap is {max}.', '{then}', 'rota queues show {queue}',
    false),
(53, 'next_of_tenant', 'It is the next run of its tenant in queue {queue}, which {others}.',
    'Tenants take turns by weight: a worker with a free slot claims it within a few runs.', 'rota queues show {queue}',
    false),
(55, 'runs_wait', '{waiting}{oldest}.', '{then}', 'rota runs list --state queued {of}', false),
(56, 'runs_held',
    '{held} of them {are} held: by a limit, a paused tenant, an earlier run of the schedule, for isolation, or because '
    'no worker knows the job.',
    'Ask about one of these runs to see what holds it.', 'rota runs list --state queued {of}', false),
(57, 'jobs_disabled', '{waiting} {belong} to disabled jobs: {jobs}.',
    'They wait until their job is enabled, and delay no other run.', 'rota jobs enable {job}', false),
(58, 'jobs_unknown', '{waiting} {belong} to jobs that no live worker knows: {jobs}.',
    'Start a worker whose application declares them.', 'rota why --kind job {job}', false),
(60, 'worker_lost', 'Worker {worker} ({worker_name}) was lost during attempt {attempt}.',
    'The run was rescued, with {spent} of {allowed} used.', 'rota workers show {worker}', true),
(61, 'attempt_failed', 'Attempt {attempt} {ended}{error}', 'It is retried, with {spent} of {allowed} used so far.',
    'rota runs show {run}', true),
(62, 'job_failing', '{failures} of {attempts} failed in the last five minutes{error}',
    'Failed runs are retried while they have attempts left.', 'rota runs list --state failed --job {job}', false),
(62, 'schedule_failing', 'Its last {failures} failed{error}', '{then}',
    'rota runs list {of_tenant}--schedule {schedule} --state failed', true),
(63, 'schedule_ran', 'Its latest time ran: run {run} {ended}.', 'It continues with its next time.',
    'rota runs show {run}', true),
(63, 'started_late', 'It started {late} late{because}.', 'The cause of the delay is over.', NULL, true),
(70, 'holds_key', 'It holds key {key}: enqueueing job {job} with this key returns this run and creates no other.',
    '{then}', NULL, false),
(70, 'key_held', 'Its key {key} is held by run {other}, so it cannot be retried.',
    'Enqueueing with this key returns that run.', 'rota why {other}', false),
(79, 'rescheduled', 'Its next time was set by hand.',
    'It runs at the time that was set, then follows its timing again.',
    'rota schedules reschedule {of_tenant}{schedule}', false),
(80, 'waits_for_next', 'Its next time has not come yet.', 'It runs at its next time.',
    'rota schedules trigger {of_tenant}{schedule}', false),
(80, 'waits_for_start', 'It runs when the application starts{which}.', 'The next such start enqueues a run.',
    'rota schedules trigger {of_tenant}{schedule}', false),
(90, 'event_filtered', 'Event {event}, the latest that it is bound to, did not match its filter.',
    'Compare the event with the filter; if you change the filter, a replay delivers the events that match.',
    'rota events show {event}', true),
(90, 'event_throttled', 'Event {event}, the latest that it is bound to, was throttled: run {run} covers its period.',
    'The first event of the next period starts a run.', 'rota events show {event}', true),
(90, 'runs_for_later', 'No run waits for a worker; {later} for {its} time.',
    'A scheduled run enters its queue when its time comes.', 'rota runs list --state scheduled {of}', false),
(91, 'at_work', 'No run waits for a worker; {running} running.', 'No action is needed.',
    'rota runs list --state running {of}', false),
(91, 'no_event', 'None of the last {looked} matched its bindings: {bound}.', 'The next matching event starts it.',
    'rota events bindings --job {job}', false),
(92, 'idle', 'It has no waiting or running runs.', 'New runs start at once, unless another reason is given.', NULL,
    false),
(93, 'schedules_off', '{some} disabled, paused or parked: {names}.', 'Ask about one of them to see why.',
    'rota why --kind schedule {schedule}', false),
(95, 'last_end', 'Its last run, {run}, {ended}.', 'Ask about that run for details.', 'rota why {run}', true);

-- What was found, before it is put into words. by_whom and the texts of facts are whatever people wrote.
CREATE TYPE rota.finding AS (code text, since timestamptz, until timestamptz, by_whom text, facts jsonb);

-- A number with commas, as in 12,345.
-- Called by: many.
CREATE FUNCTION rota.number_words(amount bigint) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT to_char(amount, 'FM999,999,999,999,999,999')
$$;

-- A number and its noun: 1 run, 12 runs.
-- Called by: many.
CREATE FUNCTION rota.plural_words(amount bigint, noun text) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT rota.number_words(amount) || ' ' || noun || CASE WHEN amount = 1 THEN '' ELSE 's' END
$$;

-- A duration: 84 ms, 4.2 s, 4 min 10 s, 2 h 14 min, 3 d 4 h.
-- Called by: why_busy, why_depths, why_ended_run, why_late, why_limit.
CREATE FUNCTION rota.duration_words(seconds double precision) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT CASE
        WHEN s < 1 THEN round((s * 1000)::numeric) || ' ms'
        WHEN s < 10 THEN trim_scale(round(s::numeric, 1)) || ' s'
        WHEN w < 60 THEN w || ' s'
        WHEN w < 3600 THEN w / 60 || ' min' || CASE WHEN w % 60 > 0 THEN ' ' || w % 60 || ' s' ELSE '' END
        WHEN w < 86400 THEN w / 3600 || ' h' || CASE WHEN w % 3600 >= 60 THEN ' ' || w % 3600 / 60 || ' min' ELSE '' END
        ELSE w / 86400 || ' d' || CASE WHEN w % 86400 >= 3600 THEN ' ' || w % 86400 / 3600 || ' h' ELSE '' END END
    FROM (SELECT greatest(seconds, 0) AS s, round(least(greatest(seconds, 0), 1e15))::bigint AS w) x
$$;

-- The seconds between two instants; NULL where one of them is none.
-- Called by: why_busy, why_depths, why_late.
CREATE FUNCTION rota.seconds_between(earlier timestamptz, later timestamptz) RETURNS double precision
LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT CASE WHEN isfinite(earlier) AND isfinite(later) THEN extract(epoch FROM later - earlier) END
$$;

-- A share with its verb: The only worker is, All 3 workers are, 1 of 3 workers is.
-- Called by: why_job, why_unfit.
CREATE FUNCTION rota.share_words(amount bigint, of_all bigint, noun text) RETURNS text LANGUAGE sql IMMUTABLE
SET jit = off AS $$
    SELECT CASE WHEN of_all = 1 THEN format('The only %s is', noun) WHEN amount = of_all
        THEN format('All %s are', rota.plural_words(of_all, noun))
                ELSE format('%s of %s %s', rota.number_words(amount), rota.plural_words(of_all, noun),
                    CASE amount WHEN 1 THEN 'is' ELSE 'are' END) END
$$;

-- The first line of what somebody wrote, not too long.
-- Called by: many.
CREATE FUNCTION rota.short_words(said text) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT CASE WHEN length(line) > 200 THEN left(line, 199) || '…' ELSE line END
    FROM (SELECT split_part(btrim(said, E' \t\r\n'), E'\n', 1) AS line) x
$$;

-- A name as one word of a shell.
-- Called by: fill_words.
CREATE FUNCTION rota.shell_word(word text) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT CASE WHEN word ~ '^[A-Za-z0-9_./:@%+=,-]+$' THEN word ELSE '''' || replace(word, '''', '''\''''') || '''' END
$$;

-- The actor: " by grace", or nothing.
-- Called by: why_job_off, why_late, why_queue_paused, why_running, why_schedule, why_tenant_paused, why_unfit.
CREATE FUNCTION rota.by_words(who text) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT coalesce(' by ' || nullif(rota.short_words(who), ''), '')
$$;

-- The reason: ": “the provider is down”", or nothing.
-- Called by: many.
CREATE FUNCTION rota.because_words(said text) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT coalesce(': “' || nullif(rota.short_words(said), '') || '”', '')
$$;

-- Puts facts into a sentence in one pass: what stands in a fact is not looked at again. In a command every fact is a
-- word of a shell, save {of} and {of_tenant}, which are options; a name that begins with a dash is none.
-- Called by: constraint_words, why.
CREATE FUNCTION rota.fill_words(template text, facts jsonb, is_command boolean DEFAULT false) RETURNS text
LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT string_agg(CASE
        WHEN p.n % 2 = 1 THEN p.piece
        WHEN NOT is_command OR p.piece IN ('of', 'of_tenant') THEN coalesce(facts ->> p.piece, '')
        WHEN facts ->> p.piece LIKE '-%' AND p.before !~ '--[a-z-]+ $' THEN '-- ' || rota.shell_word(facts ->> p.piece)
        ELSE rota.shell_word(facts ->> p.piece) END, '' ORDER BY p.n)
    FROM (SELECT w.piece, w.n, coalesce(lag(w.piece) OVER (ORDER BY w.n), '') AS before
          FROM regexp_split_to_table(template, '[{}]') WITH ORDINALITY AS w (piece, n)) p
$$;

-- Findings about one run, open or ended.
-- Called by: why_findings.
CREATE FUNCTION rota.why_run(of_run bigint) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    o     rota.open_runs;
    e     rota.ended_runs;
    place record;
BEGIN
    SELECT * INTO o FROM rota.open_runs r WHERE r.id = of_run;
    IF o.id IS NOT NULL THEN
        RETURN QUERY SELECT * FROM rota.why_open_run(o);
        RETURN;
    END IF;
    place := rota.find_ended(of_run);
    SELECT * INTO e FROM rota.ended_runs r WHERE r.id = of_run AND r.keep_class = place.keep_class
        AND r.finished_at = place.finished_at;
    IF e.id IS NULL THEN
        RAISE EXCEPTION 'there is no run %', of_run USING ERRCODE = 'RO004';
    END IF;
    RETURN QUERY SELECT * FROM rota.why_ended_run(e);
END $$;

-- A run that waits or runs: everything that keeps it from ending, from its time to its place in the line.
-- Called by: why_run.
CREATE FUNCTION rota.why_open_run(o rota.open_runs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE
SET jit = off AS $$
DECLARE
    clock   timestamptz := rota.now();
    is_later boolean := o.state = 'scheduled' AND o.run_at > clock;
    last    record;
    burst   jsonb;
BEGIN
    IF o.expires_at <= clock AND NOT (o.state = 'running' AND o.started_at < o.expires_at) THEN
        RETURN NEXT ROW('run_expired', greatest(o.expires_at, o.created_at), NULL, NULL,
            jsonb_build_object('run', o.id))::rota.finding;
        RETURN;
    END IF;
    RETURN QUERY SELECT * FROM rota.why_key(o.id, o.tenant, o.job, o.key, false) WHERE o.key IS NOT NULL;
    SELECT * INTO last FROM rota.why_last_attempt(o);
    IF o.state = 'running' THEN
        RETURN QUERY SELECT * FROM rota.why_running(o);
        RETURN QUERY SELECT * FROM rota.why_late(o.id, o.queue, o.job, o.attempt, o.run_at, o.started_at);
    ELSE
        RETURN QUERY SELECT * FROM rota.why_job_off(o.job);
        RETURN QUERY SELECT * FROM rota.why_queue_paused(o.queue);
        RETURN QUERY SELECT * FROM rota.why_tenant_paused(o.tenant) WHERE o.tenant <> '';
        RETURN QUERY
        SELECT f.code, CASE f.code WHEN 'job_unknown' THEN o.held_at ELSE f.since END, f.until, f.by_whom, f.facts
        FROM rota.why_workers(o.queue, o.job, is_later OR o.held_by IS NOT NULL OR o.state = 'blocked') f;
    END IF;
    IF o.state = 'scheduled' THEN
        IF is_later AND last.state IS NULL AND o.schedule_id IS NOT NULL THEN
            SELECT l.details -> 'burst' INTO burst FROM rota.ledger l
            WHERE l.schedule_id = o.schedule_id AND l.nominal_at = o.scheduled_for;
        END IF;
        RETURN NEXT ROW(CASE WHEN NOT is_later THEN 'not_promoted' WHEN burst IS NOT NULL THEN 'spread'
            WHEN last.state IS NULL AND o.triggered_by ? 'debounced' THEN 'debounced' WHEN last.state IS NULL
            THEN 'waits_for_time'
                             WHEN last.state = 'snoozed' THEN 'snoozed' ELSE 'waits_for_backoff' END,
            CASE WHEN is_later THEN coalesce(last.finished_at, o.created_at) ELSE o.run_at END,
            CASE WHEN is_later THEN o.run_at END, NULL,
            coalesce(last.facts, '{}') || jsonb_build_object('run', o.id, 'queue', o.queue, 'schedule', o.schedule,
            'job', o.job, 'events', CASE WHEN jsonb_typeof(o.triggered_by -> 'debounced') = 'number'
                THEN rota.plural_words((o.triggered_by ->> 'debounced')::numeric::bigint, 'event')
                ELSE 'its events' END, 'crowd', rota.number_words((burst ->> 'of')::bigint), 'number',
                rota.number_words((burst ->> 'place')::bigint), 'of_tenant', CASE WHEN burst IS NOT NULL
                THEN (SELECT '--tenant ' || rota.shell_word(s.tenant) || ' ' FROM rota.schedules s
                      WHERE s.id = o.schedule_id AND s.tenant <> '') END))::rota.finding;
        RETURN;
    ELSIF o.held_by IS NOT NULL OR o.state = 'blocked' THEN
        RETURN QUERY SELECT * FROM rota.why_held(o);
    ELSIF o.state = 'queued' THEN
        RETURN QUERY SELECT * FROM rota.why_line(o);
    END IF;
    IF last.state IN ('failed', 'timed_out', 'lost') THEN
        RETURN NEXT ROW(CASE last.state WHEN 'lost' THEN 'worker_lost' ELSE 'attempt_failed' END, last.finished_at,
            NULL, NULL, last.facts)::rota.finding;
    END IF;
END $$;

-- A run that has ended: how, and why it stays so.
-- Called by: why_run.
CREATE FUNCTION rota.why_ended_run(e rota.ended_runs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE
SET jit = off AS $$
DECLARE
    code text := CASE
        WHEN e.state = 'succeeded' THEN 'run_succeeded'
        WHEN e.end_reason = 'expired' THEN 'run_expired'
        WHEN e.state = 'cancelled' AND e.end_reason = 'queue full' THEN 'run_dropped'
        WHEN e.state = 'cancelled' THEN 'run_cancelled'
        WHEN e.end_reason = 'attempts used up' THEN 'attempts_used_up'
        WHEN e.end_reason LIKE 'gave up on %' THEN 'gave_up'
        WHEN e.end_reason = 'unknown job' THEN 'job_never_known'
        ELSE 'run_failed' END;
    ask record;
BEGIN
    SELECT * INTO ask FROM rota.last_audit('run', e.id::text, e.tenant, '{run.cancelled}') WHERE code = 'run_cancelled';
    RETURN NEXT ROW(code, e.finished_at, NULL, ask.actor,
        jsonb_build_object('run', e.id, 'queue', e.queue, 'job', e.job, 'attempt', e.attempt,
        'took', coalesce(' in ' || rota.duration_words(e.duration_ms / 1000), ''),
        'used', CASE e.attempts_used WHEN 1 THEN 'Its only attempt is used up.'
            ELSE format('All %s are used up.', rota.plural_words(e.attempts_used, 'attempt')) END,
        'error_type', coalesce(e.error_type, 'an error'),
        'end', CASE WHEN code = 'run_cancelled' AND e.end_reason LIKE 'its %' THEN 'cancelled, because ' ELSE '' END
            || rota.short_words(coalesce(e.end_reason, e.state)),
        'error', CASE WHEN e.error IS NULL THEN '.'
            ELSE rota.because_words(concat_ws(': ', e.error_type, e.error)) || '.' END))::rota.finding;
    RETURN QUERY SELECT * FROM rota.why_late(e.id, e.queue, e.job, e.attempt, e.run_at, e.started_at);
    RETURN QUERY SELECT * FROM rota.why_key(e.id, e.tenant, e.job, e.key, true) WHERE e.key IS NOT NULL;
END $$;

-- A run that a worker has: whether that worker is heard from, whether somebody asked it to stop, how the run runs.
-- Called by: why_open_run.
CREATE FUNCTION rota.why_running(o rota.open_runs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE
SET jit = off AS $$
DECLARE
    host   rota.workers := (SELECT w FROM rota.workers w WHERE w.id = o.worker);
    ask    record;
    facts  jsonb;
    is_silent boolean := host.id IS NULL OR host.state NOT IN ('live', 'stopping')
        OR host.lease_expires_at <= clock_timestamp();
BEGIN
    facts := jsonb_build_object('run', o.id, 'job', o.job, 'worker', o.worker, 'worker_name',
        coalesce(rota.short_words(host.name), 'unknown'), 'attempt', o.attempt, 'spent', o.attempts_used + 1, 'allowed',
        rota.plural_words(o.max_attempts, 'attempt'), 'where', CASE WHEN host.is_isolating_inline
            THEN 'alone in the worker''s process' ELSE 'in a separate process' END,
        'then', CASE WHEN o.attempts_used + 1 >= o.max_attempts
            THEN 'This is the last attempt: if it fails, the run becomes a dead letter.'
            ELSE format('If this attempt fails, the run is retried, with %s of %s left.',
                o.max_attempts - o.attempts_used - 1, rota.plural_words(o.max_attempts, 'attempt')) END
                || CASE WHEN o.timeout_seconds IS NULL THEN '' ELSE ' It times out at the time shown.' END);
    FOR ask IN SELECT c.* FROM rota.cancel_requests c WHERE c.run_id = o.id AND c.attempt = o.attempt LOOP
        RETURN NEXT ROW('cancel_requested', ask.requested_at, NULL, ask.requested_by,
            facts || jsonb_build_object('by', rota.by_words(ask.requested_by), 'because',
                rota.because_words(ask.reason)))::rota.finding;
    END LOOP;
    IF is_silent THEN
        RETURN NEXT ROW('worker_silent', host.heartbeat_at, NULL, NULL, facts)::rota.finding;
        RETURN QUERY SELECT f.* FROM rota.why_workers(NULL, NULL, true) f;
    ELSIF o.claim_batch > coalesce((SELECT max(b.batch) FROM rota.batch_starts b WHERE b.worker = o.worker), 0) THEN
        RETURN NEXT ROW('claimed_ahead', o.started_at, NULL, NULL, facts)::rota.finding;
    ELSE
        RETURN NEXT ROW(CASE WHEN rota.is_isolated(o) THEN 'running_isolated' ELSE 'running' END, o.started_at,
            rota.after(o.started_at, o.timeout_seconds), NULL, facts)::rota.finding;
    END IF;
END $$;

-- What became of the attempt before.
-- Called by: why_open_run.
CREATE FUNCTION rota.why_last_attempt(o rota.open_runs)
RETURNS TABLE (state text, attempt integer, worker bigint, name text, finished_at timestamptz, facts jsonb)
LANGUAGE sql STABLE SET enable_seqscan = off SET jit = off AS $$
    SELECT p.state, p.attempt, p.worker, coalesce(rota.short_words(w.name), 'unknown'), p.finished_at,
        jsonb_build_object(
               'run', o.id, 'queue', o.queue, 'attempt', p.attempt, 'worker', p.worker, 'worker_name',
               coalesce(rota.short_words(w.name), 'unknown'), 'spent', o.attempts_used, 'allowed',
               rota.plural_words(o.max_attempts, 'attempt'), 'ended', CASE p.state WHEN 'timed_out' THEN 'timed out'
                   WHEN 'lost' THEN 'was lost with its worker' WHEN 'cancelled' THEN 'was interrupted' ELSE p.state END,
               'error', CASE WHEN p.error IS NULL THEN '.'
                   ELSE rota.because_words(concat_ws(': ', p.error_type, p.error)) || '.' END)
    FROM rota.past_attempts p LEFT JOIN rota.workers w ON w.id = p.worker
    WHERE p.run_id = o.id AND p.finished_at >= least(o.created_at, rota.created_after(o.id)) AND o.attempt > 0
    ORDER BY p.attempt DESC LIMIT 1
$$;

-- Whether a first attempt began more than a minute after its time, and what the audit knows of the time between.
-- Called by: why_ended_run, why_open_run.
CREATE FUNCTION rota.why_late(of_run bigint, of_queue text, of_job text, of_attempt integer, due timestamptz,
    began timestamptz)
RETURNS SETOF rota.finding LANGUAGE sql STABLE SET enable_seqscan = off SET jit = off AS $$
    WITH told AS MATERIALIZED (
        (SELECT a.* FROM rota.audit a WHERE a.object_type = 'queue' AND a.object_id = of_queue ORDER BY a.id DESC
            LIMIT 200)
        UNION ALL
        (SELECT a.* FROM rota.audit a WHERE a.object_type = 'job' AND a.object_id = of_job ORDER BY a.id DESC LIMIT 200)
    ), stops AS (
        SELECT s.*, rota.seconds_between(greatest(due, s.at),
            least(began, lead(s.at, 1, began) OVER (PARTITION BY s.object_type ORDER BY s.id))) AS lasted
        FROM told s WHERE s.action IN ('queue.paused', 'queue.resumed', 'job.disabled', 'job.enabled')
    )
    SELECT 'started_late', began, NULL::timestamptz, w.actor,
        jsonb_build_object('run', of_run, 'queue', of_queue, 'job', of_job,
               'late', rota.duration_words(rota.seconds_between(due, began)),
               'because', CASE WHEN w.id IS NULL THEN ''
                   ELSE format('; %s%s for %s of that time%s',
                   CASE w.action WHEN 'queue.paused' THEN format('queue %s was paused', of_queue)
                   ELSE format('job %s was disabled', of_job) END,
                   rota.by_words(w.actor), rota.duration_words(w.lasted), rota.because_words(w.reason)) END)
    FROM (SELECT 1) one LEFT JOIN LATERAL (
        SELECT * FROM stops s WHERE s.action IN ('queue.paused', 'job.disabled') AND s.lasted > 1 ORDER BY s.lasted DESC
        LIMIT 1) w ON true
    WHERE of_attempt = 1 AND rota.seconds_between(due, began) > 60
$$;

-- What the run itself waits for: a pause of its tenant, isolation, the run before it, a limit, a worker that knows
-- its job.
-- Called by: why_open_run.
CREATE FUNCTION rota.why_held(o rota.open_runs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    facts jsonb := jsonb_build_object('run', o.id, 'queue', o.queue, 'schedule', o.schedule, 'held_by', o.held_by);
    busy  record;
    other bigint;
BEGIN
    IF o.state = 'blocked' THEN
        RETURN NEXT ROW('blocked', o.created_at, NULL, NULL, facts)::rota.finding;
    ELSIF o.held_by = 'suspect' THEN
        SELECT w.id, w.name, w.isolating_run INTO busy FROM rota.workers w
        WHERE w.state IN ('live', 'stopping') AND w.isolating_run IS NOT NULL AND rota.isolating_of(w) IS NOT NULL
        ORDER BY w.id LIMIT 1;
        RETURN NEXT ROW('suspect', o.enqueued_at, NULL, NULL, facts || jsonb_build_object('then',
            CASE WHEN busy.id IS NULL THEN 'A live worker claims it within seconds and runs it beside its normal work.'
                 ELSE format('Each worker isolates one run at a time; worker %s (%s) is isolating run %s.', busy.id,
                     rota.short_words(busy.name), busy.isolating_run) END))::rota.finding;
    ELSIF o.held_by = 'limit' THEN
        RETURN QUERY SELECT * FROM rota.why_limit(o);
    ELSIF o.held_by = 'overlap' THEN
        SELECT min(r.id) INTO other FROM (SELECT * FROM rota.open_runs w WHERE w.schedule_id = o.schedule_id
            LIMIT 1000) r
        WHERE r.held_by IS DISTINCT FROM 'overlap';
        RETURN NEXT ROW('overlap', o.created_at, NULL, NULL,
            facts || jsonb_build_object('other', coalesce(other, o.id)))::rota.finding;
    ELSIF o.held_by = 'tenant' AND EXISTS (SELECT FROM rota.tenants t
        WHERE t.name = o.tenant AND rota.tenant_is_paused(t)) THEN
        RETURN;  -- said of the tenant
    ELSIF o.held_by = 'no_worker' AND NOT EXISTS (SELECT FROM rota.why_fleet(NULL, o.job) f WHERE f.knows) THEN
        RETURN;  -- said of the workers
    ELSE
        RETURN NEXT ROW('held', o.held_at, NULL, NULL, facts || jsonb_build_object('held_by',
            CASE o.held_by WHEN 'no_worker' THEN 'no worker knew its job until a moment ago'
                WHEN 'tenant' THEN format('tenant %s was paused until a moment ago', rota.short_words(o.tenant))
                    ELSE o.held_by END))::rota.finding;
    END IF;
END $$;

-- What an idempotency key of a run means now.
-- Called by: why_ended_run, why_open_run.
CREATE FUNCTION rota.why_key(of_run bigint, of_tenant text, of_job text, of_key text, is_ended boolean)
RETURNS SETOF rota.finding LANGUAGE sql STABLE SET jit = off AS $$
    SELECT CASE WHEN k.run_id = of_run THEN 'holds_key' ELSE 'key_held' END, NULL::timestamptz,
           nullif(k.expires_at, 'infinity'), NULL,
           jsonb_build_object('run', of_run, 'job', of_job, 'key', rota.short_words(of_key), 'other', k.run_id,
               'then', CASE WHEN NOT is_ended
                   THEN 'The key becomes free when the run ends, or later if it was enqueued with a time to keep it.'
                            WHEN k.expires_at = 'infinity' THEN 'The key is kept for ever.'
                                ELSE 'The key becomes free at the time shown.' END)
    FROM rota.keys k
    WHERE k.tenant = of_tenant AND k.job = of_job AND k.key = of_key
      AND (k.expires_at IS NULL OR k.expires_at > rota.now())
      AND (k.run_id = of_run OR is_ended)
$$;

-- The limit that a run waits for: what is in use, by whom, and who waits before it.
-- Called by: why_held.
CREATE FUNCTION rota.why_limit(o rota.open_runs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    l      rota.limits := rota.limit_of(o.limit_key);
    s      rota.limit_slots;
    held   integer;
    facts  jsonb;
    ahead  bigint := rota.limit_line(o, l.kind = 'sequence');
    line   text := CASE WHEN ahead = 0 THEN 'No run waits' WHEN ahead = 1 THEN '1 run waits'
        ELSE CASE WHEN ahead >= 999 THEN 'At least ' ELSE '' END || rota.plural_words(ahead, 'run') || ' wait' END;
    other  bigint[];
    value  text := substr(o.limit_key, strpos(o.limit_key, ':') + 1);
BEGIN
    facts := jsonb_build_object('run', o.id, 'limit', coalesce(l.name, '(deleted)'), 'key',
        CASE WHEN value <> '' THEN ' for ' || rota.short_words(value) ELSE '' END,
        'cap', coalesce(l.cap, 0), 'of_tenant', CASE WHEN l.tenant <> ''
            THEN '--tenant ' || rota.shell_word(l.tenant) || ' ' ELSE '' END);
    SELECT * INTO s FROM rota.limit_slots u WHERE u.tenant = l.tenant AND u.key = o.limit_key;
    held := greatest(coalesce(s.in_use, 0) - coalesce((SELECT sum(r.amount) FROM rota.limit_releases r
        WHERE r.key = o.limit_key), 0), 0);
    other := ARRAY(SELECT h.id FROM rota.open_runs h WHERE h.slots IS NOT NULL AND h.slots @> ARRAY[o.limit_key]
        ORDER BY h.id LIMIT 4);
    IF s.blocked_by IS NOT NULL AND s.blocked_by <> o.id THEN
        RETURN NEXT ROW('limit_blocked', o.enqueued_at, NULL, NULL,
            facts || jsonb_build_object('other', s.blocked_by))::rota.finding;
    ELSIF l.kind = 'sequence' AND (held > 0 OR ahead > 0) THEN
        RETURN NEXT ROW('limit_turn', o.enqueued_at, NULL, NULL, facts || jsonb_build_object('other', other[1],
            'before', CASE WHEN other[1] IS NULL THEN 'no run has the turn now'
                ELSE format('run %s has the turn now', other[1]) END,
            'then', line || ' ahead of it; runs take turns by age.'))::rota.finding;
    ELSIF l.kind = 'rate' AND (s.wait_until > rota.now() OR l.cap = 0) THEN
        RETURN NEXT ROW('limit_rate', o.enqueued_at, CASE WHEN s.wait_until < 'infinity' THEN s.wait_until END, NULL,
            facts || jsonb_build_object(
            'period', rota.duration_words(l.period_seconds), 'then',
            line || ' ahead of it.'))::rota.finding;
    ELSIF l.kind = 'concurrency' AND held >= l.cap THEN
        RETURN NEXT ROW('limit_full', o.enqueued_at, NULL, NULL,
            facts || jsonb_build_object('in_use', held, 'holders', CASE
            WHEN other = '{}' THEN '' WHEN cardinality(other) = 1 THEN format(', by run %s', other[1])
            ELSE format(', by runs %s', array_to_string(other[1:3], ', ')) || CASE WHEN held > 3 THEN ' and others'
            ELSE '' END END, 'then', CASE WHEN l.cap = 0 THEN 'No run starts under this limit until its cap is above 0.'
                ELSE line || ' ahead of it for the next free slot.' END))::rota.finding;
    ELSE
        RETURN NEXT ROW('limit_room', o.enqueued_at, NULL, NULL, facts)::rota.finding;
    END IF;
END $$;

-- How many wait before a run for the same counter, up to a thousand.
-- Called by: why_limit.
CREATE FUNCTION rota.limit_line(o rota.open_runs, is_by_age boolean) RETURNS bigint LANGUAGE sql STABLE
SET enable_seqscan = off SET jit = off AS $$
    SELECT count(*) FROM (SELECT w.priority, w.seq FROM rota.open_runs w
        WHERE w.held_by = 'limit' AND w.limit_key = o.limit_key
                          ORDER BY w.priority, w.seq LIMIT 1000) b
    WHERE CASE WHEN is_by_age THEN b.seq < o.seq ELSE (b.priority, b.seq) < (o.priority, o.seq) END
$$;

-- Whether a job is disabled, or no code declares it any more.
-- Called by: why_job, why_open_run, why_schedule.
CREATE FUNCTION rota.why_job_off(of_job text) RETURNS SETOF rota.finding LANGUAGE sql STABLE SET jit = off AS $$
    SELECT 'job_deleted', j.deleted_from_code_at, NULL::timestamptz, NULL, jsonb_build_object('job', j.name)
    FROM rota.jobs j WHERE j.name = of_job AND j.deleted_from_code_at IS NOT NULL
    UNION ALL
    SELECT 'job_disabled', coalesce(a.at, j.updated_at), NULL, a.actor,
           jsonb_build_object('job', j.name, 'by', rota.by_words(a.actor), 'because', rota.because_words(a.reason))
    FROM rota.jobs j LEFT JOIN LATERAL rota.last_audit('job', j.name, '', '{job.disabled}') a ON true
    WHERE j.name = of_job AND NOT j.is_enabled
$$;

-- Whether a queue is paused, by whom, and until when.
-- Called by: why_job, why_open_run, why_queue, why_schedule.
CREATE FUNCTION rota.why_queue_paused(of_queue text) RETURNS SETOF rota.finding LANGUAGE sql STABLE SET jit = off AS $$
    SELECT 'queue_paused', q.paused_at, q.paused_until, q.paused_by,
           jsonb_build_object('queue', q.name, 'by', rota.by_words(q.paused_by), 'because',
               rota.because_words(q.pause_reason), 'then', CASE WHEN q.paused_until IS NULL
                   THEN 'No run of the queue starts until somebody resumes it; running attempts continue.'
                            ELSE 'The queue resumes automatically when the pause ends; running attempts continue.' END)
    FROM rota.queues q WHERE q.name = of_queue AND rota.queue_is_paused(q)
$$;

-- Whether a queue is full, and what that does to what comes.
-- Called by: why_queue, why_schedule.
CREATE FUNCTION rota.why_queue_full(of_queue text) RETURNS SETOF rota.finding LANGUAGE sql STABLE SET jit = off AS $$
    SELECT 'queue_full', c.full_since, NULL::timestamptz, NULL,
        jsonb_build_object('queue', q.name, 'max', rota.number_words(q.max_waiting),
        'waiting', CASE c.waiting WHEN 1 THEN '1 run waits' ELSE rota.plural_words(c.waiting, 'run') || ' wait' END,
        'then', CASE q.when_full WHEN 'refuse'
            THEN 'New runs are refused, and times of schedules are skipped, until waiting runs start.'
                                 ELSE 'When more runs arrive, waiting runs with the lowest priority are dropped.' END)
    FROM rota.queues q JOIN rota.queue_caps c ON c.queue = q.name WHERE q.name = of_queue AND q.max_waiting IS NOT NULL
        AND c.full_since IS NOT NULL
$$;

-- Whether a tenant is paused, by whom, and until when.
-- Called by: why_open_run, why_schedule.
CREATE FUNCTION rota.why_tenant_paused(of_tenant text) RETURNS SETOF rota.finding LANGUAGE sql STABLE
SET jit = off AS $$
    SELECT 'tenant_paused', t.paused_at, t.paused_until, t.paused_by,
           jsonb_build_object('tenant', t.name, 'by', rota.by_words(t.paused_by), 'because',
               rota.because_words(t.pause_reason), 'then', CASE WHEN t.paused_until IS NULL
                   THEN 'Its runs are held until somebody resumes it; running attempts continue.'
                            ELSE 'Its runs are held; it resumes automatically when the pause ends.' END)
    FROM rota.tenants t WHERE t.name = of_tenant AND rota.tenant_is_paused(t)
$$;

-- Whether all slots of the workers that could are taken, since when and by what.
-- Called by: why_workers.
CREATE FUNCTION rota.why_busy(of_queue text, of_job text) RETURNS SETOF rota.finding LANGUAGE sql STABLE
SET jit = off AS $$
    WITH fit AS MATERIALIZED (
        SELECT f.* FROM rota.why_fleet(of_queue, of_job) f WHERE f.serves AND f.knows AND f.trouble IS NULL
            AND f.drained_at IS NULL
    ), held AS MATERIALIZED (
        SELECT r.id, r.job, r.worker, r.started_at FROM rota.running_runs() r WHERE r.worker IN (SELECT id FROM fit)
    ), loads AS (
        SELECT count(*) AS workers, sum(f.concurrency)::bigint AS slots,
            count(*) FILTER (WHERE coalesce(h.runs, 0) < f.concurrency) AS free
        FROM fit f LEFT JOIN (SELECT worker, count(*) AS runs FROM held GROUP BY worker) h ON h.worker = f.id
    ), by_job AS (
        SELECT string_agg(CASE WHEN n <= 3 THEN job || CASE WHEN runs > 1 THEN ' (' || rota.number_words(runs) || ')'
            ELSE '' END
                               WHEN n = 4 THEN 'others' END, ', ' ORDER BY n) AS jobs
        FROM (SELECT job, count(*) AS runs, row_number() OVER (ORDER BY count(*) DESC, job) AS n FROM held
            GROUP BY job) j
    )
    SELECT 'slots_busy', (SELECT max(h.started_at) FROM held h), NULL::timestamptz, NULL, jsonb_build_object(
               'slots', CASE l.slots WHEN 1 THEN 'The only slot of 1 worker is'
                   ELSE format('All %s of %s are', rota.plural_words(l.slots, 'slot'),
                       rota.plural_words(l.workers, 'worker')) END,
               'jobs', b.jobs, 'longest', o.id, 'longest_job', o.job,
               'duration', rota.duration_words(rota.seconds_between(o.started_at, rota.now())))
    FROM loads l CROSS JOIN by_job b CROSS JOIN (SELECT * FROM held ORDER BY started_at, id LIMIT 1) o
    WHERE l.free = 0
$$;

-- The place of a run in its line, which is that of its tenant: exact up to ten thousand, which is as far as anybody
-- looks. Others who have work in the queue take turns with it, so its pace is its share of the queue's.
-- Called by: why_open_run.
CREATE FUNCTION rota.why_line(o rota.open_runs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    most constant integer := 10000;
    idle   text[] := ARRAY(SELECT j.name FROM rota.jobs j WHERE NOT j.is_enabled);
    line   record;
    others record;
    pace   double precision;
BEGIN
    SELECT count(*) FILTER (WHERE a.worker IS NULL AND a.job <> ALL (idle)) AS ahead,
        count(*) > most AS is_long INTO line
    FROM (SELECT b.worker, b.job FROM rota.open_runs b
          WHERE b.is_ready AND b.queue = o.queue AND b.tenant = o.tenant AND (b.priority, b.seq) < (o.priority, o.seq)
          ORDER BY b.priority, b.seq LIMIT most + 1) a;
    SELECT count(*) AS tenants, rota.tenant_weight(o.tenant) /
        (rota.tenant_weight(o.tenant) + coalesce(sum(rota.tenant_weight(t.tenant)), 0)) AS share
    INTO others FROM rota.lane_tenants(o.queue) AS t (tenant) WHERE t.tenant <> o.tenant;
    IF line.ahead = 0 AND NOT line.is_long THEN
        RETURN NEXT ROW(CASE WHEN others.tenants > 0 THEN 'next_of_tenant' ELSE 'next_in_line' END, o.enqueued_at, NULL,
            NULL, jsonb_build_object('queue', o.queue, 'others', format('%s too',
                CASE others.tenants WHEN 1 THEN '1 other tenant uses'
                    ELSE rota.plural_words(others.tenants, 'other tenant') || ' use' END)))::rota.finding;
        RETURN;
    END IF;
    pace := CASE WHEN NOT line.is_long THEN rota.pace_of(o.queue) * others.share END;
    RETURN NEXT ROW('in_line', o.enqueued_at, rota.now() + make_interval(secs => line.ahead / pace), NULL,
        jsonb_build_object('queue', o.queue, 'ahead',
            CASE WHEN line.is_long THEN 'At least ' || rota.plural_words(line.ahead, 'run') || ' wait'
            WHEN line.ahead = 1 THEN '1 run waits'
                      ELSE rota.plural_words(line.ahead, 'run') || ' wait' END,
        'place', line.ahead + 1, 'is_exact', NOT line.is_long,
        'then', CASE WHEN others.tenants > 0 THEN format('Its tenant takes turns with %s, by weight. ',
            rota.plural_words(others.tenants, 'other tenant')) ELSE '' END ||
                CASE WHEN line.is_long
                         THEN 'Runs start by priority, then by age; the queue is too long for an estimate.'
                     WHEN pace IS NULL THEN 'Runs start by priority, then by age; there is no estimate, because no '
                         'attempt in the queue has ended in the last ten minutes.'
                     ELSE format('At the recent rate of %s per minute, it starts at about the time shown.',
                         trim_scale(round((pace * 60)::numeric, CASE WHEN pace < 1 THEN 1 ELSE 0 END)))
                         END))::rota.finding;
END $$;

-- Attempts that end in a queue, a second, over the last ten minutes; NULL: none did.
-- Called by: why_depths, why_line.
CREATE FUNCTION rota.pace_of(of_queue text) RETURNS double precision LANGUAGE sql STABLE SET jit = off AS $$
    SELECT sum(m.attempts)::double precision / greatest(extract(epoch FROM rota.now() - min(m.minute)), 30)
    FROM rota.rollup_minutes m
    WHERE m.minute >= date_trunc('minute', rota.now()) - interval '10 minutes' AND m.queue = of_queue
      AND m.outcome <> 'snoozed'
$$;

-- Why no worker claims a run of the job from the queue. is_later: its time has not come, so only reasons that will
-- still apply then. If all suitable workers are asleep, that is the reason; they wake up for runs that are due later.
-- Called by: why_job, why_open_run, why_queue, why_running, why_schedule.
CREATE FUNCTION rota.why_workers(of_queue text, of_job text, is_later boolean DEFAULT false) RETURNS SETOF rota.finding
LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    fleet record;
BEGIN
    SELECT count(*) AS live, count(*) FILTER (WHERE f.serves) AS serving, count(*) FILTER (WHERE f.knows) AS knowing,
           count(*) FILTER (WHERE f.serves AND f.knows) AS able,
           count(*) FILTER (WHERE f.serves AND f.knows AND (f.trouble IS NOT NULL OR f.drained_at IS NOT NULL)) AS unfit
    INTO fleet FROM rota.why_fleet(of_queue, of_job) f;
    IF fleet.able = 0 AND EXISTS (SELECT FROM rota.why_asleep(of_queue, of_job)) THEN
        RETURN QUERY SELECT * FROM rota.why_asleep(of_queue, of_job) WHERE NOT is_later;
        RETURN;
    END IF;
    IF fleet.live = 0 THEN
        RETURN QUERY
        SELECT 'no_worker', l.at, NULL::timestamptz, NULL,
            jsonb_build_object('last', CASE WHEN l.id IS NULL THEN ''
            ELSE format(': the last one, worker %s (%s), %s', l.id, rota.short_words(l.name),
                   CASE l.state WHEN 'gone' THEN 'was stopped' WHEN 'stopping' THEN 'is stopping' ELSE 'was lost' END)
                       END)
        FROM (SELECT 1) one LEFT JOIN LATERAL (
            SELECT w.*, coalesce(w.ended_at, w.lease_expires_at) AS at FROM rota.workers w
            ORDER BY coalesce(w.ended_at, w.lease_expires_at) DESC LIMIT 1) l ON true;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT 'queue_unserved', NULL::timestamptz, NULL::timestamptz, NULL, jsonb_build_object('queue', of_queue,
               'workers', CASE fleet.live WHEN 1 THEN 'only live worker'
                   ELSE rota.plural_words(fleet.live, 'live worker') END, 's', CASE fleet.live WHEN 1 THEN 's'
               ELSE '' END, 'queues', (SELECT string_agg(DISTINCT q, ', ')
                   FROM rota.why_fleet(of_queue, of_job) f, unnest(f.queues) q WHERE q <> 'rota' || '.system'))
    WHERE fleet.serving = 0
    UNION ALL
    SELECT 'job_unknown', NULL, NULL, NULL, jsonb_build_object('job', of_job, 'workers',
        CASE fleet.live WHEN 1 THEN 'only live worker runs'
            ELSE rota.plural_words(fleet.live, 'live worker') || ' run' END)
    WHERE fleet.knowing = 0
    UNION ALL
    SELECT 'worker_mismatch', NULL, NULL, NULL, jsonb_build_object('job', of_job, 'queue', of_queue)
    WHERE fleet.able = 0 AND fleet.serving > 0 AND fleet.knowing > 0;
    IF is_later OR fleet.able = 0 THEN
        RETURN;
    END IF;
    IF fleet.unfit > 0 THEN
        RETURN QUERY SELECT * FROM rota.why_unfit(of_queue, of_job);
    END IF;
    IF fleet.unfit < fleet.able THEN
        RETURN QUERY SELECT * FROM rota.why_busy(of_queue, of_job);
    END IF;
END $$;

-- The workers that could take a run of the job from the queue if they did not sleep.
-- Called by: why_schedule, why_workers.
CREATE FUNCTION rota.why_asleep(of_queue text, of_job text) RETURNS SETOF rota.finding LANGUAGE sql STABLE
SET jit = off AS $$
    SELECT 'workers_asleep', min(a.ended_at), min(a.asleep_until), NULL, jsonb_build_object(
               'pid', (array_agg(a.pid ORDER BY a.n))[1], 'host', (array_agg(rota.short_words(a.host) ORDER BY a.n))[1],
               'workers', string_agg(CASE WHEN a.n <= 3 THEN format('%s (%s)', a.id, rota.short_words(a.name))
                   WHEN a.n = 4 THEN 'others' END, ', ' ORDER BY a.n))
    FROM (SELECT w.*, row_number() OVER (ORDER BY w.asleep_until, w.id) AS n FROM rota.workers w
          WHERE rota.is_asleep(w) AND (of_queue IS NULL OR w.queues = '{}' OR of_queue = ANY (w.queues))
            AND (of_job IS NULL OR of_job = ANY (w.jobs))) a
    HAVING count(*) > 0
$$;

-- Workers that could take it, but fail or drain.
-- Called by: why_workers.
CREATE FUNCTION rota.why_unfit(of_queue text, of_job text) RETURNS SETOF rota.finding LANGUAGE sql STABLE
SET jit = off AS $$
    WITH able AS MATERIALIZED (
        SELECT f.*, count(*) OVER () AS of_all FROM rota.why_fleet(of_queue, of_job) f WHERE f.serves AND f.knows
    )
    SELECT 'workers_failing', NULL::timestamptz, NULL::timestamptz, NULL, jsonb_build_object(
               'worker', min(a.id), 'some', rota.share_words(count(*), max(a.of_all), 'worker'),
               'troubles', string_agg(format('worker %s (%s), %s', a.id, rota.short_words(a.name),
                   rota.short_words(a.trouble)), '; ' ORDER BY a.id) FILTER (WHERE a.n <= 3))
    FROM (SELECT *, row_number() OVER (ORDER BY id) AS n FROM able WHERE trouble IS NOT NULL) a HAVING count(*) > 0
    UNION ALL
    SELECT 'workers_draining', min(a.drained_at), NULL, min(a.drained_by), jsonb_build_object(
               'worker', min(a.id), 'some', rota.share_words(count(*), max(a.of_all), 'worker'),
               'by', coalesce(', as requested' || nullif(rota.by_words(min(a.drained_by)), ''), ''),
               'because', rota.because_words(min(a.drain_reason)))
    FROM able a WHERE a.drained_at IS NOT NULL AND a.trouble IS NULL HAVING count(*) > 0
$$;

-- The live workers, and which of them could take a run of the job from the queue; NULL: any job, any queue.
-- Called by: why_busy, why_held, why_schedule, why_unfit, why_workers.
CREATE FUNCTION rota.why_fleet(of_queue text, of_job text) RETURNS TABLE (
    id bigint, name text, queues text[], concurrency integer, serves boolean, knows boolean, trouble text,
    drained_at timestamptz, drained_by text, drain_reason text
) LANGUAGE sql STABLE SET jit = off AS $$
    SELECT w.id, w.name, w.queues, w.concurrency, of_queue IS NULL OR w.queues = '{}' OR of_queue = ANY (w.queues),
        of_job IS NULL OR of_job = ANY (w.jobs),
           CASE WHEN w.is_stuck THEN coalesce(w.trouble, 'its event loop is blocked') ELSE w.trouble END,
           w.drain_requested_at, w.drain_requested_by, w.drain_reason
    FROM rota.workers w WHERE w.state = 'live' AND w.lease_expires_at > clock_timestamp()
$$;

-- Findings about a job: its events, what keeps its runs from starting, what waits, what fails.
-- Called by: why_findings.
CREATE FUNCTION rota.why_job(j rota.jobs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    bad  record;
    off  record;
BEGIN
    RETURN QUERY SELECT * FROM rota.why_events(j);
    RETURN QUERY SELECT * FROM rota.why_job_off(j.name);
    RETURN QUERY SELECT * FROM rota.why_queue_paused(j.queue);
    RETURN QUERY SELECT * FROM rota.why_workers(j.queue, j.name);
    RETURN QUERY SELECT * FROM rota.why_depths(ARRAY(SELECT d FROM rota.kept_depths() d WHERE d.job = j.name), NULL,
        j.name, j.queue);
    SELECT sum(m.attempts) FILTER (WHERE m.outcome IN ('failed', 'timed_out', 'lost'))::bigint AS failures,
        sum(m.attempts)::bigint AS attempts INTO bad
    FROM rota.rollup_minutes m WHERE m.job = j.name
        AND m.minute >= date_trunc('minute', rota.now() - interval '5 minutes');
    RETURN QUERY
    SELECT 'job_failing', NULL::timestamptz, NULL::timestamptz, NULL,
        jsonb_build_object('job', j.name, 'failures', rota.number_words(bad.failures),
               'attempts', rota.plural_words(bad.attempts, 'attempt'), 'error',
               coalesce(rota.because_words(w.last_error), '') || '.')
    FROM (SELECT 1) one LEFT JOIN LATERAL (SELECT e.last_error FROM rota.waiting_errors(500) e
        WHERE e.job = j.name LIMIT 1) w ON true WHERE bad.failures > 0;
    SELECT count(*) FILTER (WHERE x.is_off) AS off, count(*) AS schedules, min(x.name) FILTER (WHERE x.is_off) AS first,
           string_agg(x.name, ', ' ORDER BY x.name) FILTER (WHERE x.is_off AND x.n <= 3) AS names INTO off
    FROM (SELECT s.name, s.is_off, row_number() OVER (PARTITION BY s.is_off ORDER BY s.name) AS n FROM (
              SELECT t.name, NOT t.is_enabled OR t.parked_at IS NOT NULL
                  OR coalesce(t.paused_until > rota.now(), t.paused_at IS NOT NULL) AS is_off
              FROM rota.schedules t WHERE t.job = j.name AND t.finished_at IS NULL) s) x;
    RETURN QUERY SELECT 'schedules_off', NULL::timestamptz, NULL::timestamptz, NULL,
        jsonb_build_object('schedule', off.first, 'some', rota.share_words(off.off, off.schedules, 'schedule'),
        'names', off.names || CASE WHEN off.off > 3 THEN ' …' ELSE '' END) WHERE off.off > 0;
    RETURN QUERY
    SELECT 'last_end', e.finished_at, NULL::timestamptz, NULL, jsonb_build_object('run', e.id,
               'ended', CASE e.state WHEN 'cancelled' THEN 'was cancelled'
                   WHEN 'failed' THEN 'failed' || rota.because_words(concat_ws(': ', e.error_type, e.error))
                   ELSE e.state END)
    FROM (SELECT r.* FROM rota.ended_runs r WHERE r.job = j.name AND r.finished_at > rota.now() - interval '35 days'
        ORDER BY r.finished_at DESC LIMIT 1) e;
END $$;

-- Why a job that is bound to events did not start: none came, or its filters let the last one pass by. Only the
-- newest events are looked at, so that it costs the same however many are kept.
-- Called by: why_job.
CREATE FUNCTION rota.why_events(j rota.jobs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    most constant integer := 500;
    mine constant jsonb := jsonb_build_object('job', j.name);
    last record;
BEGIN
    IF j.events = '{}' OR j.deleted_from_code_at IS NOT NULL THEN
        RETURN;
    END IF;
    SELECT e.id, e.at, jsonb_path_exists(coalesce(e.deliveries, '[]'),
        '$[*] ? (@.job == $job && @.skipped == "filter")', mine)
            AND NOT jsonb_path_exists(coalesce(e.deliveries, '[]'), '$[*] ? (@.job == $job && exists(@.run))',
                mine) AS is_filtered,
        jsonb_path_query_first(coalesce(e.deliveries, '[]'), '$[*] ? (@.job == $job && exists(@.throttled_until))',
            mine) AS throttled
    INTO last
    FROM (SELECT n.id, n.at, n.name, n.deliveries FROM rota.events n ORDER BY n.id DESC LIMIT most) e
    WHERE EXISTS (SELECT FROM rota.event_bindings b
        WHERE b.job = j.name AND (b.pattern = e.name OR (b.is_pattern AND e.name LIKE b.like_pattern)))
    ORDER BY e.id DESC LIMIT 1;
    IF last.id IS NULL THEN
        RETURN NEXT ROW('no_event', NULL, NULL, NULL,
            jsonb_build_object('job', j.name, 'looked', rota.plural_words(most, 'event'),
            'bound', rota.short_words(array_to_string(j.events, ', '))))::rota.finding;
    ELSIF last.is_filtered THEN
        RETURN NEXT ROW('event_filtered', last.at, NULL, NULL, jsonb_build_object('event', last.id))::rota.finding;
    ELSIF last.throttled IS NOT NULL THEN
        RETURN NEXT ROW('event_throttled', last.at, NULL, NULL,
            jsonb_build_object('event', last.id, 'run', last.throttled -> 'run'))::rota.finding;
    END IF;
END $$;

-- Findings about a queue: its pause, its workers, what waits, and jobs of it that nobody can run.
-- Called by: why_findings.
CREATE FUNCTION rota.why_queue(of_queue text) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    depths rota.depths[] := ARRAY(SELECT d FROM rota.kept_depths() d WHERE d.queue = of_queue);
    known  text[] := ARRAY(SELECT DISTINCT unnest(w.jobs) FROM rota.workers w
        WHERE w.state = 'live' AND w.lease_expires_at > clock_timestamp());
BEGIN
    RETURN QUERY SELECT * FROM rota.why_queue_paused(of_queue);
    RETURN QUERY SELECT * FROM rota.why_queue_full(of_queue);
    RETURN QUERY SELECT * FROM rota.why_workers(of_queue, NULL);
    RETURN QUERY SELECT * FROM rota.why_depths(depths, of_queue, NULL, of_queue);
    RETURN QUERY
    WITH waiting AS MATERIALIZED (
        SELECT d.job, d.queued, j.is_enabled, d.job = ANY (known) AS is_known,
               row_number() OVER (PARTITION BY j.is_enabled ORDER BY d.queued DESC, d.job) AS n
        FROM unnest(depths) d JOIN rota.jobs j ON j.name = d.job WHERE d.queued > 0
    )
    SELECT 'jobs_disabled', NULL::timestamptz, NULL::timestamptz, NULL,
        jsonb_build_object('job', min(w.job) FILTER (WHERE w.n = 1),
               'waiting', rota.plural_words(sum(w.queued)::bigint, 'run'), 'belong',
               CASE sum(w.queued) WHEN 1 THEN 'belongs' ELSE 'belong' END, 'jobs', string_agg(w.job, ', ' ORDER BY w.n)
                   FILTER (WHERE w.n <= 3))
    FROM waiting w WHERE NOT w.is_enabled HAVING count(*) > 0
    UNION ALL
    SELECT 'jobs_unknown', NULL, NULL, NULL, jsonb_build_object('job', min(w.job),
               'waiting', rota.plural_words(sum(w.queued)::bigint, 'run'), 'belong',
               CASE sum(w.queued) WHEN 1 THEN 'belongs' ELSE 'belong' END, 'jobs',
               rota.short_words(string_agg(w.job, ', ' ORDER BY w.job)))
    FROM waiting w WHERE NOT w.is_known AND known <> '{}' HAVING count(*) > 0;
END $$;

-- What waits of a job or in a queue, and how quickly it goes in the lane.
-- Called by: why_job, why_queue.
CREATE FUNCTION rota.why_depths(depths rota.depths[], of_queue text, of_job text, lane text) RETURNS SETOF rota.finding
LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    pace  double precision;
    seen  record;
    facts jsonb := jsonb_build_object('of', CASE WHEN of_job IS NULL THEN '--queue ' || rota.shell_word(of_queue)
        ELSE '--job ' || rota.shell_word(of_job) END,
                                      'queue', lane, 'job', of_job);
BEGIN
    SELECT coalesce(sum(d.queued), 0)::bigint AS queued, coalesce(sum(d.held), 0)::bigint AS held,
           coalesce(sum(d.scheduled), 0)::bigint AS later, coalesce(sum(d.running), 0)::bigint AS running,
           min(d.oldest_at) AS oldest_at
    INTO seen FROM unnest(depths) d;
    IF seen.queued > 0 THEN
        pace := rota.pace_of(lane);
        RETURN NEXT ROW('runs_wait', NULL, CASE WHEN of_job IS NULL
            THEN rota.now() + make_interval(secs => seen.queued / pace) END, NULL, facts || jsonb_build_object(
            'waiting', CASE seen.queued WHEN 1 THEN '1 run waits'
                ELSE rota.plural_words(seen.queued, 'run') || ' wait' END, 'count', seen.queued,
            'oldest', coalesce(', the oldest for '
                || rota.duration_words(rota.seconds_between(seen.oldest_at, clock_timestamp())), ''),
            'then', CASE WHEN pace IS NULL THEN 'No attempt in the queue has ended in the last ten minutes.'
                         ELSE format('In the last ten minutes, %s attempts per minute have ended in queue %s%s.',
                             trim_scale(round((pace * 60)::numeric, CASE WHEN pace < 1 THEN 1 ELSE 0 END)), lane,
                                     CASE WHEN of_job IS NULL
                                         THEN '; at that rate, the waiting runs are done at about the time shown'
                                         ELSE '' END) END))::rota.finding;
        RETURN QUERY SELECT 'runs_held', NULL::timestamptz, NULL::timestamptz, NULL, facts || jsonb_build_object(
            'held', rota.number_words(seen.held), 'are', CASE seen.held WHEN 1 THEN 'is' ELSE 'are' END)
                WHERE seen.held > 0;
    ELSIF seen.running > 0 THEN
        RETURN NEXT ROW('at_work', NULL, NULL, NULL,
            facts || jsonb_build_object('running', CASE seen.running WHEN 1 THEN '1 run is'
            ELSE rota.plural_words(seen.running, 'run') || ' are' END))::rota.finding;
    ELSIF seen.later > 0 THEN
        RETURN NEXT ROW('runs_for_later', NULL, NULL, NULL,
            facts || jsonb_build_object('its', CASE seen.later WHEN 1 THEN 'its' ELSE 'their' END,
            'later', CASE seen.later WHEN 1 THEN '1 run waits'
                ELSE rota.plural_words(seen.later, 'run') || ' wait' END))::rota.finding;
    ELSE
        RETURN NEXT ROW('idle', NULL, NULL, NULL, facts)::rota.finding;
    END IF;
END $$;

-- Findings about a schedule: its state, what keeps it or its last run back, what was decided about its last time,
-- and its next one. One that is written while all workers sleep waits until one wakes.
-- Called by: why_findings.
CREATE FUNCTION rota.why_schedule(s rota.schedules) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    clock     timestamptz := rota.now();
    is_paused boolean := coalesce(s.paused_until > clock, s.paused_at IS NOT NULL);
    is_on     boolean := s.is_enabled AND s.finished_at IS NULL AND s.parked_at IS NULL AND NOT is_paused;
    lane      text := coalesce(s.queue, (SELECT j.queue FROM rota.jobs j WHERE j.name = s.job));
    facts     jsonb := jsonb_build_object('schedule', s.name, 'job', s.job);
    told      record;
    live      bigint;
    run       record;
BEGIN
    IF NOT s.is_enabled THEN
        SELECT * INTO told FROM rota.last_audit('schedule', s.name, s.tenant, '{schedule.disabled,schedule.updated}');
        RETURN NEXT ROW('schedule_disabled', coalesce(told.at, s.updated_at), NULL, coalesce(told.actor, s.updated_by),
            facts || jsonb_build_object('by', rota.by_words(coalesce(told.actor, s.updated_by))))::rota.finding;
    END IF;
    IF s.finished_at IS NOT NULL THEN
        RETURN NEXT ROW('schedule_finished', s.finished_at, NULL, NULL, facts || jsonb_build_object('why', CASE
            WHEN s.init IS NOT NULL THEN 'it has run once' WHEN s.run_at IS NOT NULL THEN 'its only time has passed'
            WHEN s.run_count >= s.max_runs THEN format('it has run %s, its maximum',
                rota.plural_words(s.run_count, 'time'))
            WHEN s.end_at <= clock THEN 'its end time has passed' ELSE 'its timing has no more times'
            END))::rota.finding;
    END IF;
    IF s.parked_at IS NOT NULL THEN
        RETURN NEXT ROW('schedule_parked', s.parked_at, s.retry_at, NULL,
            facts || jsonb_build_object('error', rota.short_words(coalesce(s.error,
            'no reason was given')) || '.'))::rota.finding;
    END IF;
    IF is_paused THEN
        RETURN NEXT ROW('schedule_paused', s.paused_at, s.paused_until, s.paused_by, facts || jsonb_build_object(
            'by', rota.by_words(s.paused_by), 'because', rota.because_words(s.pause_reason),
            'then', CASE WHEN s.paused_until IS NULL
                THEN 'Its times are skipped and recorded until somebody resumes it.'
                         ELSE 'Its times are skipped and recorded; it resumes automatically when the pause ends.'
                         END))::rota.finding;
    END IF;
    -- Apart from their order, else they are looked for among all by their ids.
    SELECT o.id, o.state, o.created_at INTO run
    FROM (SELECT * FROM rota.open_runs w WHERE w.schedule_id = s.id LIMIT 1000) o ORDER BY o.id DESC LIMIT 1;
    IF run.id IS NOT NULL THEN
        RETURN NEXT ROW('run_open', run.created_at, NULL, NULL,
            facts || jsonb_build_object('run', run.id, 'state', run.state))::rota.finding;
    END IF;
    IF is_on OR run.id IS NOT NULL THEN
        RETURN QUERY SELECT * FROM rota.why_job_off(s.job);
        RETURN QUERY SELECT * FROM rota.why_queue_paused(lane);
        RETURN QUERY SELECT * FROM rota.why_queue_full(lane);
        RETURN QUERY SELECT * FROM rota.why_tenant_paused(s.tenant) WHERE s.tenant <> '';
        RETURN QUERY SELECT * FROM rota.why_workers(lane, s.job, run.state IS DISTINCT FROM 'queued');
    END IF;
    RETURN QUERY SELECT * FROM rota.why_decision(s);
    IF s.failures_in_a_row > 0 THEN
        SELECT r.error, r.run_id INTO told FROM (SELECT * FROM rota.ledger l WHERE l.schedule_id = s.id
            ORDER BY l.nominal_at DESC LIMIT 20) r
        WHERE r.success IS FALSE ORDER BY r.nominal_at DESC LIMIT 1;
        RETURN NEXT ROW('schedule_failing', s.last_run_at, NULL, NULL, facts || jsonb_build_object('run', told.run_id,
            'failures', CASE s.failures_in_a_row WHEN 1 THEN 'run'
            ELSE rota.plural_words(s.failures_in_a_row, 'run') END, 'error', rota.because_words(told.error) || '.',
            'then', CASE WHEN s.pause_after_failures IS NULL THEN 'It continues with its next time.'
                ELSE format('It is paused after %s in a row.', rota.plural_words(s.pause_after_failures, 'failure'))
                END))::rota.finding;
    END IF;
    IF NOT is_on THEN
        RETURN;
    ELSIF s.is_shadow THEN
        RETURN NEXT ROW('shadow', NULL, NULL, NULL, facts)::rota.finding;
    END IF;
    IF s.init IS NOT NULL THEN
        RETURN NEXT ROW('waits_for_start', s.last_enqueued_at, NULL, NULL,
            facts || jsonb_build_object('which', CASE s.init
            WHEN 'once' THEN ', until it has succeeded once' WHEN 'release' THEN ', once per release'
                ELSE ', once per start of the fleet' END))::rota.finding;
    ELSIF s.next_run_at IS NULL THEN
        RETURN NEXT ROW('schedule_pending', s.updated_at, NULL, NULL, facts)::rota.finding;
    ELSIF s.next_run_at <= clock - interval '30 seconds' THEN
        SELECT count(*) INTO live FROM rota.why_fleet(NULL, NULL);
        RETURN NEXT ROW('no_tick', s.next_run_at, NULL, NULL, facts || jsonb_build_object('workers',
            CASE live WHEN 0 THEN CASE WHEN EXISTS (SELECT FROM rota.why_asleep(NULL, NULL)) THEN 'all are asleep'
                ELSE 'none is running' END WHEN 1 THEN 'the only live worker processes no schedules'
                ELSE format('none of the %s live workers processes schedules', rota.number_words(live))
                END))::rota.finding;
    ELSE
        RETURN NEXT ROW(CASE WHEN s.moved_to IS NULL THEN 'waits_for_next' ELSE 'rescheduled' END, NULL, s.next_run_at,
            NULL, facts)::rota.finding;
    END IF;
END $$;

-- The decision for its latest time; and, if that ran, the latest of the five before it that did not run.
-- Called by: why_schedule.
CREATE FUNCTION rota.why_decision(s rota.schedules) RETURNS SETOF rota.finding LANGUAGE sql STABLE
SET enable_seqscan = off SET jit = off AS $$
    WITH late AS MATERIALIZED (
        SELECT r.*, r.decision IN ('ran', 'caught_up') AS has_run, row_number() OVER (ORDER BY r.nominal_at DESC) AS n
        FROM (SELECT * FROM rota.ledger l WHERE l.schedule_id = s.id ORDER BY l.nominal_at DESC LIMIT 6) r
    )
    SELECT 'schedule_ran', l.nominal_at, NULL::timestamptz, NULL, jsonb_build_object('run', l.run_id, 'ended',
        CASE l.state WHEN 'cancelled' THEN 'was cancelled' ELSE l.state END)
    FROM late l WHERE l.n = 1 AND l.has_run AND l.success IS NOT NULL AND (l.success OR s.failures_in_a_row = 0)
    UNION ALL
    (SELECT coalesce(r.code, 'not_run'), l.nominal_at, NULL, NULL, jsonb_build_object('schedule', s.name, 'job', s.job,
                'calendar', coalesce(s.calendar, 'its calendar'), 'decision', l.decision, 'reason', l.reason,
                'which', CASE l.n WHEN 1 THEN 'Its latest time' ELSE 'An earlier time' END,
                -- An earlier one weighs less than how the last one went.
                'lighter', CASE l.n WHEN 1 THEN 0 ELSE 20 END,
                'times', CASE WHEN l.count > 1 THEN format(' (and %s before it)', rota.number_words(l.count - 1))
                ELSE '' END, 'unmet', rota.short_words(coalesce(u.names, 'others')), 'unmet_first',
                coalesce(l.details -> 'unmet' ->> 0, s.name))
     FROM late l
     LEFT JOIN rota.reasons r ON r.code = l.decision || '_' || replace(l.reason, 'policy ', '')
     CROSS JOIN LATERAL (SELECT string_agg(w.word, ', ') AS names
                         FROM jsonb_array_elements_text(CASE jsonb_typeof(l.details -> 'unmet') WHEN 'array'
                             THEN l.details -> 'unmet' ELSE '[]' END) AS w (word)) u
     WHERE NOT l.has_run ORDER BY l.n LIMIT 1)
$$;

-- What a word may mean, the first first: a number is a run; a name is a schedule, then a job, then a queue.
-- Called by: why.
CREATE FUNCTION rota.why_kinds(subject text, tenant text) RETURNS text[] LANGUAGE sql STABLE
SET enable_seqscan = off SET jit = off AS $$
    SELECT array_remove(ARRAY[
        CASE WHEN subject ~ '^[0-9]{1,18}$' THEN 'run' END,
        CASE WHEN EXISTS (SELECT FROM rota.schedules s WHERE s.tenant = why_kinds.tenant AND s.name = subject)
            THEN 'schedule' END,
        CASE WHEN EXISTS (SELECT FROM rota.jobs j WHERE j.name = subject) THEN 'job' END,
        CASE WHEN EXISTS (SELECT FROM rota.queues q WHERE q.name = subject) OR EXISTS (SELECT FROM rota.jobs j
            WHERE j.queue = subject)
               OR EXISTS (SELECT FROM rota.open_runs o WHERE o.is_ready AND o.queue = subject)
               OR EXISTS (SELECT FROM rota.depths d WHERE d.queue = subject)
             THEN 'queue' END], NULL)
$$;

-- The findings about anything that why can be asked about, by its kind.
-- Called by: why.
CREATE FUNCTION rota.why_findings(subject text, kind text, tenant text) RETURNS SETOF rota.finding
LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    j rota.jobs;
BEGIN
    CASE why_findings.kind
    WHEN 'run' THEN
        RETURN QUERY SELECT * FROM rota.why_run(subject::bigint);
    WHEN 'schedule' THEN
        RETURN QUERY SELECT * FROM rota.why_schedule(rota.find_schedule(subject, why_findings.tenant));
    WHEN 'job' THEN
        SELECT * INTO j FROM rota.jobs r WHERE r.name = subject;
        RETURN QUERY SELECT * FROM rota.why_job(j);
    ELSE
        RETURN QUERY SELECT * FROM rota.why_queue(subject);
    END CASE;
END $$;

-- Why something does not run, or did what it did: the reasons in order, each with what happens next and the command
-- that would change it. Without a kind, the subject is the first that why_kinds finds; also has the others. Errors:
-- RO001 no such job, RO002 no such kind, RO004 no such run, RO007 no such schedule, RO013 no such queue, or nothing of
-- that name.
-- Called by: sql/why/ask.sql, users.
CREATE FUNCTION rota.why(subject text, kind text DEFAULT NULL, tenant text DEFAULT '') RETURNS TABLE (
    place bigint, code text, sentence text, since timestamptz, until timestamptz, by_whom text, next_step text,
    command text, facts jsonb, is_past boolean, kind_found text, name text, also text[]
) LANGUAGE plpgsql STABLE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    word   text := btrim(why.subject);
    kinds  text[] := rota.why_kinds(word, why.tenant);
    chosen text := coalesce(why.kind, kinds[1]);
    -- Of the facts what a program may want; the rest are parts of sentences.
    told   constant text[] :=
        '{run,job,queue,schedule,worker,other,longest,key,calendar,attempt,place,is_exact,count,state}';
BEGIN
    IF chosen NOT IN ('run', 'schedule', 'job', 'queue') THEN
        RAISE EXCEPTION 'unknown kind "%": choose from run, schedule, job, queue', chosen USING ERRCODE = 'RO002';
    ELSIF chosen IS NULL THEN
        RAISE EXCEPTION 'no schedule, job or queue is named "%"', word USING ERRCODE = 'RO013',
            HINT = 'Pass the number of a run, or, for a schedule of a tenant, the tenant as well.';
    ELSIF chosen <> ALL (kinds) THEN
        CASE chosen
        WHEN 'run' THEN RAISE EXCEPTION 'there is no run %', word USING ERRCODE = 'RO004';
        WHEN 'schedule' THEN PERFORM rota.find_schedule(word, why.tenant);
        WHEN 'job' THEN PERFORM rota.unknown_job(word);
        ELSE RAISE EXCEPTION 'there is no queue "%": no job, run or operator uses this name', word
            USING ERRCODE = 'RO013';
        END CASE;
    END IF;
    RETURN QUERY
    SELECT row_number() OVER (ORDER BY o.place, f.n), f.code, rota.fill_words(r.sentence, x.facts), f.since, f.until,
           f.by_whom, rota.fill_words(r.next_step, x.facts), rota.fill_words(r.command, x.facts, true),
           (SELECT coalesce(jsonb_object_agg(t.key, t.value), '{}') FROM jsonb_each(f.facts) t
               WHERE t.key = ANY (told) AND t.value <> 'null'), r.is_past, chosen, word, array_remove(kinds, chosen)
    FROM rota.why_findings(word, chosen, why.tenant) WITH ORDINALITY AS f (code, since, until, by_whom, facts, n)
    JOIN rota.reasons r ON r.code = f.code
    CROSS JOIN LATERAL (SELECT f.facts || CASE WHEN why.tenant = '' THEN '{}'
        ELSE jsonb_build_object('of_tenant', '--tenant ' || rota.shell_word(why.tenant) || ' ') END AS facts) x
    CROSS JOIN LATERAL (SELECT r.place + coalesce((f.facts ->> 'lighter')::integer, 0) AS place) o
    ORDER BY o.place, f.n;
END $$;

-- 29_values.sql

-- What plain INSERT and UPDATE may write. `guard_values` makes a constraint for each column by its kind and, where
-- people write, triggers that say in words what a constraint can only refuse. A migration that adds a column or a
-- constraint to one of these tables calls it again. It stands here because its rules look at tables of all other files.

-- Whether an instant is one that every reader can hold: in the years 1 to 9999 with a day off at both ends, so that
-- it is so in every time zone.
-- Called by: check_options, model/instants.py, move_schedule, reschedule, set_clock.
CREATE FUNCTION rota.is_instant(at timestamptz) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT at >= '0001-01-02 00:00Z'::timestamptz AND at < '9999-12-31 00:00Z'::timestamptz
$$;

-- Whether JSON is at most 100 levels deep, with no number beyond a double. What cannot be more, by its length, its
-- brackets or its digits, is not walked through.
-- Called by: check_options, enqueue_batch, row_payload, value_rule.
CREATE FUNCTION rota.is_plain_json(doc jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN octet_length(doc::text) <= 200 THEN true
        ELSE NOT (length(doc::text) - length(translate(doc::text, '[{', '')) > 100
            AND jsonb_path_exists(doc, '$.**{101}'))
            AND NOT (doc::text ~ '[0-9]{155}[0-9]{154}' AND jsonb_path_exists(doc,
            '$.** ? (@.type() == "number" && (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308))')) END
$$;

-- Whether an array is one list of texts, none of them missing.
-- Called by: check_options, value_rule.
CREATE FUNCTION rota.is_plain_list(list text[]) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN array_ndims(list) > 1 THEN false ELSE array_position(list, NULL) IS NULL END
$$;

-- The rule of one column, as text about %1$s; NULL: anything goes. next_run_at is infinite while a schedule waits
-- for the end of its run, and a key may be kept for ever. What only Rota writes as JSON is not looked at again.
-- Called by: value_rules.
CREATE FUNCTION rota.value_rule(name text, kind regtype) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN kind = 'timestamptz'::regtype
            THEN $rule$(%1$s >= '0001-01-02 00:00Z'::timestamptz AND %1$s < '9999-12-31 00:00Z'::timestamptz$rule$
            || CASE WHEN name = 'next_run_at' THEN $rule$ OR %1$s = 'infinity'$rule$ ELSE '' END || ')'
        WHEN kind = 'interval'::regtype THEN $rule$(%1$s BETWEEN interval '-2000 years' AND interval '7000 years')$rule$
        WHEN kind IN ('real'::regtype, 'double precision'::regtype) AND name LIKE '%seconds'
            THEN '(%1$s BETWEEN -3153600000 AND 3153600000'
            || CASE WHEN name = 'key_seconds' THEN $rule$ OR %1$s = 'infinity'$rule$ ELSE '' END || ')'
        WHEN kind IN ('real'::regtype, 'double precision'::regtype)
            THEN $rule$(%1$s > '-infinity' AND %1$s < 'infinity')$rule$
        WHEN kind = 'jsonb'::regtype AND name NOT IN ('code', 'edited', 'segments', 'payload_schema')
            THEN 'rota.is_plain_json(%1$s)'
        WHEN kind = 'text[]'::regtype THEN 'rota.is_plain_list(%1$s)'
    END
$$;

-- The columns of a table that have a rule, and their rules.
-- Called by: guard_values, refuse_values.
CREATE FUNCTION rota.value_rules(relation regclass) RETURNS TABLE (name text, kind regtype, rule text)
LANGUAGE sql STABLE SET jit = off AS $$
    SELECT a.attname::text, a.atttypid::regtype, rota.value_rule(a.attname::text, a.atttypid::regtype)
    FROM pg_attribute a
    WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
      AND rota.value_rule(a.attname::text, a.atttypid::regtype) IS NOT NULL
      -- Open runs have rules of their own, written for speed.
      AND relation <> 'rota.open_runs'::regclass
    ORDER BY a.attnum
$$;

-- A row in words: its kind, and its name if it has one.
-- Called by: refuse_row, refuse_values.
CREATE FUNCTION rota.row_words(relation text, name text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT replace(rtrim(relation, 's'), '_', ' ') || coalesce(format(' "%s"', name), '')
$$;

-- Trigger: names the column of a row that breaks a rule.
CREATE FUNCTION rota.refuse_values() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    who   text := rota.row_words(TG_TABLE_NAME, to_jsonb(NEW) ->> 'name');
    one   record;
    is_ok boolean;
    found text;
BEGIN
    FOR one IN SELECT * FROM rota.value_rules(TG_RELID) LOOP
        EXECUTE format('SELECT %s, left(($1).%I::text, 40)', format(one.rule, format('($1).%I', one.name)), one.name)
        INTO is_ok, found USING NEW;
        IF NOT is_ok THEN
            RAISE EXCEPTION '% of % cannot be %', one.name, who, found
                USING ERRCODE = 'RO002', COLUMN = one.name, HINT = CASE one.kind
                    WHEN 'timestamptz'::regtype
                        THEN 'A time must be in the years 1 to 9999 (0001-01-02 to 9999-12-30, UTC); omit it for none.'
                    WHEN 'jsonb'::regtype
                        THEN 'JSON is nested at most 100 levels deep; its largest number is 1.7976931348623157e308.'
                    WHEN 'text[]'::regtype THEN 'A list must contain strings only.'
                    ELSE 'A number must be finite; seconds are at most 3153600000 (100 years).' END;
        END IF;
    END LOOP;
    RETURN NEW;
END $$;

-- What a row breaks, in words: the sentence and what to do about it. Some constraints have both in their comment, where
-- {column} stands for its value; the usual shapes of the others speak for themselves.
-- Called by: refuse_row.
CREATE FUNCTION rota.constraint_words(rule oid, given jsonb) RETURNS text[] LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    said    text := obj_description(rule, 'pg_constraint');
    expr    text;
    short   text;
    part    text[];
BEGIN
    SELECT pg_get_expr(c.conbin, c.conrelid), c.conname INTO expr, short FROM pg_constraint c WHERE c.oid = rule;
    IF said IS NOT NULL THEN
        RETURN string_to_array(rota.fill_words(said, given), E'\n');
    END IF;
    part := regexp_match(expr, '^\((\w+) = ANY \(ARRAY\[(.*)\]\)\)$');
    IF part IS NOT NULL THEN
        RETURN ARRAY[format('%s must be one of %s, not %s', part[1], (SELECT string_agg(m[1], ', ')
            FROM regexp_matches(part[2], '''([^'']*)''::text', 'g') m), given -> part[1])];
    END IF;
    part := regexp_match(expr, '^\(jsonb_typeof\((\w+)\) = ''(\w+)''::text\)$');
    IF part IS NOT NULL THEN
        RETURN ARRAY[format('%s must be a JSON %s, not %s', part[1], part[2], left((given -> part[1])::text, 40))];
    END IF;
    part := regexp_match(expr, '^\(\((\w+) >= \W*([\d.]+)\W.* AND \(\w+ <= \W*([\d.]+)\W');
    IF part IS NOT NULL THEN
        RETURN ARRAY[format('%s must be from %s to %s, not %s', part[1], part[2], part[3], given ->> part[1])];
    END IF;
    part := regexp_match(expr, '^\((\w+) (>=|>) \(?([\d.]+)\)?(?:::double precision)?\)$');
    IF part IS NOT NULL THEN
        RETURN ARRAY[format('%s must be %s %s, not %s', part[1],
            CASE part[2] WHEN '>' THEN 'more than' ELSE 'at least' END, part[3], given ->> part[1])];
    END IF;
    part := regexp_match(expr, '^\(+(\w+) <> ''''::text\)(?: AND \(length\(\w+\) <= (\d+)\)\))?$');
    IF part IS NOT NULL THEN
        RETURN ARRAY[format('%s must have %s characters, not %s', part[1], coalesce('1 to ' || part[2], 'some'),
            length(given ->> part[1]))];
    END IF;
    part := regexp_match(expr, '^\(length\((\w+)\) <= (\d+)\)$');
    IF part IS NOT NULL THEN
        RETURN ARRAY[format('%s must have at most %s characters, not %s', part[1], part[2], length(given ->> part[1]))];
    END IF;
    RETURN ARRAY[format('it violates the constraint %s: %s', short, expr)];
END $$;

-- The columns of a table that cannot be left empty, with their defaults as text.
-- Called by: guard_values, refuse_row.
CREATE FUNCTION rota.needed_columns(relation regclass) RETURNS TABLE (name text, default_text text)
LANGUAGE sql STABLE SET jit = off AS $$
    SELECT a.attname::text, pg_get_expr(d.adbin, d.adrelid)
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND a.attnotnull AND a.attgenerated = ''
    ORDER BY a.attnum
$$;

-- The constraints of a table that its rows are told about in words, each as text about the columns of NEW. Those that
-- value_rules made have a trigger of their own.
-- Called by: guard_values, refuse_row.
CREATE FUNCTION rota.row_rules(relation regclass) RETURNS TABLE (id oid, name text, expr text, about_new text)
LANGUAGE plpgsql STABLE SET jit = off SET quote_all_identifiers = off AS $$
DECLARE
    one text;
BEGIN
    FOR id, name, expr IN
        SELECT c.oid, c.conname, pg_get_expr(c.conbin, c.conrelid) FROM pg_constraint c
        WHERE c.conrelid = relation AND c.contype = 'c' AND c.conname NOT LIKE '%\_value' ORDER BY c.conname
    LOOP
        about_new := expr;
        FOR one IN SELECT a.attname FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid
            AND a.attnum = ANY (c.conkey) WHERE c.oid = id LOOP
            -- A name between quotes is a value.
            about_new := regexp_replace(about_new, format('(?<![''.])\m%s\M(?![''(])', one), 'NEW.' || one, 'g');
        END LOOP;
        RETURN NEXT;
    END LOOP;
END $$;

-- Trigger: says in words which column of a row is missing, or which constraint the row would break. The constraint
-- itself would name only itself, and print the whole row.
CREATE FUNCTION rota.refuse_row() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    who   text := rota.row_words(TG_TABLE_NAME, to_jsonb(NEW) ->> 'name');
    one   record;
    is_ok boolean;
    words text[];
BEGIN
    FOR one IN SELECT * FROM rota.needed_columns(TG_RELID) LOOP
        EXECUTE format('SELECT ($1).%I IS NOT NULL', one.name) INTO is_ok USING NEW;
        IF NOT is_ok THEN
            RAISE EXCEPTION '%: % is missing', who, one.name USING ERRCODE = 'RO002', COLUMN = one.name,
                HINT = coalesce(format('Omit the column to use its default, %s.', one.default_text),
                    format('Pass a value for %s.', one.name));
        END IF;
    END LOOP;
    FOR one IN SELECT * FROM rota.row_rules(TG_RELID) LOOP
        EXECUTE format('SELECT %s FROM (SELECT ($1).*) r', one.expr) INTO is_ok USING NEW;
        IF NOT is_ok THEN
            words := rota.constraint_words(one.id, to_jsonb(NEW));
            RAISE EXCEPTION '%: %', who, words[1] USING ERRCODE = 'RO002', CONSTRAINT = one.name,
                HINT = coalesce(words[2], 'Correct the value, or omit the column to use its default.');
        END IF;
    END LOOP;
    RETURN NEW;
END $$;

-- The name of a time zone as the zone data spells it; NULL: there is none. Unlike AT TIME ZONE, the setting takes no
-- abbreviations, and it tells the spelling; it is put back when the function ends.
-- Called by: check_zone.
CREATE FUNCTION rota.zone_spelling(zone text) RETURNS text LANGUAGE plpgsql VOLATILE SET timezone = 'UTC'
SET jit = off AS $$
BEGIN
    PERFORM set_config('timezone', zone, true);
    RETURN current_setting('timezone');
EXCEPTION WHEN invalid_parameter_value THEN
    RETURN NULL;
END $$;

-- Whether a text looks like the name of a time zone. Postgres reads "EST+3" and any word with a digit as a zone of its
-- own; the few real names of that shape are listed. Some names mean another zone on each machine, or none.
-- Called by: check_zone.
CREATE FUNCTION rota.is_zone_name(zone text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT zone ~ '^[A-Za-z_]+(/[A-Za-z0-9_+-]+)*$' AND zone !~ '^((posix|right)/.*|Factory|localtime|posixrules)$'
        OR zone IN ('CST6CDT', 'EST5EDT', 'MST7MDT', 'PST8PDT', 'GMT+0', 'GMT-0', 'GMT0', 'GB-Eire', 'NZ-CHAT', 'W-SU')
$$;

-- Trigger: refuses a time zone that Python does not know, as the schedule would be parked at its first tick: also the
-- abbreviation of a zone (PST) and a zone in other letters (america/new_york), which Postgres knows.
CREATE FUNCTION rota.check_zone() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    given    jsonb := to_jsonb(NEW);
    zone     text := coalesce(given ->> 'timezone', given -> 'definition' ->> 'timezone');
    spelling text;
BEGIN
    IF zone = 'UTC' OR (TG_OP = 'UPDATE'
        AND zone = coalesce(to_jsonb(OLD) ->> 'timezone', to_jsonb(OLD) -> 'definition' ->> 'timezone')) THEN
        RETURN NEW;
    END IF;
    spelling := CASE WHEN rota.is_zone_name(zone) THEN rota.zone_spelling(zone) END;
    IF spelling IS DISTINCT FROM zone THEN
        RAISE EXCEPTION '% "%": unknown time zone "%"', rtrim(TG_TABLE_NAME, 's'), NEW.name, zone
            USING ERRCODE = 'RO002', HINT = CASE WHEN spelling IS NOT NULL THEN format('Did you mean %s?', spelling)
                WHEN zone ~ '^[A-Za-z]{2,5}$' THEN 'Use an IANA name such as Europe/Paris, not an abbreviation.'
                ELSE 'Use an IANA name such as Europe/Paris.' END;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER a_zone BEFORE INSERT OR UPDATE OF timezone ON rota.schedules FOR EACH ROW
    WHEN (NEW.timezone <> 'UTC') EXECUTE FUNCTION rota.check_zone();
CREATE TRIGGER a_zone BEFORE INSERT OR UPDATE OF definition ON rota.calendars FOR EACH ROW
    WHEN (jsonb_typeof(NEW.definition -> 'timezone') = 'string') EXECUTE FUNCTION rota.check_zone();

-- Makes the rules of a table's columns: a constraint for each, and, where people write (is_told), triggers that say
-- in words what is missing (first) and what a constraint would refuse (last, as other triggers may say it better).
-- Called again after a column or a constraint was added.
CREATE FUNCTION rota.guard_values(relation regclass, is_told boolean) RETURNS void LANGUAGE plpgsql VOLATILE
SET jit = off AS $$
DECLARE
    short text := (SELECT c.relname FROM pg_class c WHERE c.oid = relation);
    one   record;
    rules text;
BEGIN
    FOR one IN SELECT * FROM rota.value_rules(relation) LOOP
        EXECUTE format('ALTER TABLE %1$s DROP CONSTRAINT IF EXISTS %2$I, ADD CONSTRAINT %2$I CHECK (%3$s)', relation,
            short || '_' || one.name || '_value', format(one.rule, format('%I', one.name)));
    END LOOP;
    IF is_told THEN
        EXECUTE format('DROP TRIGGER IF EXISTS a_values ON %s', relation);
        -- Its name comes first: the other triggers calculate with these values.
        rules := (SELECT string_agg(format(r.rule, format('NEW.%I', r.name)), ' AND ')
            FROM rota.value_rules(relation) r);
        IF rules IS NOT NULL THEN
            EXECUTE format(
                'CREATE TRIGGER a_values BEFORE INSERT OR UPDATE ON %s FOR EACH ROW WHEN (NOT (%s)) '
                'EXECUTE FUNCTION rota.refuse_values()', relation, rules);
        END IF;
        EXECUTE format('DROP TRIGGER IF EXISTS a_missing ON %s', relation);
        EXECUTE format(
            'CREATE TRIGGER a_missing BEFORE INSERT OR UPDATE ON %s FOR EACH ROW WHEN (%s) '
            'EXECUTE FUNCTION rota.refuse_row()', relation,
            (SELECT string_agg(format('NEW.%I IS NULL', n.name), ' OR ') FROM rota.needed_columns(relation) n));
        EXECUTE format('DROP TRIGGER IF EXISTS z_rules ON %s', relation);
        EXECUTE format(
            'CREATE TRIGGER z_rules BEFORE INSERT OR UPDATE ON %s FOR EACH ROW WHEN (NOT (%s)) '
            'EXECUTE FUNCTION rota.refuse_row()',
            relation, (SELECT string_agg(format('%s', r.about_new), ' AND ') FROM rota.row_rules(relation) r));
    END IF;
END $$;
COMMENT ON CONSTRAINT bulk_actions_delay ON rota.bulk_actions IS
    E'delay_seconds must be from 0 to 3153600000 (100 years), and only retry has one\nOmit delay_seconds.';
COMMENT ON CONSTRAINT bulk_actions_filter ON rota.bulk_actions IS
    E'the filter must be a JSON object with at least one condition besides system\nName a job, a state or a tenant.';
COMMENT ON CONSTRAINT bulk_actions_payload ON rota.bulk_actions IS
    E'the payload must be a JSON object, and only retry has one\nOmit the payload.';
COMMENT ON CONSTRAINT jobs_function ON rota.jobs IS
    E'only a job of kind sql has a function_name\nSet kind ''sql'' too, or omit function_name.';
COMMENT ON CONSTRAINT jobs_run_as ON rota.jobs IS
    E'run_as and transaction_mode ''none'' cannot be combined\n'
    'A function that runs as another role cannot commit: omit one of the two.';
COMMENT ON CONSTRAINT jobs_sql_only ON rota.jobs IS
    E'only a job of kind sql has a run_as or another transaction_mode than ''whole''\n'
    'Set kind ''sql'' and a function_name, or omit both.';
COMMENT ON CONSTRAINT queues_check ON rota.queues IS
    E'is_paused and paused_at must be set together\nCall pause_queue() or resume_queue().';
COMMENT ON CONSTRAINT schedules_bounds ON rota.schedules IS
    E'end_at {end_at} is not after start_at {start_at}\nPass a later end_at, or none.';
COMMENT ON CONSTRAINT schedules_every_from ON rota.schedules IS
    E'every_from ''end'' requires interval_seconds\nOnly an interval can count from the end of the previous run.';
COMMENT ON CONSTRAINT schedules_pause ON rota.schedules IS
    E'paused_until and pause_reason require paused_at\nCall pause_schedule() or resume_schedule().';
COMMENT ON CONSTRAINT schedules_timing ON rota.schedules IS
    E'it needs exactly one of cron, interval_seconds, run_at and init\n'
    'Set one of them, and none of the other three.';
COMMENT ON CONSTRAINT tenants_name ON rota.tenants IS
    E'a name must have 1 to 200 characters, no control character, no slash, and no space at either end\n'
    'Use an ID or a short name, such as acme or customer-17.';
COMMENT ON CONSTRAINT tenants_pause ON rota.tenants IS
    E'paused_at, paused_by, pause_reason and paused_until require is_paused\nCall pause_tenant() or resume_tenant().';
SELECT rota.guard_values('rota.settings', false);
SELECT rota.guard_values('rota.jobs', true);
SELECT rota.guard_values('rota.queues', true);
SELECT rota.guard_values('rota.workers', false);
SELECT rota.guard_values('rota.cancel_requests', false);
SELECT rota.guard_values('rota.calendars', true);
SELECT rota.guard_values('rota.schedules', true);
SELECT rota.guard_values('rota.backfills', false);
SELECT rota.guard_values('rota.backfill_times', false);
SELECT rota.guard_values('rota.tenants', true);
SELECT rota.guard_values('rota.schedule_templates', true);
SELECT rota.guard_values('rota.bulk_actions', true);
SELECT rota.guard_values('rota.run_views', true);

-- 30_grants.sql

-- `grant_worker` gives a role that owns nothing what workers, the API and commands need (docs/guides/servers.md).

-- All that a worker, an API server and the command line need, now and after later migrations. For the schema's owner,
-- or a superuser.
-- Called by: sql/roles/grant_worker.sql, users.
CREATE FUNCTION rota.grant_worker(role_name text) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place text;
    owner oid;
    given record;
BEGIN
    SELECT quote_ident(n.nspname), c.relowner INTO place, owner
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = 'rota.jobs'::regclass;
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = role_name) THEN
        RAISE EXCEPTION 'there is no role "%"', role_name
            USING ERRCODE = 'RO002', HINT = format('CREATE ROLE %I LOGIN PASSWORD ''...'' first.', role_name);
    ELSIF NOT pg_has_role(owner, 'USAGE') THEN
        RAISE EXCEPTION 'only "%", the owner of the schema, may grant the rights of workers', pg_get_userbyid(owner)
            USING ERRCODE = 'RO002', HINT = 'Connect as that role.';
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA %s TO %I', place, role_name);
    FOR given IN SELECT * FROM (VALUES ('SELECT, INSERT, UPDATE, DELETE', 'TABLES'),
        ('USAGE, SELECT, UPDATE', 'SEQUENCES')) v (rights, things) LOOP
        EXECUTE format('GRANT %s ON ALL %s IN SCHEMA %s TO %I', given.rights, given.things, place, role_name);
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA %s GRANT %s ON %s TO %I',
                       pg_get_userbyid(owner), place, given.rights, given.things, role_name);
    END LOOP;
    -- Who migrates is the owner's business.
    EXECUTE format('REVOKE INSERT, UPDATE, DELETE ON rota.migrations FROM %I', role_name);
    -- Not what calls functions as other roles: allow_run_as gives that.
    FOR given IN SELECT p.oid::regprocedure AS function FROM pg_proc p
                 WHERE p.pronamespace = (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'rota.jobs'::regclass)
                   AND p.proname NOT LIKE 'run\_as\_%' LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', given.function, role_name);
    END LOOP;
    EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA %s GRANT EXECUTE ON FUNCTIONS TO %I',
                   pg_get_userbyid(owner), place, role_name);
    PERFORM rota.write_audit(NULL, 'role.granted', 'role', role_name, NULL, NULL, NULL);
END $$;

-- 31_system.sql

-- Rota's own jobs and their schedules. They come last, because every trigger on jobs and schedules has to be there.

-- Inserted once and yours to change: put your rules into the payload and enable the schedule.
INSERT INTO rota.jobs (name, kind, function_name, description, default_payload, is_system)
VALUES ('rota' || '.cleanup', 'sql', 'rota.cleanup', 'Removes expired rows from tables, by rules', '{"rules": []}',
    true);

-- Every worker knows these two: DETACH … CONCURRENTLY cannot be part of a transaction, so they are Python. Every
-- worker serves their queue, whichever others it was given.
INSERT INTO rota.jobs (name, queue, executor, description, max_attempts, is_system) VALUES
    ('rota' || '.prune_runs', 'rota' || '.system', 'async',
     'Removes runs, attempts, occurrences and counts that are past their retention', 1, true),
    ('rota' || '.prune_logs', 'rota' || '.system', 'async', 'Removes log lines that are past their retention', 1, true);

-- No person made these: the audit stays empty.
ALTER TABLE rota.schedules DISABLE TRIGGER schedules_audit;
INSERT INTO rota.schedules (name, job, description, cron, is_enabled, is_system) VALUES
    ('rota' || '.cleanup', 'rota' || '.cleanup', 'Removes expired rows; enable it with rules in its payload',
     '0 3 * * *', false, true),
    ('rota' || '.prune_logs', 'rota' || '.prune_logs', 'Retention of log lines', '0 2 * * *', true, true),
    ('rota' || '.prune_runs', 'rota' || '.prune_runs', 'Retention of runs', '0 2 * * *', true, true);
ALTER TABLE rota.schedules ENABLE TRIGGER schedules_audit;
