-- How long what has ended is kept, and what operators do with many runs at once.

-- What a job's runs are kept in, by outcome: short, standard or long. Only what differs from standard has a row; job '':
-- of every job that says nothing. A finish looks once whether there is any.
CREATE TABLE rota.keep_rules (
    job        text COLLATE "C" NOT NULL,
    state      text COLLATE "C" NOT NULL CHECK (state IN ('succeeded', 'failed', 'cancelled')),
    keep_class text COLLATE "C" NOT NULL CHECK (keep_class IN ('short', 'standard', 'long')),
    PRIMARY KEY (job, state)
);

CREATE TABLE rota.ended_runs_short PARTITION OF rota.ended_runs FOR VALUES IN ('short') PARTITION BY RANGE (finished_at);
CREATE TABLE rota.ended_runs_long PARTITION OF rota.ended_runs FOR VALUES IN ('long') PARTITION BY RANGE (finished_at);
-- Few partitions beat many: what is kept for a year lies in stretches of four weeks.
INSERT INTO rota.partitioned VALUES ('ended_runs_short', 7), ('ended_runs_long', 28);
SELECT rota.ensure_partitions(rota.now() - interval '1 day', rota.now() + interval '7 days');

-- For lists by what few runs have. Partial: a run without a key, tenant or schedule that succeeds is in none of them.
CREATE INDEX ended_runs_key ON rota.ended_runs (key) WHERE key IS NOT NULL;
CREATE INDEX ended_runs_tenant ON rota.ended_runs (tenant, id) WHERE tenant <> '';
CREATE INDEX ended_runs_schedule ON rota.ended_runs (schedule, id) WHERE schedule IS NOT NULL;
CREATE INDEX ended_runs_bad_id ON rota.ended_runs (id) WHERE state <> 'succeeded';
-- Of the open ones too. None of these columns changes with a claim.
CREATE INDEX open_runs_key ON rota.open_runs (key) WHERE key IS NOT NULL;
CREATE INDEX open_runs_tenant ON rota.open_runs (tenant, id) WHERE tenant <> '';
CREATE INDEX open_runs_schedule_name ON rota.open_runs (schedule, id) WHERE schedule IS NOT NULL;

CREATE FUNCTION rota.keep_class_of(job text, state text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT k.keep_class FROM rota.keep_rules k WHERE k.job = keep_class_of.job AND k.state = keep_class_of.state),
                    (SELECT k.keep_class FROM rota.keep_rules k WHERE k.job = '' AND k.state = keep_class_of.state), 'standard')
$$;

-- The ends of runs pick the class. In the batch of a worker the lookup is written out, because a function that reads a table
-- is called for every row.

CREATE OR REPLACE FUNCTION rota.finish_runs(
    for_worker bigint, ids bigint[], attempts integer[], durations_ms real[],
    results jsonb[] DEFAULT NULL, states text[] DEFAULT NULL, attempt_states text[] DEFAULT NULL,
    end_reasons text[] DEFAULT NULL, messages text[] DEFAULT NULL, error_types text[] DEFAULT NULL,
    errors text[] DEFAULT NULL, tracebacks text[] DEFAULT NULL, details jsonb[] DEFAULT NULL
) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET lock_timeout = '100ms' AS $$
#variable_conflict use_column
DECLARE
    clock     timestamptz := rota.now();
    has_rules boolean := EXISTS (SELECT FROM rota.keep_rules);
