-- What people do with runs: `cancel_run`, `retry_run`, `delete_run`, `act_on_runs` for a page of them, and
-- `bulk_actions` for all that a filter finds, carried out in batches by workers (`start_bulk_action`,
-- `advance_bulk_action`). `run_views` are saved filters.

-- Cancels a waiting run at once ('cancelled'), and asks the worker of a running one ('requested'). One that has
-- expired ends as expired.
-- Called by: act_on_runs, delete_job, operations/runs/runs.py, postgres/tenants/delete.py, settle_full,
-- sql/schedules/cancel_others.sql, users.
CREATE FUNCTION rota.cancel_run(run_id bigint, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    who    text := rota.who(cancel_run.actor);
    why    text := 'cancelled by ' || who || coalesce(': ' || cancel_run.reason, '');
    held   record;
    answer text;
    place  record;
BEGIN
    PERFORM rota.settle_expired(cancel_run.run_id);
    -- Again where it was claimed, ended or retried between the look and the act.
    LOOP
        place := rota.find_run(cancel_run.run_id);
        IF place.state IS NULL THEN
            RAISE EXCEPTION 'there is no run %', cancel_run.run_id
                USING ERRCODE = 'RO004', DETAIL = jsonb_build_object('run', cancel_run.run_id);
        ELSIF NOT place.is_open THEN
            RAISE EXCEPTION 'run % has already ended (%)', cancel_run.run_id, place.state
                USING ERRCODE = 'RO005', DETAIL = jsonb_build_object('run', cancel_run.run_id, 'state', place.state),
                HINT = 'Only a run that has not ended can be cancelled.';
        END IF;
        SELECT o.state, o.worker, o.attempt, o.tenant INTO held FROM rota.open_runs o WHERE o.id = cancel_run.run_id;
        IF held.state = 'running' THEN
            -- Not a lock on the run: the batch that ends it would wait for this transaction.
            INSERT INTO rota.cancel_requests (run_id, worker, attempt, requested_by, reason)
            VALUES (cancel_run.run_id, held.worker, held.attempt, who, cancel_run.reason)
            ON CONFLICT (run_id) DO UPDATE SET worker = excluded.worker, attempt = excluded.attempt,
                requested_by = excluded.requested_by, reason = excluded.reason, requested_at = excluded.requested_at;
            PERFORM rota.call_workers('cancel ' || held.worker);
            answer := 'requested';
        ELSIF held.state IS NOT NULL
            AND EXISTS (SELECT FROM rota.end_waiting_runs(ARRAY[cancel_run.run_id], 'cancelled', why)) THEN
            answer := 'cancelled';
        END IF;
        IF answer IS NOT NULL THEN
            PERFORM rota.write_audit(who, 'run.cancelled', 'run', cancel_run.run_id::text,
                jsonb_build_object('state', held.state), jsonb_build_object('state', answer), cancel_run.reason,
                held.tenant);
            RETURN answer;
        END IF;
    END LOOP;
END $$;

-- The same run, under its id, once more: attempt numbers go on, the allowance rises by the job's number, its key is
-- taken again, its last error keeps its group, and the limits are those that hold now. A run that waits because its
-- payload was refused is offered to all workers again (retry_refused).
-- Called by: act_on_runs, sql/runs/retry.sql, users.
CREATE FUNCTION rota.retry_run(
    run_id bigint, payload jsonb DEFAULT NULL, delay interval DEFAULT NULL, reason text DEFAULT NULL,
    actor text DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock  timestamptz := rota.now();
    old    rota.ended_runs;
    was    text;       -- the name of its job when it ended
    place  record;
    extra  integer;
    schema jsonb;
    wrong  text;
    holder bigint;
    at     timestamptz;
    keys   text[];
    capped boolean := false;
BEGIN
    PERFORM rota.settle_expired(retry_run.run_id);
    IF rota.retry_refused(retry_run.run_id, retry_run.payload, retry_run.delay, retry_run.reason, retry_run.actor) THEN
        RETURN retry_run.run_id;
    END IF;
    -- Again where it was retried, or ended again, between the look and the act.
    LOOP
        place := rota.find_run(retry_run.run_id);
        IF place.state IS NULL THEN
            RAISE EXCEPTION 'there is no run %', retry_run.run_id
                USING ERRCODE = 'RO004', DETAIL = jsonb_build_object('run', retry_run.run_id);
        ELSIF place.is_open OR place.state NOT IN ('failed', 'cancelled') THEN
            RAISE EXCEPTION 'run % is %', retry_run.run_id, place.state
                USING ERRCODE = 'RO005', DETAIL = jsonb_build_object('run', retry_run.run_id, 'state', place.state),
                HINT = 'Only a run that failed or was cancelled can be retried.';
        END IF;
        DELETE FROM rota.ended_runs r
        WHERE r.id = retry_run.run_id AND r.keep_class = place.keep_class AND r.finished_at = place.finished_at
        RETURNING r.* INTO old;
        EXIT WHEN FOUND;
    END LOOP;
    was := old.job;
    old.job := rota.present_name(was);
    SELECT j.max_attempts, j.payload_schema INTO extra, schema FROM rota.jobs j WHERE j.name = old.job;
    IF NOT FOUND THEN
        PERFORM rota.unknown_job(old.job);
    END IF;
    wrong := CASE WHEN jsonb_typeof(retry_run.payload) = 'object'
        THEN rota.payload_problem(schema, retry_run.payload) END;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'run %: the payload does not fit job "%": %', old.id, old.job, wrong
            USING ERRCODE = 'RO018', CONSTRAINT = 'payload_mismatch', COLUMN = 'payload',
                DETAIL = jsonb_build_object('run', old.id, 'job', old.job),
                HINT = 'rota.jobs.payload_schema describes its arguments.';
    END IF;
    PERFORM rota.check_options(old.job, coalesce(retry_run.payload, '{}'), s.payload_bytes, NULL, NULL, NULL, NULL,
        NULL, NULL, delay => retry_run.delay) FROM rota.settings s;
    at := clock + coalesce(retry_run.delay, '0');
    IF old.key IS NOT NULL THEN
        DELETE FROM rota.keys k WHERE k.tenant = old.tenant AND k.job = old.job AND k.key = old.key
            AND k.run_id = old.id;
        DELETE FROM rota.key_releases r WHERE r.run_id = old.id;
        holder := rota.take_key(old.tenant, old.job, old.key, old.id);
        IF holder <> old.id THEN
            RAISE EXCEPTION 'run % cannot be retried: its key "%" is held by run %', old.id, old.key, holder
                USING ERRCODE = 'RO003',
                    DETAIL = jsonb_build_object('run', old.id, 'key', old.key, 'held_by', holder);
        END IF;
    END IF;
    DELETE FROM rota.cancel_requests c WHERE c.run_id = old.id;
    IF EXISTS (SELECT FROM rota.settings s WHERE old.queue = ANY (s.capped_queues)) THEN
        capped := rota.check_cap(old.queue);
    END IF;
    IF EXISTS (SELECT FROM rota.settings s WHERE s.has_limits) THEN
        keys := rota.limit_keys_of(old.job, old.queue, old.tenant, old.schedule,
            coalesce(retry_run.payload, old.payload, rota.large_payload(old.id)));
    END IF;
    IF retry_run.payload IS NOT NULL AND old.payload IS NULL THEN
        DELETE FROM rota.large_payloads p WHERE p.run_id = old.id RETURNING p.payload INTO old.payload;
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
        CASE WHEN pg_column_size(retry_run.payload) > 4000 THEN rota.put_large_payload(old.id, retry_run.payload)
            ELSE coalesce(retry_run.payload, old.payload) END, old.priority, old.attempt,
        old.attempts_used, least(greatest(old.max_attempts, old.attempts_used + extra), 32767), NULL,
        old.timeout_seconds, old.key, old.key_seconds, old.backoff, old.tags, old.metadata, old.triggered_by,
        old.schedule, old.scheduled_for, old.schedule_id, old.error, old.error_group,
        keys, keys[1], rota.hold_of(at <= clock, keys), capped);
    -- It has not ended any more: counts of runs by state leave out the end that was counted, under the name of then.
    INSERT INTO rota.count_changes (name, labels, amount)
    VALUES ('runs_retried', jsonb_build_object('job', was, 'queue', old.queue, 'state', old.state), 1);
    PERFORM rota.write_audit(retry_run.actor, 'run.retried', 'run', old.id::text,
        jsonb_build_object('state', old.state) || edit.before,
        jsonb_build_object('state', CASE WHEN at > clock THEN 'scheduled' ELSE 'queued' END) || edit.after,
        retry_run.reason, old.tenant)
    -- The payload is in the run: only one that is replaced is written down, for as long as the run is kept.
    FROM (SELECT CASE WHEN is_edited THEN jsonb_build_object('payload', old.payload) ELSE '{}' END AS before,
                 CASE WHEN is_edited THEN jsonb_build_object('payload', retry_run.payload) ELSE '{}' END AS after
          FROM (SELECT coalesce(retry_run.payload <> old.payload, false) AS is_edited) e) edit;
    IF at > clock THEN
        PERFORM rota.wake_later(at - clock);
    ELSIF keys IS NOT NULL THEN
        PERFORM rota.wake_admission();
    ELSE
        PERFORM rota.wake(ARRAY[old.queue]);
    END IF;
    RETURN old.id;
END $$;

-- A waiting run whose payload workers have refused: with another payload, or the same, all may take it again. It has
-- spent no attempt, so its allowance stays. Returns whether it was such a run.
-- Called by: retry_run.
-- Locks: rows.
CREATE FUNCTION rota.retry_refused(of_run bigint, new_payload jsonb, delay interval, reason text, actor text)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
DECLARE
    clock timestamptz := rota.now();
    at    timestamptz := clock + coalesce(delay, '0');
    old   rota.open_runs;
    keys  text[];
    wrong text;
    holder text;
BEGIN
    SELECT o.* INTO old FROM rota.open_runs o
    WHERE o.id = of_run AND o.state = 'queued' AND o.refused_by IS NOT NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    wrong := CASE WHEN jsonb_typeof(new_payload) = 'object' THEN (SELECT rota.payload_problem(j.payload_schema,
        new_payload) FROM rota.jobs j WHERE j.name = old.job) END;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'run %: the payload does not fit job "%": %', old.id, old.job, wrong
            USING ERRCODE = 'RO018', CONSTRAINT = 'payload_mismatch', COLUMN = 'payload',
                DETAIL = jsonb_build_object('run', old.id, 'job', old.job),
                HINT = 'rota.jobs.payload_schema describes its arguments.';
    END IF;
    PERFORM rota.check_options(old.job, coalesce(new_payload, '{}'), s.payload_bytes, NULL, NULL, NULL, NULL, NULL,
        NULL, delay => retry_refused.delay) FROM rota.settings s;
    keys := (SELECT rota.limit_keys_of(old.job, old.queue, old.tenant, old.schedule,
        coalesce(new_payload, old.payload, rota.large_payload(old.id)))
        FROM rota.settings s WHERE s.has_limits);
    DELETE FROM rota.refusals r WHERE r.run_id = old.id;
    UPDATE rota.open_runs o
    SET payload = coalesce(new_payload, o.payload),
        validated_by = CASE WHEN new_payload IS NULL THEN o.validated_by END, refused_by = NULL,
        state = CASE WHEN at > clock THEN 'scheduled' ELSE 'queued' END, run_at = CASE WHEN at > clock THEN at
            ELSE o.run_at END,
        seq = nextval('rota.run_ids'), enqueued_at = clock_timestamp(), held_at = NULL, limit_keys = keys,
        limit_key = keys[1], slots = NULL,
        held_by = rota.hold_of(at <= clock, keys, o.suspicion)
    WHERE o.id = old.id RETURNING o.held_by INTO holder;
    PERFORM rota.release_slots(old.slots) WHERE old.slots IS NOT NULL;
    PERFORM rota.write_audit(retry_refused.actor, 'run.retried', 'run', old.id::text,
        jsonb_build_object('state', old.state, 'held_by', old.held_by),
        jsonb_build_object('state', CASE WHEN at > clock THEN 'scheduled' ELSE 'queued' END, 'is_payload_changed',
            new_payload IS NOT NULL), retry_refused.reason, old.tenant);
    PERFORM rota.wake_for(ARRAY[old.queue], ARRAY[holder], CASE WHEN at > clock THEN at - clock END);
    RETURN true;
END $$;

-- Deletes attempts, lines and large payloads of these runs, and payloads that the audit has of them; none of the lines
-- is from before the instant.
-- Called by: delete_run, delete_tenant_part, prune_runs, prune_tenant, prune_traces.
CREATE FUNCTION rota.delete_traces(ids bigint[], since timestamptz) RETURNS bigint LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET plan_cache_mode = force_custom_plan SET jit = off AS $$
DECLARE
    attempts bigint;
    lines    bigint;
BEGIN
    DELETE FROM rota.past_attempts p WHERE p.run_id = ANY (ids);
    GET DIAGNOSTICS attempts = ROW_COUNT;
    DELETE FROM rota.large_payloads p WHERE p.run_id = ANY (ids);
    DELETE FROM rota.logs l WHERE l.run_id = ANY (ids) AND l.at >= since;
    GET DIAGNOSTICS lines = ROW_COUNT;
    PERFORM rota.forget_values(ids);
    RETURN attempts + lines;
END $$;

-- Deletes an ended run with its attempts and lines. Its payload goes too: whoever deletes it wants it gone, so the
-- audit keeps no copy either. Attempts and lines are looked for from the mark of its id on: a run that was created
-- while the clock was ahead has some that are older than it.
-- Called by: act_on_runs, operations/runs/runs.py, users.
CREATE FUNCTION rota.delete_run(run_id bigint, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    place record;
    old   rota.ended_runs;
BEGIN
    PERFORM rota.settle_expired(delete_run.run_id);
    LOOP
        place := rota.find_run(delete_run.run_id);
        IF place.state IS NULL THEN
            RAISE EXCEPTION 'there is no run %', delete_run.run_id
                USING ERRCODE = 'RO004', DETAIL = jsonb_build_object('run', delete_run.run_id);
        ELSIF place.is_open THEN
            RAISE EXCEPTION 'run % is %', delete_run.run_id, place.state
                USING ERRCODE = 'RO005', DETAIL = jsonb_build_object('run', delete_run.run_id, 'state', place.state),
                HINT = 'Only a run that has ended can be deleted: cancel it first.';
        END IF;
        DELETE FROM rota.ended_runs r
        WHERE r.id = delete_run.run_id AND r.keep_class = place.keep_class AND r.finished_at = place.finished_at
        RETURNING r.* INTO old;
        EXIT WHEN FOUND;
    END LOOP;
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
-- Called by: operations/queues/queues.py, sql/bulk/start.sql, users.
CREATE FUNCTION rota.start_bulk_action(
    verb text, filter jsonb, payload jsonb DEFAULT NULL, delay_seconds double precision DEFAULT NULL,
    most bigint DEFAULT NULL, rate double precision DEFAULT NULL, reason text DEFAULT NULL, actor text DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    who  text := rota.who(start_bulk_action.actor);
    -- No run that comes later is touched.
    high bigint := (SELECT s.last_value + 1 FROM rota.run_ids s);
    made bigint;
    known constant text[] := '{states,job,queue,tenant,tag,key,schedule,worker,text,error,error_group,payload_fields,'
        'since,until,ended_since,ended_until,dead,handled,system,exclude}';
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
        start_bulk_action.rate)), start_bulk_action.reason, coalesce(start_bulk_action.filter ->> 'tenant', ''));
    PERFORM rota.call_workers('bulk');
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
            'verb', new.verb, 'done', new.done, 'skipped', new.skipped, 'failed', new.failed), new.reason,
            coalesce(new.filter ->> 'tenant', ''));
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
        RAISE EXCEPTION 'there is no bulk action %', action_id
            USING ERRCODE = 'RO011', DETAIL = jsonb_build_object('bulk_action', action_id);
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
            old.failed), reason, coalesce(old.filter ->> 'tenant', ''));
    PERFORM rota.call_workers('bulk');
    RETURN true;
