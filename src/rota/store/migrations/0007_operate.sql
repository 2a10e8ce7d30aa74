-- What operators do to runs and queues. Each is one function for SQL, Python, CLI and API,
-- and each writes the audit. Errors: RO004 no such run, RO005 not in this state.

-- Cancels a waiting run at once ('cancelled'); asks the worker of a running one ('requested').
CREATE FUNCTION rota.cancel_run(run_id bigint, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS text
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
    SELECT r.state INTO answer FROM rota.ended_runs r WHERE r.id = cancel_run.run_id;
    IF answer IS NULL THEN
        RAISE EXCEPTION 'there is no run %', cancel_run.run_id USING ERRCODE = 'RO004';
    END IF;
    RAISE EXCEPTION 'run % has already ended (%)', cancel_run.run_id, answer
        USING ERRCODE = 'RO005', HINT = 'Only a run that has not ended can be cancelled.';
END $$;

-- The same run, under its id, once more: attempt numbers go on, the allowance rises by the
-- job's number, its key is taken again.
CREATE FUNCTION rota.retry_run(
    run_id bigint, payload jsonb DEFAULT NULL, delay interval DEFAULT NULL, reason text DEFAULT NULL, actor text DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    clock  timestamptz := rota.now();
    old    rota.ended_runs;
    extra  integer;
    holder bigint;
    open_state text;
    at     timestamptz := clock + coalesce(retry_run.delay, '0');
BEGIN
    DELETE FROM rota.ended_runs r WHERE r.id = retry_run.run_id AND r.state IN ('failed', 'cancelled') RETURNING r.* INTO old;
    IF NOT FOUND THEN
        SELECT r.state INTO open_state FROM rota.runs r WHERE r.id = retry_run.run_id;
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

-- A disabled job's runs wait, new ones too.
CREATE FUNCTION rota.set_job_enabled(job text, enabled boolean, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE rota.jobs j SET is_enabled = enabled, updated_at = rota.now() WHERE j.name = set_job_enabled.job AND j.is_enabled <> enabled;
    IF FOUND THEN
        PERFORM rota.write_audit(set_job_enabled.actor, CASE WHEN enabled THEN 'job.enabled' ELSE 'job.disabled' END, 'job', set_job_enabled.job,
            jsonb_build_object('is_enabled', NOT enabled), jsonb_build_object('is_enabled', enabled), set_job_enabled.reason);
        PERFORM rota.wake(ARRAY(SELECT DISTINCT j.queue FROM rota.jobs j WHERE j.name = set_job_enabled.job)) WHERE enabled;
    ELSIF NOT EXISTS (SELECT FROM rota.jobs j WHERE j.name = set_job_enabled.job) THEN
        PERFORM rota.unknown_job(set_job_enabled.job);
    END IF;
END $$;

CREATE FUNCTION rota.pause_queue(queue text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    who text := coalesce(pause_queue.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
BEGIN
    INSERT INTO rota.queues AS q (name, is_paused, paused_at, paused_by, pause_reason)
    VALUES (pause_queue.queue, true, rota.now(), who, pause_queue.reason)
    ON CONFLICT (name) DO UPDATE SET is_paused = true, paused_at = excluded.paused_at, paused_by = excluded.paused_by,
        pause_reason = excluded.pause_reason
    WHERE NOT q.is_paused;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'queue "%" is already paused', pause_queue.queue USING ERRCODE = 'RO005';
    END IF;
    PERFORM rota.write_audit(who, 'queue.paused', 'queue', pause_queue.queue, NULL, '{"is_paused": true}', pause_queue.reason);
END $$;

CREATE FUNCTION rota.resume_queue(queue text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE rota.queues SET is_paused = false, paused_at = NULL, paused_by = NULL, pause_reason = NULL
    WHERE name = resume_queue.queue AND is_paused;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'queue "%" is not paused', resume_queue.queue USING ERRCODE = 'RO005';
    END IF;
    PERFORM rota.write_audit(resume_queue.actor, 'queue.resumed', 'queue', resume_queue.queue, '{"is_paused": true}', '{"is_paused": false}', resume_queue.reason);
    PERFORM rota.wake(ARRAY[resume_queue.queue]);
END $$;
