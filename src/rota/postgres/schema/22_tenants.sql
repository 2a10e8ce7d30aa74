-- `tenants`: what differs from the defaults for one of them. Verbs: `set_tenant`, `pause_tenant`, `resume_tenant`,
-- `reset_tenant`. Quotas compare `tenant_depths` and `tenant_days` (`check_quota`), which are counted behind the
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
    weight                real NOT NULL DEFAULT 1
        CONSTRAINT tenants_weight CHECK (weight >= real '0.01' AND weight <= 1000),
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
-- Called by: before_schedule, check_quota, delete_tenant_part, delete_tenant_traces, pause_tenant, set_tenant.
CREATE FUNCTION rota.check_tenant(name text) RETURNS void LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
BEGIN
    IF name IS NULL OR rota.tenant_fault(name) IS NOT NULL THEN
        RAISE EXCEPTION 'the name of a tenant %, not %',
            coalesce(rota.tenant_fault(name), 'must have 1 to 200 characters'),
            coalesce(to_json(left(name, 60))::text, 'NULL')
            USING ERRCODE = 'RO002', HINT = 'Use an ID or a short name, such as acme or customer-17.';
    END IF;
END $$;

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
    word  text := CASE WHEN TG_OP = 'DELETE' THEN 'reset'
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
    PERFORM rota.call_workers('tenants');
    RETURN NULL;
END $$;
CREATE TRIGGER tenants_audit AFTER INSERT OR UPDATE OR DELETE ON rota.tenants FOR EACH ROW
    EXECUTE FUNCTION rota.note_tenant();

