-- Failures by kind. Each failure gets the id of its group, a hash of what it is and where it happened, so that nothing has to be looked
-- up when it is written; what happened is appended, and upkeep folds it into the groups (as count_changes). Success pays nothing.

ALTER TABLE rota.ended_runs ADD COLUMN error_group text COLLATE "C";
ALTER TABLE rota.open_runs ADD COLUMN error_group text COLLATE "C";    -- of last_error
CREATE INDEX ended_runs_error_group ON rota.ended_runs (error_group, id) WHERE error_group IS NOT NULL;
CREATE INDEX ended_runs_failed ON rota.ended_runs (id) WHERE state = 'failed';
CREATE INDEX open_runs_error_group ON rota.open_runs (error_group, id) WHERE error_group IS NOT NULL;

CREATE TABLE rota.error_changes (
    error_group text COLLATE "C" NOT NULL,
    job         text COLLATE "C" NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    run_id      bigint NOT NULL,
    at          timestamptz NOT NULL,
    is_end      boolean NOT NULL,               -- its run ended as failed
    error_type  text NOT NULL,
    error       text NOT NULL,
    file        text,
    line        integer,
    function    text
);

CREATE TABLE rota.error_groups (
    id            text COLLATE "C" PRIMARY KEY,
    error_type    text NOT NULL,
    error         text NOT NULL,                -- the last one
    file          text,                         -- where in the application's own code, the last two parts of its path; NULL: nowhere
    line          integer,                      -- of the last one
    function      text,
    is_system     boolean NOT NULL,
    first_seen_at timestamptz NOT NULL,
    last_seen_at  timestamptz NOT NULL,
    failures      bigint NOT NULL,
    runs          bigint NOT NULL,              -- that ended as failed
    last_run_id   bigint NOT NULL,
    returned_at   timestamptz,                  -- when it last happened again after a week without
    quiet_since   timestamptz                   -- when it had happened before that
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
INSERT INTO rota.locks (name) VALUES ('errors');

-- What stays of a message when ids, numbers and what stands in quotes are taken out of its first line.
CREATE FUNCTION rota.error_pattern(error text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT left(regexp_replace(regexp_replace(left(split_part(error, E'\n', 1), 500),
        $q$"[^"]*"|'[^']*'|`[^`]*`|“[^”]*”$q$, '…', 'g'), '\S*(?:\d|@)\S*', '…', 'g'), 200)
$$;

-- Where in the application's own code it was raised: the innermost frame that is no library's and not Rota's, else the innermost. A path
-- differs with the machine and the release: its last two parts do not.
CREATE FUNCTION rota.error_place(traceback text, OUT file text, OUT line integer, OUT function text) LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET jit = off AS $$
    SELECT substring(f.m[1] FROM '[^/\\]*[/\\]?[^/\\]*$'), f.m[2]::integer, left(f.m[3], 200)
    FROM regexp_matches(right(traceback, 8000), '^[ |]*File "([^"\n]+)", line (\d{1,9}), in ([^\n]+)', 'gn') WITH ORDINALITY AS f (m, n)
    ORDER BY f.m[1] ~ 'site-packages|dist-packages|/lib/python\d|/rota/(?:runtime|executors|jobs|store)/|^<', f.n DESC
    LIMIT 1
$$;

-- The group of a failure. Where no code of the application is known to be at fault, its job stands for the place; of a lost worker the
-- message is about that worker.
CREATE FUNCTION rota.group_error(
    job text, error_type text, error text, traceback text, OUT id text, OUT file text, OUT line integer, OUT function text
) LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET jit = off AS $$
BEGIN
    IF error_type IS NULL THEN
        RETURN;
    END IF;
    IF traceback IS NOT NULL THEN
        SELECT p.file, p.line, p.function INTO group_error.file, group_error.line, group_error.function FROM rota.error_place(traceback) p;
    END IF;
    id := left(encode(sha256(convert_to(concat_ws(E'\n', error_type, coalesce(file || ' ' || function, 'job ' || job),
        CASE WHEN error_type NOT IN ('WorkerLost', 'SharedLoss') THEN rota.error_pattern(error) END), 'UTF8')), 'hex'), 12);
END $$;

CREATE FUNCTION rota.note_ended_error() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found record := rota.group_error(NEW.job, NEW.error_type, NEW.error, NEW.traceback);
BEGIN
    NEW.error_group := found.id;
    INSERT INTO rota.error_changes (error_group, job, queue, run_id, at, is_end, error_type, error, file, line, function)
    VALUES (found.id, NEW.job, NEW.queue, NEW.id, NEW.finished_at, NEW.state = 'failed', left(NEW.error_type, 200),
            left(coalesce(NEW.error, ''), 1000), found.file, found.line, found.function);
    RETURN NEW;
END $$;
CREATE TRIGGER ended_runs_error BEFORE INSERT ON rota.ended_runs FOR EACH ROW WHEN (NEW.error_type IS NOT NULL)
EXECUTE FUNCTION rota.note_ended_error();

-- An error line for an attempt whose worker cannot write it any more. Nothing where its day has no partition: a line is evidence, and
-- must not keep a run from being taken back. Its number comes after all that the attempt may have written itself.
CREATE FUNCTION rota.log_failure(run_id bigint, attempt integer, worker bigint, job text, tenant text, error_type text, error text)
RETURNS void LANGUAGE sql VOLATILE SET jit = off AS $$
    INSERT INTO rota.logs (at, run_id, worker, attempt, seq, level, job, tenant, message, fields)
    SELECT c.at, run_id, coalesce(worker, 0), attempt, 2147483647, 'error', job, tenant, error_type || ': ' || error,
           jsonb_build_object('error_type', error_type)
    FROM (SELECT rota.now() AS at) c WHERE to_regclass('rota.logs_' || to_char(c.at AT TIME ZONE 'UTC', 'YYYYMMDD')) IS NOT NULL
$$;

-- A run that failed without an attempt: of a job that nobody knows.
CREATE FUNCTION rota.log_failed_run() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    PERFORM rota.log_failure(NEW.id, NEW.attempt, NEW.worker, NEW.job, NEW.tenant, NEW.error_type, coalesce(NEW.error, ''));
    RETURN NULL;
END $$;
CREATE TRIGGER ended_runs_zlog AFTER INSERT ON rota.ended_runs FOR EACH ROW
WHEN (NEW.state = 'failed' AND NEW.attempt_state IS NULL AND NEW.error_type IS NOT NULL) EXECUTE FUNCTION rota.log_failed_run();

-- As before (0033), and the error of an attempt that is not the last gets its group.
CREATE OR REPLACE FUNCTION rota.requeue_runs(
    for_worker bigint, ids bigint[], attempts integer[], durations_ms real[],
    attempt_states text[], delays double precision[], spent boolean[],
    messages text[] DEFAULT NULL, error_types text[] DEFAULT NULL, errors text[] DEFAULT NULL, tracebacks text[] DEFAULT NULL,
    details jsonb[] DEFAULT NULL
) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET lock_timeout = '100ms' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    done    bigint[];
    touched text[];
    soonest timestamptz;
BEGIN
    WITH input AS MATERIALIZED (
        SELECT f.* FROM unnest(ids, attempts, durations_ms, attempt_states, delays, spent, messages, error_types, errors, tracebacks, details)
            AS f (id, attempt, duration_ms, state, delay, is_spent, message, error_type, error, traceback, detail)
        WHERE NOT EXISTS (SELECT FROM rota.cancel_requests c WHERE c.run_id = f.id AND c.attempt = f.attempt)
    ), owned AS MATERIALIZED (
        SELECT f.*, o.started_at, o.is_suspect, o.job, o.queue, o.tenant FROM input f JOIN rota.open_runs o
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
            held_by = CASE WHEN w.state = 'lost' OR w.state = 'cancelled' AND w.is_suspect AND rota.is_isolated(o) THEN 'suspect' END,
            attempts_used = o.attempts_used + w.is_spent::integer, last_error = coalesce(w.error, o.last_error),
            error_group = coalesce(w.error_group, o.error_group), message = coalesce(w.message, o.message), progress = NULL
        FROM was w WHERE o.id = ANY (ARRAY[w.id])
        RETURNING o.id, o.queue, o.state, o.run_at
    ), recorded AS (
        INSERT INTO rota.past_attempts (run_id, attempt, state, worker, started_at, finished_at, duration_ms, is_redelivery,
            is_spent, job, tenant, message, error_type, error, traceback, details)
        SELECT w.id, w.attempt, w.state, for_worker, greatest(w.started_at, clock - w.duration_ms * interval '1 millisecond'), clock,
            w.duration_ms, w.is_suspect, w.is_spent, w.job, w.tenant, w.message, w.error_type, w.error, w.traceback, w.detail
        FROM was w JOIN again a ON a.id = w.id
    ), noted AS (
        INSERT INTO rota.error_changes (error_group, job, queue, run_id, at, is_end, error_type, error, file, line, function)
        SELECT w.error_group, w.job, w.queue, w.id, clock, false, left(w.error_type, 200), left(coalesce(w.error, ''), 1000), w.file, w.line, w.function
        FROM was w JOIN again a ON a.id = w.id WHERE w.error_group IS NOT NULL
    )
    SELECT array_agg(id), array_agg(DISTINCT queue) FILTER (WHERE state = 'queued'), min(run_at) FILTER (WHERE state = 'scheduled')
    INTO done, touched, soonest FROM again;
    PERFORM rota.wake(coalesce(touched, '{}'));
    PERFORM rota.wake_later(soonest - clock) WHERE soonest IS NOT NULL;
    RETURN QUERY SELECT unnest(done);

    RETURN QUERY
    SELECT e.* FROM (
        SELECT array_agg(f.id) AS ids, array_agg(f.attempt) AS attempts, array_agg(f.duration_ms) AS durations,
               array_agg('cancelled'::text) AS states, array_agg(f.state) AS attempt_states,
               array_agg('cancelled by ' || c.requested_by || coalesce(': ' || c.reason, '')) AS reasons,
               array_agg(f.message) AS messages, array_agg(f.error_type) AS error_types, array_agg(f.error) AS errors, array_agg(f.traceback) AS tracebacks,
               array_agg(f.detail) AS details
        FROM unnest(ids, attempts, durations_ms, attempt_states, messages, error_types, errors, tracebacks, details)
                AS f (id, attempt, duration_ms, state, message, error_type, error, traceback, detail)
        JOIN rota.cancel_requests c ON c.run_id = f.id AND c.attempt = f.attempt
    ) b, rota.finish_runs(for_worker, b.ids, b.attempts, b.durations, NULL, b.states,
                          (SELECT array_agg(CASE s WHEN 'snoozed' THEN 'cancelled' ELSE s END) FROM unnest(b.attempt_states) s),
                          b.reasons, b.messages, b.error_types, b.errors, b.tracebacks, b.details) AS e
    WHERE b.ids IS NOT NULL;
END $$;

-- As before (0033, 0043, 0045); a lost attempt leaves a line, and is counted in its group.
CREATE OR REPLACE FUNCTION rota.rescue_runs(max_runs integer, everywhere boolean DEFAULT false)
RETURNS TABLE (run_id bigint, attempt integer, worker bigint, decision text) LANGUAGE plpgsql VOLATILE
SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET enable_seqscan = off SET lock_timeout = '5s' SET jit = off AS $$
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
    WHERE to_regclass('rota.ended_runs_standard_' || to_char(date_trunc('week', clock AT TIME ZONE 'UTC'), 'YYYYMMDD')) IS NULL;
    FOR lost IN
        SELECT o.*, l.worker_name, l.is_shared, l.is_harmless,
               CASE WHEN c.run_id IS NOT NULL THEN 'cancelled'
                    WHEN NOT l.is_started THEN 'handed back'
                    WHEN l.is_freed AND (o.max_attempts > 1 OR o.claim_batch IS NOT NULL) THEN 'freed'
                    WHEN o.attempts_used + 1 < o.max_attempts THEN 'requeued'
                    WHEN (o.claim_batch IS NOT NULL OR l.is_shared AND o.max_attempts > 1) AND l.doubts < 3 THEN 'suspected'
                    ELSE 'failed' END AS decision,
               'cancelled by ' || c.requested_by || coalesce(': ' || c.reason, '') AS cancel_reason
        FROM rota.lost_runs(max_runs, everywhere) AS l
        JOIN rota.open_runs o ON o.id = l.id AND o.attempt = l.attempt
        LEFT JOIN rota.cancel_requests c ON c.run_id = o.id AND c.attempt = o.attempt
        WHERE o.state = 'running' AND NOT EXISTS (SELECT FROM rota.workers v WHERE v.id = o.worker AND v.state IN ('live', 'stopping'))
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
            INSERT INTO rota.past_attempts (run_id, attempt, state, worker, started_at, finished_at, is_redelivery, is_spent, job, tenant, error_type, error)
            VALUES (lost.id, lost.attempt, 'lost', lost.worker, lost.started_at, clock, lost.is_suspect, lost.decision = 'requeued', lost.job, lost.tenant,
                    kind, why);
            place := rota.group_error(lost.job, kind, why, NULL);
            INSERT INTO rota.error_changes (error_group, job, queue, run_id, at, is_end, error_type, error)
            VALUES (place.id, lost.job, lost.queue, lost.id, clock, false, kind, why);
            UPDATE rota.open_runs o
            SET state = 'queued', worker = NULL, started_at = NULL, claim_batch = NULL, enqueued_at = clock_timestamp(), progress = NULL,
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

-- Adds what has happened to the groups. Nobody else writes them: what people say about a group is in a table of its own.
CREATE FUNCTION rota.fold_errors(max_changes integer DEFAULT 50000) RETURNS integer LANGUAGE plpgsql VOLATILE SET lock_timeout = '5s' SET jit = off AS $$
DECLARE
    folded integer;
BEGIN
    IF NOT EXISTS (SELECT FROM rota.error_changes) OR NOT rota.try_lock('errors') THEN
        RETURN 0;
    END IF;
    WITH gone AS MATERIALIZED (
        DELETE FROM rota.error_changes d WHERE d.ctid = ANY (ARRAY(SELECT c.ctid FROM rota.error_changes c LIMIT max_changes))
        RETURNING d.*
    ), counted AS (
        INSERT INTO rota.error_counts AS c (error_group, at, job, failures, runs)
        SELECT g.error_group, date_bin('10 minutes', g.at, '2001-01-01 00:00Z'), g.job, count(*), count(*) FILTER (WHERE g.is_end)
        FROM gone g GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
        ON CONFLICT (error_group, at, job) DO UPDATE SET failures = c.failures + excluded.failures, runs = c.runs + excluded.runs
    ), last AS (
        SELECT DISTINCT ON (g.error_group) g.* FROM gone g ORDER BY g.error_group, g.at DESC, g.run_id DESC
    ), summed AS (
        SELECT g.error_group, min(g.at) AS first_at, count(*) AS failures, count(*) FILTER (WHERE g.is_end) AS runs FROM gone g GROUP BY 1
    ), grouped AS (
        INSERT INTO rota.error_groups AS e (id, error_type, error, file, line, function, is_system, first_seen_at, last_seen_at, failures, runs, last_run_id)
        SELECT l.error_group, l.error_type, l.error, l.file, l.line, l.function, l.queue = 'rota' || '.system', s.first_at, l.at, s.failures, s.runs, l.run_id
        FROM last l JOIN summed s ON s.error_group = l.error_group ORDER BY 1
        ON CONFLICT (id) DO UPDATE SET
            error = excluded.error, line = excluded.line, last_run_id = excluded.last_run_id,
            first_seen_at = least(e.first_seen_at, excluded.first_seen_at), last_seen_at = greatest(e.last_seen_at, excluded.last_seen_at),
            failures = e.failures + excluded.failures, runs = e.runs + excluded.runs,
            returned_at = CASE WHEN excluded.first_seen_at > e.last_seen_at + interval '7 days' THEN excluded.first_seen_at ELSE e.returned_at END,
            quiet_since = CASE WHEN excluded.first_seen_at > e.last_seen_at + interval '7 days' THEN e.last_seen_at ELSE e.quiet_since END
    )
    SELECT count(*) INTO folded FROM gone;
    RETURN folded;
END $$;

-- Counts that are older than two days, by the hour; and no more groups than somebody could look at: messages may differ without end.
CREATE FUNCTION rota.tidy_errors(most_groups integer DEFAULT 10000) RETURNS void LANGUAGE plpgsql VOLATILE SET lock_timeout = '5s' SET jit = off AS $$
BEGIN
    IF NOT rota.try_lock('errors') THEN
        RETURN;
    END IF;
    WITH fine AS (
        DELETE FROM rota.error_counts c
        WHERE c.at < date_bin('1 hour', rota.now(), '2001-01-01 00:00Z') - interval '2 days' AND c.at > rota.now() - interval '14 days'
          AND c.at <> date_bin('1 hour', c.at, '2001-01-01 00:00Z')
        RETURNING c.*
    )
    INSERT INTO rota.error_counts AS c (error_group, at, job, failures, runs)
    SELECT f.error_group, date_bin('1 hour', f.at, '2001-01-01 00:00Z'), f.job, sum(f.failures), sum(f.runs) FROM fine f GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (error_group, at, job) DO UPDATE SET failures = c.failures + excluded.failures, runs = c.runs + excluded.runs;
    PERFORM rota.forget_errors(ARRAY(SELECT g.id FROM rota.error_groups g ORDER BY g.last_seen_at DESC OFFSET most_groups));
END $$;

-- Groups with all that is kept about them.
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

-- As before (0040), with the group of the last error.
CREATE OR REPLACE VIEW rota.run_rows AS
SELECT id, job, queue, CASE WHEN expires_at IS NULL OR expires_at > (SELECT rota.now()) OR (state = 'running' AND started_at < expires_at) THEN state ELSE 'cancelled' END AS state,
       priority, payload, run_at, attempt, max_attempts, key, tenant,
       coalesce(tags, '{}') AS tags, coalesce(metadata, '{}') AS metadata, schedule, scheduled_for,
       coalesce(triggered_by, '{"type": "code"}') AS triggered_by, worker, last_error, message,
       NULL::jsonb AS result, created_at, started_at,
       CASE WHEN expires_at IS NULL OR expires_at > (SELECT rota.now()) OR (state = 'running' AND started_at < expires_at) THEN NULL ELSE greatest(expires_at, created_at) END AS finished_at,
       NULL::real AS duration_ms, expires_at, CASE WHEN expires_at IS NULL OR expires_at > (SELECT rota.now()) OR (state = 'running' AND started_at < expires_at) THEN NULL ELSE 'expired' END AS end_reason,
       attempts_used, progress, CASE WHEN expires_at IS NULL OR expires_at > (SELECT rota.now()) OR (state = 'running' AND started_at < expires_at) THEN held_by END AS held_by, CASE WHEN expires_at IS NULL OR expires_at > (SELECT rota.now()) OR (state = 'running' AND started_at < expires_at) THEN enqueued_at END AS enqueued_at,
       false AS is_ended, error_group
FROM rota.open_runs
UNION ALL
SELECT id, job, queue, state, priority, payload, run_at, attempt, max_attempts, key, tenant,
       coalesce(tags, '{}'), coalesce(metadata, '{}'), schedule, scheduled_for,
       coalesce(triggered_by, '{"type": "code"}'), worker, error, message,
       result, created_at, started_at, finished_at, duration_ms, expires_at, end_reason, attempts_used, progress, NULL, NULL, true, error_group
FROM rota.ended_runs;
CREATE OR REPLACE VIEW rota.runs AS
SELECT id, job, queue, state, priority, payload, run_at, attempt, max_attempts, key, tenant, tags, metadata, schedule, scheduled_for,
       triggered_by, worker, last_error, message, result, created_at, started_at, finished_at, duration_ms, expires_at, end_reason,
       attempts_used, progress, held_by, enqueued_at, error_group
FROM rota.run_rows;