BEGIN
    RETURN QUERY
    WITH ended AS (
        DELETE FROM rota.open_runs o
        USING unnest(ids, attempts, durations_ms, results, states, attempt_states, end_reasons, messages, error_types, errors, tracebacks, details)
              AS f (id, attempt, duration_ms, result, state, attempt_state, end_reason, message, error_type, error, traceback, detail)
        WHERE o.id = ANY (ARRAY[f.id]) AND o.attempt = f.attempt AND o.worker = for_worker
        RETURNING o.id, o.created_at, o.run_at, greatest(o.started_at, clock - f.duration_ms * interval '1 millisecond') AS started_at,
            o.attempt, f.duration_ms,
            o.attempts_used + (coalesce(f.attempt_state, 'succeeded') <> 'cancelled')::integer AS attempts_used,
            o.max_attempts, o.priority, o.is_suspect, coalesce(f.state, 'succeeded') AS state,
            coalesce(f.attempt_state, 'succeeded') AS attempt_state,
            o.queue, o.job, o.tenant, o.payload, f.result, o.expires_at, o.timeout_seconds, o.key, o.key_seconds, o.backoff, o.tags,
            o.metadata, o.triggered_by, o.schedule, o.scheduled_for, o.schedule_id, o.progress, coalesce(f.message, o.message) AS message,
            f.error_type, f.error, f.traceback, f.end_reason, f.detail
    ), moved AS (
        INSERT INTO rota.ended_runs (id, created_at, run_at, started_at, finished_at, worker, attempt, duration_ms, attempts_used,
            max_attempts, priority, is_redelivery, state, attempt_state, queue, job, tenant, payload, result, expires_at,
            timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id, progress, message,
            error_type, error, traceback, end_reason, details, keep_class)
        SELECT id, created_at, run_at, started_at, clock, for_worker, attempt, duration_ms, attempts_used,
            max_attempts, priority, is_suspect, state, attempt_state, queue, job, tenant, payload, result, expires_at,
            timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id, progress, message,
            error_type, error, traceback, end_reason, detail,
            CASE WHEN has_rules THEN coalesce((SELECT k.keep_class FROM rota.keep_rules k WHERE k.job = ended.job AND k.state = ended.state),
                (SELECT k.keep_class FROM rota.keep_rules k WHERE k.job = '' AND k.state = ended.state), 'standard') ELSE 'standard' END
        FROM ended ORDER BY schedule_id -- the order in which the ends of scheduled runs lock their schedules
    ), freed AS (
        DELETE FROM rota.keys k
        USING (SELECT tenant, job, key, id FROM ended WHERE key IS NOT NULL AND key_seconds IS NULL ORDER BY tenant, job, key COLLATE "C") e
        WHERE k.tenant = e.tenant AND k.job = e.job AND k.key = e.key AND k.run_id = e.id
    ), kept AS (
        UPDATE rota.keys k SET expires_at = rota.after(clock, e.key_seconds)
        FROM (SELECT tenant, job, key, id, key_seconds FROM ended WHERE key_seconds IS NOT NULL ORDER BY tenant, job, key COLLATE "C") e
        WHERE k.tenant = e.tenant AND k.job = e.job AND k.key = e.key AND k.run_id = e.id
    )
    SELECT id FROM ended;
END $$;

CREATE OR REPLACE FUNCTION rota.end_waiting_runs(ids bigint[], new_state text, reason text, failure_type text DEFAULT NULL, failure text DEFAULT NULL)
RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    clock timestamptz := rota.now();
BEGIN
    PERFORM rota.ensure_partitions(clock, clock)
    WHERE to_regclass('rota.ended_runs_standard_' || to_char(date_trunc('week', clock AT TIME ZONE 'UTC'), 'YYYYMMDD')) IS NULL;
    RETURN QUERY
    WITH ended AS (
        DELETE FROM rota.open_runs o WHERE o.id = ANY (ids) AND o.state <> 'running'
        RETURNING o.*
    ), moved AS (
        INSERT INTO rota.ended_runs (id, created_at, run_at, finished_at, attempt, attempts_used,
            max_attempts, priority, is_redelivery, state, queue, job, tenant, payload, expires_at,
            timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id, message,
            error_type, error, end_reason, keep_class)
        SELECT id, created_at, run_at, clock, attempt, attempts_used,
            max_attempts, priority, is_suspect, new_state, queue, job, tenant, payload, expires_at,
            timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id, message,
            failure_type, coalesce(failure, last_error), reason, rota.keep_class_of(job, new_state)
        FROM ended ORDER BY schedule_id
    ), freed AS (
        DELETE FROM rota.keys k
        USING (SELECT tenant, job, key, id FROM ended WHERE key IS NOT NULL AND key_seconds IS NULL ORDER BY tenant, job, key COLLATE "C") e
        WHERE k.tenant = e.tenant AND k.job = e.job AND k.key = e.key AND k.run_id = e.id
    ), kept AS (
        UPDATE rota.keys k SET expires_at = rota.after(clock, e.key_seconds)
        FROM (SELECT tenant, job, key, id, key_seconds FROM ended WHERE key_seconds IS NOT NULL ORDER BY tenant, job, key COLLATE "C") e
        WHERE k.tenant = e.tenant AND k.job = e.job AND k.key = e.key AND k.run_id = e.id
    )
    SELECT id FROM ended;
