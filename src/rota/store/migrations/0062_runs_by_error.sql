-- Runs that wait after a failure, for whoever looks for words in their errors: among a million that have none.
CREATE INDEX open_runs_with_error ON rota.open_runs (id) WHERE error_group IS NOT NULL;

-- As before (0029); its last error keeps its group.
CREATE OR REPLACE FUNCTION rota.retry_run(
    run_id bigint, payload jsonb DEFAULT NULL, delay interval DEFAULT NULL, reason text DEFAULT NULL, actor text DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock  timestamptz := rota.now();
    old    rota.ended_runs;
    place  record;
    extra  integer;
    holder bigint;
    open_state text;
    at     timestamptz;
BEGIN
    PERFORM rota.settle_expired(retry_run.run_id);
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
    PERFORM rota.check_options(old.job, coalesce(retry_run.payload, '{}'), s.payload_bytes, NULL, NULL, NULL, NULL, NULL, NULL,
        delay => retry_run.delay) FROM rota.settings s;
    at := clock + coalesce(retry_run.delay, '0');
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
        schedule, scheduled_for, schedule_id, last_error, error_group)
    VALUES (old.id, nextval('rota.run_ids'), old.created_at, clock_timestamp(), at, CASE WHEN at > clock THEN 'scheduled' ELSE 'queued' END,
        old.queue, old.job, old.tenant, coalesce(retry_run.payload, old.payload), old.priority, old.attempt,
        old.attempts_used, least(greatest(old.max_attempts, old.attempts_used + extra), 32767), NULL, old.timeout_seconds, old.key, old.key_seconds, old.backoff,
        old.tags, old.metadata, old.triggered_by, old.schedule, old.scheduled_for, old.schedule_id, old.error, old.error_group);
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