-- Changes what is named of a tenant's settings; null is the default. The row is made if there is none.
-- Called by: operations/tenants/tenants.py, users.
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
-- Called by: operations/tenants/tenants.py, users.
-- Locks: rows.
CREATE FUNCTION rota.reset_tenant(name text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    was text[];
    old rota.tenants;
BEGIN
    SELECT * INTO old FROM rota.tenants t WHERE t.name = reset_tenant.name FOR UPDATE;
    IF old.name IS NULL THEN
        RAISE EXCEPTION 'tenant "%" has no settings', reset_tenant.name
            USING ERRCODE = 'RO030', DETAIL = jsonb_build_object('tenant', reset_tenant.name);
    ELSIF rota.tenant_is_paused(old) THEN
        RAISE EXCEPTION 'tenant "%" is paused', reset_tenant.name USING ERRCODE = 'RO005', HINT = 'Resume it first.';
    END IF;
    was := rota.say_why(reset_tenant.actor, reset_tenant.reason);
    DELETE FROM rota.tenants t WHERE t.name = reset_tenant.name;
    PERFORM rota.unsay(was);
END $$;

-- Holds a tenant's runs until it is resumed, or until that time. If it is paused already, a new end or reason replaces
-- the old one. Returns how many runs it held immediately; workers hold the others, and new ones. NULL: nothing
-- differed, and nothing was written.
-- Called by: operations/tenants/tenants.py, postgres/tenants/delete.py, users.
CREATE FUNCTION rota.pause_tenant(name text, reason text DEFAULT NULL, until timestamptz DEFAULT NULL,
    actor text DEFAULT NULL)
RETURNS integer LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    who   text := rota.who(pause_tenant.actor);
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
-- Called by: operations/tenants/tenants.py, users.
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
        UPDATE rota.open_runs o SET held_by = rota.hold_of(true, NULL, o.suspicion, 'tenant'), held_at = rota.now(),
            slots = NULL
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
    holds   text[];
    freed   integer;
BEGIN
    -- They keep their place in the line.
    WITH freed AS (
        UPDATE rota.open_runs o
        SET held_by = rota.hold_of(true, o.limit_keys, o.suspicion), limit_key = o.limit_keys[1],
            held_at = NULL, enqueued_at = clock_timestamp()
        WHERE o.ctid = ANY (ARRAY(SELECT q.ctid FROM rota.open_runs q
            WHERE q.held_by = 'tenant' AND q.tenant = of_tenant
                                  ORDER BY q.seq LIMIT max_runs FOR UPDATE SKIP LOCKED))
        RETURNING o.queue, o.held_by
    )
    SELECT count(*), array_agg(DISTINCT queue) FILTER (WHERE held_by IS NULL), array_agg(DISTINCT held_by)
    INTO freed, touched, holds FROM freed;
    PERFORM rota.wake_for(touched, holds);
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
    RAISE EXCEPTION '%', fault USING ERRCODE = 'RO031', HINT = hint, DETAIL = jsonb_build_object('tenant',
        check_quota.tenant, 'runs', check_quota.runs, 'bytes', check_quota.bytes);
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
    seconds   double precision NOT NULL DEFAULT 0,
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY
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
    IF NOT rota.is_count_due('tenants', max_age_seconds) THEN
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
    PERFORM rota.mark_count('tenants', began);
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
-- postgres/tenants/delete.py lists, in its order. What its operators did stays in the audit. Runs that a worker has are
-- left; whoever deletes sees to them first.
-- Called by: postgres/tenants/delete.py.
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
            SELECT o.id FROM rota.schedules o JOIN rota.schedule_state t ON t.schedule_id = o.id
            WHERE o.tenant = of_tenant ORDER BY o.name LIMIT max_rows FOR UPDATE SKIP LOCKED));
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
        DELETE FROM rota.handled h WHERE h.kind = 'run' AND h.id = ANY (ids::text[]);
        RETURN rota.prune_tenant(of_tenant, '{succeeded,failed,cancelled}', 'infinity', max_rows);
    WHEN 'keys' THEN
        DELETE FROM rota.key_releases r WHERE r.ctid = ANY (ARRAY(SELECT o.ctid FROM rota.key_releases o
            WHERE o.tenant = of_tenant FOR UPDATE SKIP LOCKED));
        DELETE FROM rota.keys k WHERE k.ctid = ANY (ARRAY(SELECT o.ctid FROM rota.keys o WHERE o.tenant = of_tenant
            LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'events' THEN
        DELETE FROM rota.events e USING (SELECT o.name, o.id, o.at FROM rota.events o WHERE o.tenant = of_tenant
            LIMIT max_rows) g
        WHERE e.tenant = of_tenant AND e.name = g.name AND e.id = g.id AND e.at = g.at;
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
    WHEN 'bulk_actions' THEN
        DELETE FROM rota.bulk_actions b WHERE b.filter ->> 'tenant' = of_tenant;
    ELSE
        IF part <> ALL ('{event_keys,limits,limit_slots,limit_releases,hook_refusals,deleted_schedules,tenant_days,'
            'tenant_changes,tenant_depths}'::text[]) THEN
            RAISE EXCEPTION 'a tenant has no part "%"', part USING ERRCODE = 'RO002';
        END IF;
        EXECUTE format('DELETE FROM %1$s t WHERE t.ctid = ANY (ARRAY(SELECT o.ctid FROM %1$s o WHERE o.tenant = $1'
            ' LIMIT $2 FOR UPDATE SKIP LOCKED))', to_regclass('rota.' || part)) USING of_tenant, max_rows;
    END CASE;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;

-- Deletes lines of a tenant in one stretch of time, which have no index by tenant: what is left of runs that are gone
-- already.
-- Called by: postgres/tenants/delete.py.
CREATE FUNCTION rota.delete_tenant_traces(of_tenant text, from_at timestamptz, to_at timestamptz) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_custom_plan SET jit = off AS $$
DECLARE
    removed bigint;
BEGIN
    PERFORM rota.check_tenant(of_tenant);
    DELETE FROM rota.logs l WHERE l.tenant = of_tenant AND l.at >= from_at AND l.at < to_at;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;

-- The end of deleting a tenant: the settings go, and so does what the audit has of its data; it says what was deleted.
-- Called by: postgres/tenants/delete.py.
CREATE FUNCTION rota.forget_tenant(of_tenant text, removed jsonb, reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    was text[] := rota.say_why(forget_tenant.actor, forget_tenant.reason);
BEGIN
    DELETE FROM rota.tenants t WHERE t.name = of_tenant;
    PERFORM rota.forget_values(NULL, of_tenant);
    PERFORM rota.write_audit(NULL, 'tenant.deleted', 'tenant', of_tenant, removed, NULL, NULL, of_tenant);
    PERFORM rota.unsay(was);
END $$;
