-- Tenants: whose data it is. A tenant needs no row here: it exists as soon as a run or a schedule names it. A row holds what differs
-- from the defaults: its share, how long its runs are kept, how much it may enqueue, and whether it is paused.

-- What is wrong with the name of a tenant; NULL: nothing. No slash, because tenant/name is one schedule in lists and commands.
CREATE FUNCTION rota.tenant_fault(name text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN length(name) NOT BETWEEN 1 AND 200 THEN 'has 1 to 200 characters'
                WHEN name ~ '[\x01-\x1f\x7f]' THEN 'holds no control characters'
                WHEN name ~ '/' THEN 'holds no slash'
                WHEN name ~ '^ | $' THEN 'neither begins nor ends with a space' END
$$;

CREATE FUNCTION rota.check_tenant(name text) RETURNS void LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
BEGIN
    IF name IS NULL OR rota.tenant_fault(name) IS NOT NULL THEN
        RAISE EXCEPTION 'the name of a tenant %, not %', coalesce(rota.tenant_fault(name), 'has 1 to 200 characters'), coalesce(to_json(left(name, 60))::text, 'NULL')
            USING ERRCODE = 'RO002', HINT = 'An id or a short name of your customer will do: acme, customer-17.';
    END IF;
END $$;

CREATE TABLE rota.tenants (
    name                  text COLLATE "C" PRIMARY KEY CONSTRAINT tenants_name CHECK (rota.tenant_fault(name) IS NULL),
    weight                real NOT NULL DEFAULT 1 CONSTRAINT tenants_weight CHECK (weight >= 0.01 AND weight <= 1000),
    max_waiting           bigint CONSTRAINT tenants_max_waiting CHECK (max_waiting BETWEEN 0 AND 1000000000),
    max_runs_per_day      bigint CONSTRAINT tenants_max_runs_per_day CHECK (max_runs_per_day BETWEEN 0 AND 1000000000000),
    max_bytes_per_day     bigint CONSTRAINT tenants_max_bytes_per_day CHECK (max_bytes_per_day BETWEEN 0 AND 1000000000000000),
    retention_days        integer CONSTRAINT tenants_retention_days CHECK (retention_days BETWEEN 1 AND 36500),
    failed_retention_days integer CONSTRAINT tenants_failed_retention_days CHECK (failed_retention_days BETWEEN 1 AND 36500),
    is_paused             boolean NOT NULL DEFAULT false,
    paused_at             timestamptz,
    paused_by             text,
    pause_reason          text,
    paused_until          timestamptz,                -- it goes on by itself then; NULL: when somebody resumes it
    description           text NOT NULL DEFAULT '' CONSTRAINT tenants_description CHECK (length(description) <= 10000),
    metadata              jsonb NOT NULL DEFAULT '{}' CONSTRAINT tenants_metadata CHECK (jsonb_typeof(metadata) = 'object'),
    version               bigint NOT NULL DEFAULT 1,
    created_at            timestamptz NOT NULL DEFAULT rota.now(),
    updated_at            timestamptz NOT NULL DEFAULT rota.now(),
    CONSTRAINT tenants_pause CHECK (is_paused OR num_nonnulls(paused_at, paused_by, pause_reason, paused_until) = 0)
);
COMMENT ON TABLE rota.tenants IS 'What differs from the defaults for a tenant. One without a row has them all.';
SELECT rota.guard_values('rota.tenants', true);
CREATE INDEX tenants_paused ON rota.tenants (paused_until) WHERE is_paused;

CREATE FUNCTION rota.tenant_is_paused(t rota.tenants) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT t.is_paused AND (t.paused_until IS NULL OR t.paused_until > rota.now())
$$;

-- Plain SQL is held to the audit as well.
CREATE FUNCTION rota.stamp_tenant() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF NEW.name <> OLD.name THEN
        RAISE EXCEPTION 'tenant "%" cannot be renamed: its runs and schedules have its name', OLD.name USING ERRCODE = 'RO002';
    END IF;
    NEW.version := OLD.version + 1;
    NEW.updated_at := rota.now();
    RETURN NEW;
END $$;
CREATE TRIGGER tenants_stamp BEFORE UPDATE ON rota.tenants FOR EACH ROW EXECUTE FUNCTION rota.stamp_tenant();

CREATE FUNCTION rota.note_tenant() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    was   jsonb := CASE TG_OP WHEN 'INSERT' THEN NULL ELSE to_jsonb(OLD) - '{version,created_at,updated_at}'::text[] END;
    now   jsonb := CASE TG_OP WHEN 'DELETE' THEN NULL ELSE to_jsonb(NEW) - '{version,created_at,updated_at}'::text[] END;
    whose text := coalesce(now, was) ->> 'name';
    word  text := CASE WHEN TG_OP = 'DELETE' THEN 'removed'
                       WHEN now ->> 'is_paused' = 'true' AND (was IS NULL OR was ->> 'is_paused' = 'false' OR was -> 'paused_until' <> now -> 'paused_until') THEN 'paused'
                       WHEN was ->> 'is_paused' = 'true' AND now ->> 'is_paused' = 'false' THEN 'resumed' ELSE 'set' END;
BEGIN
    PERFORM rota.write_audit(NULL, 'tenant.' || word, 'tenant', whose,
        (SELECT jsonb_object_agg(o.key, o.value) FROM jsonb_each(was) o WHERE now IS NULL AND o.value <> 'null' OR now -> o.key <> o.value),
        (SELECT jsonb_object_agg(n.key, n.value) FROM jsonb_each(now) n WHERE was IS NULL AND n.value <> 'null' OR was -> n.key <> n.value),
        NULL, whose);
    -- Every worker looks at once.
    PERFORM pg_notify('rota', 'tenants');
    RETURN NULL;
END $$;
CREATE TRIGGER tenants_audit AFTER INSERT OR UPDATE OR DELETE ON rota.tenants FOR EACH ROW EXECUTE FUNCTION rota.note_tenant();

-- Who and why, for the audit of one statement; answers the reason that held before, for the end of it.
CREATE FUNCTION rota.say_why(actor text, reason text) RETURNS text LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    was text := coalesce(current_setting('rota' || '.reason', true), '');
BEGIN
    PERFORM rota.act_as(actor);
    PERFORM set_config('rota' || '.reason', coalesce(reason, was), true);
    RETURN was;
END $$;

-- Only what is named changes; null is the default. The row is made if there is none.
CREATE FUNCTION rota.set_tenant(name text, settings jsonb, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    known  text[] := '{weight,max_waiting,max_runs_per_day,max_bytes_per_day,retention_days,failed_retention_days,description,metadata}';
    odd    text;
    usual  rota.tenants;
    wanted rota.tenants;
    was    text;
BEGIN
    PERFORM rota.check_tenant(set_tenant.name);
    IF set_tenant.settings IS NULL OR jsonb_typeof(set_tenant.settings) <> 'object' THEN
        RAISE EXCEPTION 'the settings of tenant "%" are a JSON object', set_tenant.name USING ERRCODE = 'RO002';
    END IF;
    SELECT k INTO odd FROM jsonb_object_keys(set_tenant.settings) k WHERE k <> ALL (known) LIMIT 1;
    IF odd IS NOT NULL THEN
        RAISE EXCEPTION 'a tenant has no setting "%"', odd USING ERRCODE = 'RO002', HINT = 'It has ' || array_to_string(known, ', ') || '.';
    END IF;
    was := rota.say_why(set_tenant.actor, set_tenant.reason);
    usual.weight := 1; usual.description := ''; usual.metadata := '{}';
    SELECT * INTO wanted FROM rota.tenants t WHERE t.name = set_tenant.name FOR UPDATE;
    IF NOT FOUND THEN
        wanted := usual;
    END IF;
    BEGIN
        wanted := jsonb_populate_record(wanted, (SELECT coalesce(jsonb_object_agg(s.key, CASE s.value WHEN 'null' THEN to_jsonb(usual) -> s.key ELSE s.value END), '{}')
                                                 FROM jsonb_each(set_tenant.settings) s));
        INSERT INTO rota.tenants AS t (name, weight, max_waiting, max_runs_per_day, max_bytes_per_day, retention_days, failed_retention_days, description, metadata)
        VALUES (set_tenant.name, wanted.weight, wanted.max_waiting, wanted.max_runs_per_day, wanted.max_bytes_per_day, wanted.retention_days,
                wanted.failed_retention_days, wanted.description, wanted.metadata)
        ON CONFLICT ON CONSTRAINT tenants_pkey DO UPDATE SET weight = excluded.weight, max_waiting = excluded.max_waiting, max_runs_per_day = excluded.max_runs_per_day,
            max_bytes_per_day = excluded.max_bytes_per_day, retention_days = excluded.retention_days,
            failed_retention_days = excluded.failed_retention_days, description = excluded.description, metadata = excluded.metadata
        WHERE (t.weight, t.max_waiting, t.max_runs_per_day, t.max_bytes_per_day, t.retention_days, t.failed_retention_days, t.description, t.metadata)
            IS DISTINCT FROM (excluded.weight, excluded.max_waiting, excluded.max_runs_per_day, excluded.max_bytes_per_day, excluded.retention_days,
                              excluded.failed_retention_days, excluded.description, excluded.metadata);
    EXCEPTION WHEN check_violation OR data_exception THEN
        RAISE EXCEPTION 'tenant "%": %', set_tenant.name, rota.setting_fault(set_tenant.settings, SQLERRM) USING ERRCODE = 'RO002';
    END;
    PERFORM set_config('rota' || '.reason', was, true);
END $$;

-- Which of the settings is out of its range, in words.
CREATE FUNCTION rota.setting_fault(settings jsonb, otherwise text) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT coalesce((
        SELECT format('%s must be %s, not %s', r.key, r.words, left((settings -> r.key)::text, 60))
        FROM (VALUES ('weight', 'a number from 0.01 to 1000', 0.01, 1e3), ('max_waiting', 'a whole number from 0 to 1000000000', 0, 1e9),
                     ('max_runs_per_day', 'a whole number from 0 to 1000000000000', 0, 1e12), ('max_bytes_per_day', 'a whole number from 0 to 1000000000000000', 0, 1e15),
                     ('retention_days', 'a whole number from 1 to 36500', 1, 36500), ('failed_retention_days', 'a whole number from 1 to 36500', 1, 36500))
             r (key, words, least, most)
        WHERE settings ? r.key AND settings -> r.key <> 'null'
          AND CASE WHEN jsonb_typeof(settings -> r.key) <> 'number' THEN true
                   ELSE NOT (settings ->> r.key)::numeric BETWEEN r.least AND r.most OR r.key <> 'weight' AND (settings ->> r.key)::numeric % 1 <> 0 END
        LIMIT 1),
        CASE WHEN jsonb_typeof(settings -> 'metadata') NOT IN ('object', 'null') THEN 'metadata must be a JSON object'
             WHEN length(settings ->> 'description') > 10000 THEN 'description has at most 10000 characters' END, otherwise)
$$;

-- Each tenant has a lane of its own in each queue. No index names state, worker or attempt, so that a claim touches none.
DROP INDEX rota.open_runs_claim;
CREATE INDEX open_runs_claim ON rota.open_runs (queue, tenant, priority, seq) WHERE is_ready;
CREATE INDEX open_runs_held_of_tenant ON rota.open_runs (tenant, seq) WHERE held_by = 'tenant';
INSERT INTO rota.locks (name) VALUES ('tenants');

-- The ready runs of one tenant, so many at most.
CREATE FUNCTION rota.hold_runs_of(of_tenant text, max_runs integer) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET plan_cache_mode = force_custom_plan SET jit = off SET lock_timeout = '5s' AS $$
DECLARE
    held integer;
BEGIN
    UPDATE rota.open_runs o SET held_by = 'tenant', held_at = rota.now()
    WHERE o.ctid = ANY (ARRAY(
        SELECT r.tid FROM rota.busy_queues() AS q (name)
        CROSS JOIN LATERAL (SELECT r.ctid AS tid FROM rota.open_runs r
                            WHERE r.is_ready AND r.worker IS NULL AND r.queue = q.name AND r.tenant = of_tenant
                            ORDER BY r.priority, r.seq LIMIT max_runs FOR UPDATE SKIP LOCKED) r
        LIMIT max_runs));
    GET DIAGNOSTICS held = ROW_COUNT;
    -- Those that are run apart, too; there are few of them.
    UPDATE rota.open_runs o SET held_by = 'tenant', held_at = rota.now()
    WHERE o.ctid = ANY (ARRAY(SELECT q.ctid FROM rota.open_runs q WHERE q.held_by = 'suspect' AND q.tenant = of_tenant LIMIT max_runs FOR UPDATE SKIP LOCKED));
    RETURN held;
END $$;

CREATE FUNCTION rota.free_runs_of(of_tenant text, max_runs integer) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET plan_cache_mode = force_custom_plan SET jit = off SET lock_timeout = '5s' AS $$
DECLARE
    touched text[];
    freed   integer;
BEGIN
    -- They keep their place in the line.
    WITH freed AS (
        UPDATE rota.open_runs o SET held_by = CASE WHEN o.is_suspect THEN 'suspect' END, held_at = NULL, enqueued_at = clock_timestamp()
        WHERE o.ctid = ANY (ARRAY(SELECT q.ctid FROM rota.open_runs q WHERE q.held_by = 'tenant' AND q.tenant = of_tenant
                                  ORDER BY q.seq LIMIT max_runs FOR UPDATE SKIP LOCKED))
        RETURNING o.queue
    )
    SELECT count(*), array_agg(DISTINCT queue) INTO freed, touched FROM freed;
    PERFORM rota.wake(coalesce(touched, '{}'));
    RETURN freed;
END $$;

-- Pausing a paused tenant again moves the end. Answers how many runs it held at once; workers hold the rest, and what comes.
CREATE FUNCTION rota.pause_tenant(name text, reason text DEFAULT NULL, until timestamptz DEFAULT NULL, actor text DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    who   text := coalesce(pause_tenant.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    clock timestamptz := rota.now();
    was   text;
BEGIN
    PERFORM rota.check_tenant(pause_tenant.name);
    IF pause_tenant.until <= clock THEN
        RAISE EXCEPTION 'tenant "%": a pause ends in the future, not at %', pause_tenant.name, pause_tenant.until USING ERRCODE = 'RO002';
    END IF;
    was := rota.say_why(who, pause_tenant.reason);
    INSERT INTO rota.tenants AS t (name, is_paused, paused_at, paused_by, pause_reason, paused_until)
    VALUES (pause_tenant.name, true, clock, who, pause_tenant.reason, pause_tenant.until)
    ON CONFLICT ON CONSTRAINT tenants_pkey DO UPDATE SET is_paused = true, paused_by = excluded.paused_by, paused_until = excluded.paused_until,
        paused_at = CASE WHEN rota.tenant_is_paused(t) THEN t.paused_at ELSE excluded.paused_at END,
        pause_reason = CASE WHEN rota.tenant_is_paused(t) THEN coalesce(excluded.pause_reason, t.pause_reason) ELSE excluded.pause_reason END
    WHERE NOT rota.tenant_is_paused(t) OR t.paused_until IS DISTINCT FROM excluded.paused_until;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'tenant "%" is already paused', pause_tenant.name USING ERRCODE = 'RO005';
    END IF;
    PERFORM set_config('rota' || '.reason', was, true);
    RETURN rota.hold_runs_of(pause_tenant.name, 1000);
END $$;

-- Answers how many runs it freed at once; workers free the rest.
CREATE FUNCTION rota.resume_tenant(name text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    was text;
BEGIN
    was := rota.say_why(resume_tenant.actor, resume_tenant.reason);
    UPDATE rota.tenants t SET is_paused = false, paused_at = NULL, paused_by = NULL, pause_reason = NULL, paused_until = NULL
    WHERE t.name = resume_tenant.name AND rota.tenant_is_paused(t);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'tenant "%" is not paused', resume_tenant.name USING ERRCODE = 'RO005';
    END IF;
    PERFORM set_config('rota' || '.reason', was, true);
    RETURN rota.free_runs_of(resume_tenant.name, 1000);
END $$;

-- Back to the defaults. Its data stays.
CREATE FUNCTION rota.remove_tenant(name text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    was text;
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
    PERFORM set_config('rota' || '.reason', was, true);
END $$;

-- One turn of a worker: ends pauses that are over, holds what has come for those that are paused, frees what was held for the others.
-- Answers how many runs it moved, and whether any tenant wants another look soon.
CREATE FUNCTION rota.tend_pauses(max_runs integer, OUT moved integer, OUT is_wanted boolean) LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off SET lock_timeout = '5s' AS $$
DECLARE
    clock timestamptz := rota.now();
    one   record;
    whose text := '';
    was   text;
BEGIN
    moved := 0;
    is_wanted := EXISTS (SELECT FROM rota.tenants t WHERE t.is_paused) OR EXISTS (SELECT FROM rota.open_runs o WHERE o.held_by = 'tenant');
    IF NOT is_wanted OR NOT rota.try_lock('tenants') THEN
        RETURN;
    END IF;
    FOR one IN SELECT t.name, t.paused_until FROM rota.tenants t WHERE t.is_paused AND t.paused_until <= clock ORDER BY t.name FOR UPDATE SKIP LOCKED LOOP
        was := rota.say_why('rota', 'its pause was over');
        UPDATE rota.tenants t SET is_paused = false, paused_at = NULL, paused_by = NULL, pause_reason = NULL, paused_until = NULL WHERE t.name = one.name;
        PERFORM set_config('rota' || '.reason', was, true);
    END LOOP;
    FOR one IN SELECT t.name FROM rota.tenants t WHERE t.is_paused AND rota.tenant_is_paused(t) ORDER BY t.name LOOP
        moved := moved + rota.hold_runs_of(one.name, max_runs - moved);
        EXIT WHEN moved >= max_runs;
    END LOOP;
    WHILE moved < max_runs LOOP
        -- From tenant to tenant by the index, not over all that they have.
        SELECT o.tenant INTO whose FROM rota.open_runs o WHERE o.held_by = 'tenant' AND o.tenant > whose ORDER BY o.tenant LIMIT 1;
        EXIT WHEN whose IS NULL;
        CONTINUE WHEN EXISTS (SELECT FROM rota.tenants t WHERE t.name = whose AND rota.tenant_is_paused(t));
        moved := moved + rota.free_runs_of(whose, max_runs - moved);
    END LOOP;
END $$;

-- Schedules say whose they are under the same rule. Those that are there go on, whatever their tenants are called.
CREATE FUNCTION rota.check_schedule_tenant() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    PERFORM rota.check_tenant(NEW.tenant);
    RETURN NEW;
END $$;
CREATE TRIGGER a_tenant BEFORE INSERT OR UPDATE OF tenant ON rota.schedules FOR EACH ROW
    WHEN (NEW.tenant <> '') EXECUTE FUNCTION rota.check_schedule_tenant();

-- As before (0061), and the rule of tenants.
CREATE OR REPLACE FUNCTION rota.check_options(
    job text, payload jsonb, payload_bytes integer, priority integer, max_attempts integer,
    timeout_seconds double precision, queue text, metadata jsonb, backoff jsonb,
    run_at timestamptz DEFAULT NULL, delay interval DEFAULT NULL, expires_at timestamptz DEFAULT NULL,
    key_seconds double precision DEFAULT NULL, tags text[] DEFAULT NULL, tenant text DEFAULT NULL,
    is_checked boolean DEFAULT false
) RETURNS void LANGUAGE plpgsql IMMUTABLE SET jit = off AS $$
DECLARE
    fault text;
    hint  text := '';
BEGIN
    IF payload IS NULL OR jsonb_typeof(payload) <> 'object' THEN
        fault := format('the payload of job "%s" must be a JSON object of its arguments, not %s', job, coalesce(jsonb_typeof(payload), 'NULL'));
        hint := 'Write for example {"user_id": 7}.';
    ELSIF pg_column_size(payload) > payload_bytes THEN
        fault := format('the payload of job "%s" has %s bytes; the limit is %s', job, pg_column_size(payload), payload_bytes);
        hint := 'Store the data elsewhere and enqueue its address, or raise runs.payload_bytes.';
    ELSIF NOT (is_checked OR rota.is_plain_json(payload)) OR NOT rota.is_plain_json(metadata) OR NOT rota.is_plain_json(backoff) THEN
        fault := format('the %s of job "%s" is nested deeper than 100 levels, or holds a number that JSON''s readers cannot hold',
            CASE WHEN NOT (is_checked OR rota.is_plain_json(payload)) THEN 'payload' WHEN NOT rota.is_plain_json(metadata) THEN 'metadata' ELSE 'backoff' END, job);
        hint := 'Numbers go up to 1.7976931348623157e308; write larger ones as text.';
    ELSIF priority NOT BETWEEN 0 AND 9 THEN
        fault := format('priority %s of job "%s" is not between 0 (first) and 9 (last)', priority, job);
    ELSIF max_attempts NOT BETWEEN 1 AND 100 THEN
        fault := format('max_attempts %s of job "%s" is not between 1 and 100', max_attempts, job);
    ELSIF timeout_seconds < 0.001 THEN
        fault := format('timeout_seconds %s of job "%s" is less than 0.001 (a millisecond)', timeout_seconds, job);
    ELSIF timeout_seconds > 31536000 THEN
        fault := format('timeout_seconds %s of job "%s" is more than 31536000 (a year)', timeout_seconds, job);
    ELSIF queue = '' OR length(queue) > 100 THEN
        fault := format('the queue of job "%s" needs a name of 1 to 100 characters', job);
    ELSIF jsonb_typeof(metadata) <> 'object' OR jsonb_typeof(backoff) <> 'object' THEN
        fault := format('metadata and backoff of job "%s" must be JSON objects', job);
    ELSIF backoff IS NOT NULL AND rota.backoff_fault(backoff) IS NOT NULL THEN
        fault := format('%s of job "%s" cannot be', rota.backoff_fault(backoff), job);
        hint := 'It has kind, base_seconds, factor (from 1), cap_seconds, jitter_seconds (from 0).';
    ELSIF NOT rota.is_instant(run_at) THEN
        fault := format('run_at %s of job "%s" is not in the years 1 to 9999 (0001-01-02 to 9999-12-30, UTC)', run_at, job);
    ELSIF NOT rota.is_instant(expires_at) THEN
        fault := format('expires_at %s of job "%s" is not in the years 1 to 9999 (0001-01-02 to 9999-12-30, UTC)', expires_at, job);
        hint := 'Leave it out for a run that never expires.';
    ELSIF delay NOT BETWEEN interval '-100 years' AND interval '100 years' THEN
        fault := format('delay %s of job "%s" is more than 100 years', delay, job);
    ELSIF key_seconds < 0 OR key_seconds > 3153600000 AND key_seconds <> 'infinity' THEN
        fault := format('key_seconds %s of job "%s" is not between 0 and 3153600000 (100 years)', key_seconds, job);
        hint := 'infinity keeps the key for ever.';
    ELSIF tags IS NOT NULL AND (NOT rota.is_plain_list(tags) OR EXISTS (SELECT FROM unnest(tags) t WHERE length(t) NOT BETWEEN 1 AND 100)) THEN
        fault := format('tags of job "%s" must be one list of texts of 1 to 100 characters', job);
    ELSIF tenant <> '' AND rota.tenant_fault(tenant) IS NOT NULL THEN
        fault := format('the tenant of job "%s" %s, not %s', job, rota.tenant_fault(tenant), to_json(left(tenant, 60)));
        hint := 'An id or a short name of your customer will do: acme, customer-17.';
    ELSE
        RETURN;
    END IF;
    RAISE EXCEPTION '%', fault USING ERRCODE = 'RO002', HINT = hint;
END $$;


-- As before (0017), and tenants.
CREATE OR REPLACE FUNCTION rota.expect_version(kind text, name text, version bigint, tenant text DEFAULT '') RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    stored bigint;
BEGIN
    CASE kind
        WHEN 'schedule' THEN
            PERFORM rota.find_schedule(expect_version.name, expect_version.tenant);
            SELECT s.edit_version INTO stored FROM rota.schedules s
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
            RAISE EXCEPTION 'kind is "%"; it is one of schedule, job, calendar, template, queue, tenant', kind USING ERRCODE = 'RO002';
    END CASE;
    IF stored IS NULL THEN
        RAISE EXCEPTION 'no % is named "%"', kind, expect_version.name USING ERRCODE = 'RO002';
    ELSIF stored <> expect_version.version THEN
        RAISE EXCEPTION '% "%" has changed: it is at version %, not %', kind, expect_version.name, stored, expect_version.version
            USING ERRCODE = 'RO008', DETAIL = stored::text, HINT = 'Look at it again, then decide.';
    END IF;
END $$;