END $$;

-- Pauses a bulk action between two of its batches.
-- Called by: operations/runs/bulk_actions.py, users.
CREATE FUNCTION rota.pause_bulk_action(action_id bigint, reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS boolean LANGUAGE sql VOLATILE SET jit = off AS $$
    SELECT rota.move_bulk_action(action_id, 'paused', ARRAY['running'], 'paused', reason, actor)
$$;

-- A paused bulk action goes on.
-- Called by: operations/runs/bulk_actions.py, users.
CREATE FUNCTION rota.resume_bulk_action(action_id bigint, reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS boolean LANGUAGE sql VOLATILE SET jit = off AS $$
    SELECT rota.move_bulk_action(action_id, 'running', ARRAY['paused'], 'resumed', reason, actor)
$$;

-- Changes how many runs a second a bulk action acts on.
-- Called by: operations/runs/bulk_actions.py, users.
-- Locks: rows.
CREATE FUNCTION rota.throttle_bulk_action(action_id bigint, rate double precision, reason text DEFAULT NULL,
    actor text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE SET lock_timeout = '10s' SET jit = off AS $$
DECLARE
    old rota.bulk_actions;
BEGIN
    SELECT * INTO old FROM rota.bulk_actions b WHERE b.id = action_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no bulk action %', action_id
            USING ERRCODE = 'RO011', DETAIL = jsonb_build_object('bulk_action', action_id);
    END IF;
    IF old.state NOT IN ('running', 'paused') THEN
        RAISE EXCEPTION 'bulk action % is %', action_id, old.state USING ERRCODE = 'RO005';
    END IF;
    UPDATE rota.bulk_actions b SET rate = throttle_bulk_action.rate, changed_at = rota.now(),
        next_at = clock_timestamp() WHERE b.id = action_id;
    PERFORM rota.write_audit(throttle_bulk_action.actor, 'bulk.throttled', 'bulk', action_id::text,
        jsonb_build_object('rate', old.rate), jsonb_build_object('rate', throttle_bulk_action.rate),
        throttle_bulk_action.reason, coalesce(old.filter ->> 'tenant', ''));
    PERFORM rota.call_workers('bulk');
END $$;

-- Ends a bulk action between two of its batches; what is done stays done.
-- Called by: operations/runs/bulk_actions.py, users.
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
-- Called by: operations/runs/views.py, users.
-- Locks: rows.
CREATE FUNCTION rota.save_run_view(name text, query text, reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    who text := rota.who(save_run_view.actor);
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
-- Called by: operations/runs/views.py, users.
CREATE FUNCTION rota.delete_run_view(name text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    old text;
BEGIN
    DELETE FROM rota.run_views v WHERE v.name = delete_run_view.name RETURNING v.query INTO old;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no view "%"', delete_run_view.name
            USING ERRCODE = 'RO014', DETAIL = jsonb_build_object('view', delete_run_view.name);
    END IF;
    PERFORM rota.write_audit(delete_run_view.actor, 'view.deleted', 'view', delete_run_view.name,
        jsonb_build_object('query', old), NULL, delete_run_view.reason);
END $$;