END $$;

-- Where an ended run lies. Its id tells when it was created, and most runs end within two days: the rest of the history is
-- looked at only then.
CREATE FUNCTION rota.find_ended(run_id bigint, OUT keep_class text, OUT finished_at timestamptz, OUT state text)
LANGUAGE plpgsql STABLE AS $$
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

CREATE OR REPLACE FUNCTION rota.cancel_run(run_id bigint, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    who    text := coalesce(cancel_run.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    why    text := 'cancelled by ' || who || coalesce(': ' || cancel_run.reason, '');
    held   record;
    answer text;
BEGIN
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
                jsonb_build_object('state', held.state), jsonb_build_object('state', answer), cancel_run.reason, held.tenant);
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

CREATE OR REPLACE FUNCTION rota.retry_run(
    run_id bigint, payload jsonb DEFAULT NULL, delay interval DEFAULT NULL, reason text DEFAULT NULL, actor text DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    clock  timestamptz := rota.now();
    old    rota.ended_runs;
    place  record;
    extra  integer;
    holder bigint;
    open_state text;
    at     timestamptz := clock + coalesce(retry_run.delay, '0');
BEGIN
    place := rota.find_ended(retry_run.run_id);
    DELETE FROM rota.ended_runs r
    WHERE r.id = retry_run.run_id AND r.keep_class = place.keep_class AND r.finished_at = place.finished_at AND r.state IN ('failed', 'cancelled')
    RETURNING r.* INTO old;
    IF NOT FOUND THEN
        open_state := coalesce((SELECT o.state FROM rota.open_runs o WHERE o.id = retry_run.run_id), place.state);
        IF open_state IS NULL THEN
            RAISE EXCEPTION 'there is no run %', retry_run.run_id USING ERRCODE = 'RO004';
        END IF;
        RAISE EXCEPTION 'run % is %', retry_run.run_id, open_state
            USING ERRCODE = 'RO005', HINT = 'Only a run that failed or was cancelled can be retried.';
    END IF;
    SELECT j.max_attempts INTO extra FROM rota.jobs j WHERE j.name = old.job;
    IF NOT FOUND THEN
        PERFORM rota.unknown_job(old.job);
    END IF;
    IF retry_run.payload IS NOT NULL THEN
        PERFORM rota.check_options(old.job, retry_run.payload, s.payload_bytes, NULL, NULL, NULL, NULL, NULL, NULL) FROM rota.settings s;
    END IF;
    IF old.key IS NOT NULL THEN
        DELETE FROM rota.keys k WHERE k.tenant = old.tenant AND k.job = old.job AND k.key = old.key AND k.run_id = old.id;
        holder := rota.take_key(old.tenant, old.job, old.key, old.id);
        IF holder <> old.id THEN
            RAISE EXCEPTION 'run % cannot be retried: its key "%" is held by run %', old.id, old.key, holder
                USING ERRCODE = 'RO003', DETAIL = holder::text;
        END IF;
    END IF;
    DELETE FROM rota.cancel_requests c WHERE c.run_id = old.id;
    -- The last attempt lived in the row that goes; it becomes a past one. What the last
    -- attempt had spent stays spent, and the allowance rises above it.
    IF old.attempt_state IS NOT NULL THEN
        INSERT INTO rota.past_attempts (run_id, attempt, state, worker, started_at, finished_at, duration_ms, is_redelivery,
            is_spent, job, tenant, message, details, error_type, error, traceback)
        VALUES (old.id, old.attempt, old.attempt_state, old.worker, old.started_at, old.finished_at, old.duration_ms, old.is_redelivery,
            old.attempt_state <> 'cancelled', old.job, old.tenant, old.message, old.details, old.error_type, old.error, old.traceback);
    END IF;
    INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, queue, job, tenant, payload, priority, attempt,
        attempts_used, max_attempts, expires_at, timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by,
        schedule, scheduled_for, schedule_id, last_error)
    VALUES (old.id, nextval('rota.run_ids'), old.created_at, clock_timestamp(), at, CASE WHEN at > clock THEN 'scheduled' ELSE 'queued' END,
        old.queue, old.job, old.tenant, coalesce(retry_run.payload, old.payload), old.priority, old.attempt,
        old.attempts_used, least(greatest(old.max_attempts, old.attempts_used + extra), 32767), NULL, old.timeout_seconds, old.key, old.key_seconds, old.backoff,
        old.tags, old.metadata, old.triggered_by, old.schedule, old.scheduled_for, old.schedule_id, old.error);
    PERFORM rota.write_audit(retry_run.actor, 'run.retried', 'run', old.id::text,
        jsonb_build_object('state', old.state, 'payload', old.payload),
        jsonb_build_object('state', CASE WHEN at > clock THEN 'scheduled' ELSE 'queued' END, 'payload', coalesce(retry_run.payload, old.payload)), retry_run.reason, old.tenant);
    IF at > clock THEN
        PERFORM rota.wake_later(at - clock);
    ELSE
        PERFORM rota.wake(ARRAY[old.queue]);
    END IF;
    RETURN old.id;
END $$;

-- Attempts and lines of these runs, none of which was created before the instant.
CREATE FUNCTION rota.delete_traces(ids bigint[], since timestamptz) RETURNS bigint LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET plan_cache_mode = force_custom_plan AS $$
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

-- An ended run with its attempts and lines. Its payload goes too: whoever deletes it wants it gone, so the audit has no copy.
CREATE FUNCTION rota.delete_run(run_id bigint, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    place record := rota.find_ended(delete_run.run_id);
    old   rota.ended_runs;
    open_state text;
BEGIN
    DELETE FROM rota.ended_runs r
    WHERE r.id = delete_run.run_id AND r.keep_class = place.keep_class AND r.finished_at = place.finished_at RETURNING r.* INTO old;
    IF NOT FOUND THEN
        SELECT o.state INTO open_state FROM rota.open_runs o WHERE o.id = delete_run.run_id;
        IF open_state IS NULL THEN
            RAISE EXCEPTION 'there is no run %', delete_run.run_id USING ERRCODE = 'RO004';
        END IF;
        RAISE EXCEPTION 'run % is %', delete_run.run_id, open_state
            USING ERRCODE = 'RO005', HINT = 'Only a run that has ended can be deleted: cancel it first.';
    END IF;
    PERFORM rota.delete_traces(ARRAY[old.id], old.created_at);
    PERFORM rota.write_audit(delete_run.actor, 'run.deleted', 'run', old.id::text,
        jsonb_build_object('job', old.job, 'state', old.state, 'finished_at', old.finished_at), NULL, delete_run.reason, old.tenant);
END $$;

-- One action on many runs, each for itself: what is refused stops no other. Fewer than 64 in a call, as each is a
-- subtransaction and more of them make every other snapshot slow.
CREATE FUNCTION rota.act_on_runs(
    action text, ids bigint[], payload jsonb DEFAULT NULL, delay interval DEFAULT NULL, reason text DEFAULT NULL, actor text DEFAULT NULL
) RETURNS TABLE (run_id bigint, answer text, refusal text) LANGUAGE plpgsql VOLATILE SET lock_timeout = '2s' AS $$
#variable_conflict use_variable
BEGIN
    -- In one order, so that two who act on the same runs do not wait for each other.
    FOR run_id IN SELECT DISTINCT one FROM unnest(ids) AS one ORDER BY one LOOP
        answer := NULL;
        refusal := NULL;
        BEGIN
            CASE action
            WHEN 'cancel' THEN answer := rota.cancel_run(run_id => run_id, reason => reason, actor => actor);
            WHEN 'retry' THEN
                PERFORM rota.retry_run(run_id => run_id, payload => payload, delay => delay, reason => reason, actor => actor);
                answer := 'retried';
            WHEN 'delete' THEN
                PERFORM rota.delete_run(run_id => run_id, reason => reason, actor => actor);
                answer := 'deleted';
            END CASE;
        EXCEPTION
            WHEN lock_not_available THEN refusal := format('run %s is locked by another transaction', run_id);
            WHEN OTHERS THEN
                IF SQLSTATE NOT LIKE 'RO%' THEN
                    RAISE;
                END IF;
                refusal := SQLERRM;
        END;
        RETURN NEXT;
    END LOOP;
END $$;

CREATE VIEW rota.dead_letters AS
SELECT id, job, queue, tenant, priority, payload, attempts_used, max_attempts, error_type, error, end_reason,
       coalesce(tags, '{}') AS tags, schedule, created_at, finished_at
FROM rota.ended_runs WHERE state = 'failed' AND attempts_used >= max_attempts;
COMMENT ON VIEW rota.dead_letters IS 'Runs that have used up their attempts, until they are retried or retention takes them.';

CREATE OR REPLACE VIEW rota.runs AS
SELECT id, job, queue, state, priority, payload, run_at, attempt, max_attempts, key, tenant,
       coalesce(tags, '{}') AS tags, coalesce(metadata, '{}') AS metadata, schedule, scheduled_for,
       coalesce(triggered_by, '{"type": "code"}') AS triggered_by, worker, last_error, message,
       NULL::jsonb AS result, created_at, started_at, NULL::timestamptz AS finished_at,
       NULL::real AS duration_ms, expires_at, NULL::text AS end_reason, attempts_used, progress, held_by, enqueued_at
FROM rota.open_runs
UNION ALL
SELECT id, job, queue, state, priority, payload, run_at, attempt, max_attempts, key, tenant,
       coalesce(tags, '{}'), coalesce(metadata, '{}'), schedule, scheduled_for,
       coalesce(triggered_by, '{"type": "code"}'), worker, error, message,
       result, created_at, started_at, finished_at, duration_ms, expires_at, end_reason, attempts_used, progress, NULL, NULL
FROM rota.ended_runs;

-- Retention. What the configuration says is kept here, so that a job's policy can be judged by plain SQL too.
ALTER TABLE rota.settings ADD COLUMN retention jsonb NOT NULL DEFAULT
    '{"short_days": 7, "run_days": 30, "failed_run_days": null, "long_days": 365, "log_days": 7, "occurrence_days": 90, "rollup_days": 400, "audit_days": null}';

-- {"days", "count", "failed_days", "failed_count", "log_days", "log_count", "failed_log_days"}; NULL: as the configuration says.
ALTER TABLE rota.jobs ADD COLUMN retention jsonb CONSTRAINT jobs_retention CHECK (jsonb_typeof(retention) = 'object');

-- For how many days a run that ended like this is kept. A job that says one number means it for failures too.
CREATE FUNCTION rota.run_days(policy jsonb, state text, defaults jsonb) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(CASE WHEN state = 'failed' THEN policy ->> 'failed_days' END, policy ->> 'days',
                    CASE WHEN state = 'failed' THEN defaults ->> 'failed_run_days' END, defaults ->> 'run_days')::integer
$$;

CREATE FUNCTION rota.keep_class_for(days integer, defaults jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN days <= (defaults ->> 'short_days')::integer THEN 'short'
                WHEN days <= (defaults ->> 'run_days')::integer THEN 'standard' ELSE 'long' END
$$;

-- of_job NULL: all, and what holds for jobs without a policy.
CREATE FUNCTION rota.write_keep_rules(of_job text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    defaults jsonb := (SELECT s.retention FROM rota.settings s);
BEGIN
    DELETE FROM rota.keep_rules k WHERE of_job IS NULL OR k.job = of_job;
    INSERT INTO rota.keep_rules (job, state, keep_class)
    SELECT p.job, p.state, p.own FROM (
        SELECT j.name AS job, s.state, rota.keep_class_for(rota.run_days(j.retention, s.state, defaults), defaults) AS own,
               rota.keep_class_for(rota.run_days(NULL, s.state, defaults), defaults) AS usual
        FROM (SELECT name, retention FROM rota.jobs WHERE retention IS NOT NULL AND (of_job IS NULL OR name = of_job)
              UNION ALL SELECT '', NULL WHERE of_job IS NULL) j
        CROSS JOIN unnest('{succeeded,failed,cancelled}'::text[]) AS s (state)) p
    WHERE p.own <> 'standard' OR (p.job <> '' AND p.usual <> 'standard');
END $$;

CREATE FUNCTION rota.configure_retention(wanted jsonb) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE rota.settings s SET retention = wanted WHERE s.retention <> wanted;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM rota.write_keep_rules(NULL);
    RETURN true;
END $$;

-- A policy follows the code until somebody touches it; newer than write_definitions, so by a trigger of its own.
CREATE FUNCTION rota.check_retention() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    longest integer := (SELECT (s.retention ->> 'long_days')::integer FROM rota.settings s);
    part    record;
BEGIN
    IF rota.is_syncing() AND NEW.code ? 'retention' AND NOT NEW.edited ? 'retention' THEN
        NEW.retention := nullif(NEW.code -> 'retention', 'null');
    END IF;
    IF jsonb_typeof(NEW.retention) <> 'object' THEN
        PERFORM rota.bad_job(NEW.name, format('retention %s is not an object', NEW.retention));
    END IF;
    FOR part IN SELECT * FROM jsonb_each(NEW.retention) LOOP
        IF part.key NOT IN ('days', 'count', 'failed_days', 'failed_count', 'log_days', 'log_count', 'failed_log_days') THEN
            PERFORM rota.bad_job(NEW.name, format('retention has no "%s"', part.key),
                'It has days, count, failed_days, failed_count, log_days, log_count, failed_log_days.');
        ELSIF part.value <> 'null' AND (jsonb_typeof(part.value) <> 'number' OR part.value::numeric < 1 OR part.value::numeric % 1 <> 0) THEN
            PERFORM rota.bad_job(NEW.name, format('retention says "%s": %s; it is a whole number from 1', part.key, part.value));
        ELSIF part.value <> 'null' AND part.key LIKE '%days' AND part.value::numeric > longest THEN
            PERFORM rota.bad_job(NEW.name, format('retention says "%s": %s, but nothing is kept for more than %s days', part.key, part.value, longest),
                'Raise long_days in [retention] of the configuration.');
        END IF;
    END LOOP;
    RETURN NEW;
END $$;
CREATE TRIGGER jobs_retention BEFORE INSERT OR UPDATE OF code, retention ON rota.jobs FOR EACH ROW EXECUTE FUNCTION rota.check_retention();

CREATE FUNCTION rota.follow_retention() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM rota.keep_rules k WHERE k.job = OLD.name;
    ELSIF (CASE WHEN TG_OP = 'UPDATE' THEN OLD.retention END) IS DISTINCT FROM NEW.retention THEN
        PERFORM rota.write_keep_rules(NEW.name);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_retention_rules AFTER INSERT OR UPDATE OR DELETE ON rota.jobs FOR EACH ROW EXECUTE FUNCTION rota.follow_retention();

-- Every partition of the history, those too that were detached and not yet dropped. Their names say from when they are.
CREATE FUNCTION rota.history_parts() RETURNS TABLE (
    parent text, partition text, relation oid, from_at timestamptz, to_at timestamptz, state text, estimated_rows bigint, bytes bigint
) LANGUAGE sql STABLE AS $$
    SELECT r.parent, c.relname::text, c.oid, d.first::timestamp AT TIME ZONE 'UTC', (d.first + r.days)::timestamp AT TIME ZONE 'UTC',
           CASE WHEN i.inhrelid IS NULL THEN 'detached' WHEN i.inhdetachpending THEN 'detaching' ELSE 'attached' END,
           greatest(c.reltuples, 0)::bigint, pg_total_relation_size(c.oid)
    FROM rota.partitioned r
    JOIN pg_class own ON own.oid = 'rota.jobs'::regclass
    JOIN pg_class c ON c.relnamespace = own.relnamespace AND c.relkind = 'r' AND c.relname ~ ('^' || r.parent || '_[0-9]{8}$')
    CROSS JOIN LATERAL (SELECT to_date(right(c.relname, 8), 'YYYYMMDD') AS first) d
    LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
$$;

-- Attempts and lines of the runs in a partition that was detached, a portion at a time: where to go on (NULL: done). Only
-- a run that was claimed more than once can have attempts beside its own.
CREATE FUNCTION rota.prune_traces(partition text, after_id bigint, with_logs boolean, max_runs integer, OUT last_id bigint, OUT removed bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    ids   bigint[];
    since timestamptz;
BEGIN
    EXECUTE format('SELECT array_agg(p.id), max(p.id), min(p.created_at)
                    FROM (SELECT id, created_at FROM rota.%I WHERE id > $1 AND ($3 OR attempt > 1) ORDER BY id LIMIT $2) p', partition)
    INTO ids, last_id, since USING after_id, max_runs, with_logs;
    removed := CASE WHEN ids IS NULL THEN 0 ELSE rota.delete_traces(ids, since) END;
END $$;

-- Runs of one job that ended like this, up to a place in their order; the oldest first, a portion at a time. A class may be
-- left to the dropping of its partitions. What somebody works on just now is left for the next pass.
CREATE FUNCTION rota.prune_runs(of_job text, of_states text[], upto_at timestamptz, upto_id bigint, spared_class text, max_runs integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    ids   bigint[];
    since timestamptz;
    first timestamptz;
    last  timestamptz;
BEGIN
    SELECT array_agg(p.id), min(p.created_at), min(p.finished_at), max(p.finished_at) INTO ids, since, first, last
    FROM (SELECT r.id, r.created_at, r.finished_at FROM rota.ended_runs r
          WHERE r.job = of_job AND r.state = ANY (of_states) AND r.finished_at <= upto_at AND (r.finished_at < upto_at OR r.id <= upto_id)
            AND r.keep_class <> spared_class
          ORDER BY r.finished_at LIMIT max_runs FOR UPDATE SKIP LOCKED) p;
    IF ids IS NULL THEN
        RETURN 0;
    END IF;
    DELETE FROM rota.ended_runs r WHERE r.id = ANY (ids) AND r.finished_at BETWEEN first AND last;
    PERFORM rota.delete_traces(ids, since);
    RETURN cardinality(ids);
END $$;

-- Lines of one job between two instants, about so many at a time: up to where it came (NULL: done). Those of failed runs
-- may be spared.
CREATE FUNCTION rota.prune_lines(of_job text, after_at timestamptz, before_at timestamptz, spare_failed boolean, max_lines integer,
    OUT last_at timestamptz, OUT removed bigint)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    SELECT max(p.at) INTO last_at FROM (
        SELECT l.at FROM rota.logs l WHERE l.job = of_job AND l.at > after_at AND l.at < before_at ORDER BY l.at LIMIT max_lines) p;
    DELETE FROM rota.logs l WHERE l.job = of_job AND l.at > after_at AND l.at <= last_at
        AND NOT (spare_failed AND EXISTS (SELECT FROM rota.ended_runs r WHERE r.id = l.run_id AND r.state = 'failed' AND r.finished_at >= after_at));
    GET DIAGNOSTICS removed = ROW_COUNT;
END $$;

-- Lines of all jobs but these, in one partition, some pages at a time: where to go on (NULL: done).
CREATE FUNCTION rota.prune_log_pages(partition text, kept_jobs text[], from_page bigint, pages integer, OUT next_page bigint, OUT removed bigint)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    EXECUTE format('DELETE FROM ONLY rota.%I WHERE ctid >= $1 AND ctid < $2 AND job <> ALL ($3)', partition)
    USING format('(%s,0)', from_page)::tid, format('(%s,0)', from_page + pages)::tid, kept_jobs;
    GET DIAGNOSTICS removed = ROW_COUNT;
    next_page := CASE WHEN from_page + pages < pg_relation_size(format('rota.%I', partition)::regclass) / current_setting('block_size')::integer
                 THEN from_page + pages END;
END $$;

-- Rows of the small tables that are kept by time, the oldest first.
CREATE FUNCTION rota.prune_rows(relation text, before_at timestamptz, max_rows integer) RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    removed integer;
BEGIN
    CASE relation
    WHEN 'rollups' THEN
        DELETE FROM rota.rollups r WHERE r.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.rollups o WHERE o.minute < before_at ORDER BY o.minute LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'rollup_sums' THEN
        DELETE FROM rota.rollup_sums r WHERE r.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.rollup_sums o WHERE o.span <> 'ever' AND o.started_at < before_at LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'schedule_days' THEN
        DELETE FROM rota.schedule_days d WHERE d.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.schedule_days o WHERE o.day < (before_at AT TIME ZONE 'UTC')::date LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'id_marks' THEN
        DELETE FROM rota.id_marks m WHERE m.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.id_marks o WHERE o.at < before_at LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'audit' THEN
        -- Ids rise with the time: nothing behind the first that is young enough is looked at.
        DELETE FROM rota.audit a WHERE a.id IN (
            SELECT o.id FROM (SELECT e.id, e.at FROM rota.audit e ORDER BY e.id LIMIT max_rows) o WHERE o.at < before_at);
    END CASE;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;

-- Every worker knows these two: DETACH … CONCURRENTLY cannot be part of a transaction, so they are Python. Their queue is one
-- that every worker serves, whichever else it was told.
INSERT INTO rota.jobs (name, queue, executor, description, max_attempts, is_system) VALUES
    ('rota' || '.prune_runs', 'rota' || '.system', 'async', 'Removes runs, attempts, occurrences and counts that are past their retention', 1, true),
    ('rota' || '.prune_logs', 'rota' || '.system', 'async', 'Removes log lines that are past their retention', 1, true);
ALTER TABLE rota.schedules DISABLE TRIGGER schedules_audit;
INSERT INTO rota.schedules (name, job, description, cron, catch_up, is_system) VALUES
    ('rota' || '.prune_logs', 'rota' || '.prune_logs', 'Retention of log lines', '0 2 * * *', 'latest', true),
    ('rota' || '.prune_runs', 'rota' || '.prune_runs', 'Retention of runs', '0 2 * * *', 'latest', true);
ALTER TABLE rota.schedules ENABLE TRIGGER schedules_audit;
