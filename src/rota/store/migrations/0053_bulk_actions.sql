-- An action on all runs of a filter, as an object of its own. Workers carry it out in small batches: a batch and what it did to the
-- counts and the place are one transaction, so whoever takes over after a crash begins where the last batch ended.
CREATE TABLE rota.bulk_actions (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    verb          text NOT NULL CHECK (verb IN ('retry', 'cancel', 'delete')),
    filter        jsonb NOT NULL CHECK (jsonb_typeof(filter) = 'object' AND filter <> '{}'),
    payload       jsonb CHECK (payload IS NULL OR (verb = 'retry' AND jsonb_typeof(payload) = 'object')),
    delay_seconds double precision CHECK (delay_seconds IS NULL OR (verb = 'retry' AND delay_seconds BETWEEN 0 AND 3153600000)),
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
COMMENT ON TABLE rota.bulk_actions IS 'Actions on all runs of a filter: what is done, to how many so far, by whom and why.';

CREATE FUNCTION rota.start_bulk_action(
    verb text, filter jsonb, payload jsonb DEFAULT NULL, delay_seconds double precision DEFAULT NULL, most bigint DEFAULT NULL,
    rate double precision DEFAULT NULL, reason text DEFAULT NULL, actor text DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    who  text := coalesce(start_bulk_action.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    -- No run that comes later is touched.
    high bigint := (SELECT s.last_value + 1 FROM rota.run_ids s);
    made bigint;
BEGIN
    INSERT INTO rota.bulk_actions (verb, filter, payload, delay_seconds, most, rate, actor, reason, below_id, counted_below, created_at, changed_at)
    VALUES (start_bulk_action.verb, start_bulk_action.filter, start_bulk_action.payload, start_bulk_action.delay_seconds, start_bulk_action.most,
            start_bulk_action.rate, who, start_bulk_action.reason, high, high, rota.now(), rota.now())
    RETURNING id INTO made;
    PERFORM rota.write_audit(who, 'bulk.started', 'bulk', made::text, NULL, jsonb_strip_nulls(jsonb_build_object(
        'verb', start_bulk_action.verb, 'filter', start_bulk_action.filter, 'most', start_bulk_action.most, 'rate', start_bulk_action.rate)),
        start_bulk_action.reason);
    PERFORM pg_notify('rota', 'bulk');
    RETURN made;
END $$;

-- What one action may become from which state; waits for the batch that is under way.
CREATE FUNCTION rota.move_bulk_action(action_id bigint, wanted text, fitting text[], word text, reason text, actor text) RETURNS void
LANGUAGE plpgsql VOLATILE SET lock_timeout = '10s' SET jit = off AS $$
DECLARE
    old rota.bulk_actions;
BEGIN
    SELECT * INTO old FROM rota.bulk_actions b WHERE b.id = action_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no bulk action %', action_id USING ERRCODE = 'RO011';
    END IF;
    IF old.state <> ALL (fitting) THEN
        RAISE EXCEPTION 'bulk action % is %', action_id, old.state USING ERRCODE = 'RO005';
    END IF;
    UPDATE rota.bulk_actions b SET state = wanted, changed_at = rota.now(), next_at = clock_timestamp(), error = NULL,
        finished_at = CASE WHEN wanted = 'stopped' THEN rota.now() END
    WHERE b.id = action_id;
    PERFORM rota.write_audit(actor, 'bulk.' || word, 'bulk', action_id::text, jsonb_build_object('state', old.state),
        jsonb_build_object('state', wanted, 'verb', old.verb, 'done', old.done, 'skipped', old.skipped, 'failed', old.failed), reason);
    PERFORM pg_notify('rota', 'bulk');
END $$;

CREATE FUNCTION rota.pause_bulk_action(action_id bigint, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE sql VOLATILE SET jit = off AS $$
    SELECT rota.move_bulk_action(action_id, 'paused', ARRAY['running'], 'paused', reason, actor)
$$;
CREATE FUNCTION rota.resume_bulk_action(action_id bigint, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE sql VOLATILE SET jit = off AS $$
    SELECT rota.move_bulk_action(action_id, 'running', ARRAY['paused'], 'resumed', reason, actor)
$$;
CREATE FUNCTION rota.stop_bulk_action(action_id bigint, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE sql VOLATILE SET jit = off AS $$
    SELECT rota.move_bulk_action(action_id, 'stopped', ARRAY['running', 'paused'], 'stopped', reason, actor)
$$;

CREATE FUNCTION rota.throttle_bulk_action(action_id bigint, rate double precision, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET lock_timeout = '10s' SET jit = off AS $$
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
    UPDATE rota.bulk_actions b SET rate = throttle_bulk_action.rate, changed_at = rota.now(), next_at = clock_timestamp() WHERE b.id = action_id;
    PERFORM rota.write_audit(throttle_bulk_action.actor, 'bulk.throttled', 'bulk', action_id::text, jsonb_build_object('rate', old.rate),
        jsonb_build_object('rate', throttle_bulk_action.rate), throttle_bulk_action.reason);
    PERFORM pg_notify('rota', 'bulk');
END $$;

-- After a batch, in its transaction, by whoever has locked the row. The last one writes to the audit what came of it.
CREATE FUNCTION rota.advance_bulk_action(
    action_id bigint, below_id bigint, done integer, skipped integer, failed integer, held bigint[], held_tries integer, problems jsonb,
    counted bigint, counted_below bigint, is_over boolean, pause_seconds double precision
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

-- As before (0046), and says by which code a run was refused.
DROP FUNCTION rota.act_on_runs(text, bigint[], jsonb, interval, text, text);
CREATE FUNCTION rota.act_on_runs(
    action text, ids bigint[], payload jsonb DEFAULT NULL, delay interval DEFAULT NULL, reason text DEFAULT NULL, actor text DEFAULT NULL
) RETURNS TABLE (run_id bigint, answer text, refusal text, code text) LANGUAGE plpgsql VOLATILE SET lock_timeout = '2s' SET jit = off AS $$
#variable_conflict use_variable
BEGIN
    -- In one order, so that two who act on the same runs do not wait for each other.
    FOR run_id IN SELECT DISTINCT one FROM unnest(ids) AS one ORDER BY one LOOP
        answer := NULL;
        refusal := NULL;
        code := NULL;
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
