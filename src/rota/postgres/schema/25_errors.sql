-- `error_groups`: failures that are one and the same error, by type, place and pattern. Whoever ends an attempt
-- appends to `error_changes`; `fold_errors` counts behind. `handled` is what somebody has seen
-- to. Views: `errors`, `dead_letters`.

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

-- Failures that are not counted yet: appended by whoever ends an attempt. One that ends its run counts as such too.
CREATE TABLE rota.error_changes (
    error_group text COLLATE "C" NOT NULL,
    job         text COLLATE "C" NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    run_id      bigint NOT NULL,
    at          timestamptz NOT NULL,
    ended_as    text COLLATE "C",  -- NULL: its run goes on
    error_type  text NOT NULL,
    error       text NOT NULL,
    file        text,
    line        integer,
    function    text,
    id          bigint GENERATED ALWAYS AS IDENTITY (CACHE 50) PRIMARY KEY
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
-- Called by: note_end, requeue_runs, rescue_runs.
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

-- An error line for an attempt whose worker cannot write it any more. Nothing where its day has no partition: a line is
-- evidence, and must not keep a run from being taken back. Its number comes after all that the attempt may have written
-- itself.
-- Called by: note_end, rescue_runs, time_out_run.
CREATE FUNCTION rota.log_failure(run_id bigint, attempt integer, worker bigint, job text, tenant text, error_type text,
    error text)
RETURNS void LANGUAGE sql VOLATILE SET jit = off AS $$
    INSERT INTO rota.logs (at, run_id, worker, attempt, seq, level, job, tenant, message, fields)
    SELECT c.at, run_id, coalesce(worker, 0), attempt, 2147483647, 'error', job, tenant, error_type || ': ' || error,
           jsonb_build_object('error_type', error_type)
    FROM (SELECT rota.now() AS at) c WHERE to_regclass('rota.logs_' || to_char(c.at AT TIME ZONE 'UTC', 'YYYYMMDD'))
        IS NOT NULL
$$;

-- Adds what has happened to the groups. Nobody else writes them: what people say about a group is in a table of its
-- own.
-- Called by: handle_error, postgres/runs/error_groups.py, postgres/runs/lists.py, postgres/upkeep.py.
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
            count(*) FILTER (WHERE g.ended_as = 'failed')
        FROM gone g GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
        ON CONFLICT (error_group, at, job) DO UPDATE SET failures = c.failures + excluded.failures,
            runs = c.runs + excluded.runs
    ), ends AS (
        INSERT INTO rota.count_changes (name, labels, amount)
        SELECT 'runs_ended', jsonb_build_object('job', g.job, 'queue', g.queue, 'state', g.ended_as), count(*)
        FROM gone g WHERE g.ended_as IS NOT NULL GROUP BY g.job, g.queue, g.ended_as
    ), last AS (
        SELECT DISTINCT ON (g.error_group) g.* FROM gone g ORDER BY g.error_group, g.at DESC, g.run_id DESC
    ), summed AS (
        SELECT g.error_group, min(g.at) AS first_at, count(*) AS failures,
            count(*) FILTER (WHERE g.ended_as = 'failed') AS runs
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
-- Called by: postgres/upkeep.py.
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
    DELETE FROM rota.handled h WHERE h.kind = 'error' AND h.id = ANY (ids);
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

-- What somebody has seen to: error groups until they happen again, and failed runs.
CREATE TABLE rota.handled (
    kind       text COLLATE "C" NOT NULL CHECK (kind IN ('error', 'run')),
    id         text COLLATE "C" NOT NULL,  -- of the group, or of the run
    handled_at timestamptz NOT NULL,
    handled_by text NOT NULL,
    reason     text,
    PRIMARY KEY (kind, id)
);
CREATE INDEX handled_runs_at ON rota.handled (handled_at) WHERE kind = 'run';

-- Notes who has seen to something; what was noted before is replaced.
-- Called by: handle_error, handle_run.
CREATE FUNCTION rota.note_handled(of_kind text, of_id text, who text, why text) RETURNS void
LANGUAGE sql VOLATILE SET jit = off AS $$
    INSERT INTO rota.handled (kind, id, handled_at, handled_by, reason) VALUES (of_kind, of_id, rota.now(), who, why)
    ON CONFLICT (kind, id) DO UPDATE SET handled_at = excluded.handled_at, handled_by = excluded.handled_by,
        reason = excluded.reason
$$;

-- Marks an error group as handled, until it happens again.
-- Called by: operations/runs/error_groups.py, users.
CREATE FUNCTION rota.handle_error(error_group text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET lock_timeout = '5s' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    who  text := rota.who(handle_error.actor);
    seen record;
BEGIN
    PERFORM rota.fold_errors();
    SELECT e.* INTO seen FROM rota.errors e WHERE e.id = handle_error.error_group;
    IF seen.id IS NULL THEN
        RAISE EXCEPTION 'there is no error group %', handle_error.error_group
            USING ERRCODE = 'RO012', DETAIL = jsonb_build_object('error_group', handle_error.error_group);
    ELSIF seen.standing = 'handled' THEN
        RAISE EXCEPTION 'error group % has not happened since % handled it', seen.id, seen.handled_by
            USING ERRCODE = 'RO005', HINT = 'To change the note, reopen it first.';
    END IF;
    PERFORM rota.note_handled('error', seen.id, who, handle_error.reason);
    PERFORM rota.write_audit(who, 'error.handled', 'error', seen.id, jsonb_build_object('standing', seen.standing),
        jsonb_build_object('standing', 'handled', 'error_type', seen.error_type, 'failures', seen.failures),
        handle_error.reason);
END $$;

-- A failed run is marked as handled: somebody has looked, and it needs no attention any more. It stays failed.
-- Called by: operations/runs/runs.py, users.
CREATE FUNCTION rota.handle_run(run_id bigint, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET lock_timeout = '5s' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    who   text := rota.who(handle_run.actor);
    place record := rota.find_run(handle_run.run_id);
    old   record;
BEGIN
    IF place.state IS NULL THEN
        RAISE EXCEPTION 'there is no run %', handle_run.run_id
            USING ERRCODE = 'RO004', DETAIL = jsonb_build_object('run', handle_run.run_id);
    ELSIF place.state <> 'failed' THEN
        RAISE EXCEPTION 'run % is %', handle_run.run_id, place.state
            USING ERRCODE = 'RO005', HINT = 'Only a run that failed permanently can be handled.';
    END IF;
    SELECT e.tenant, h.handled_by INTO old
    FROM rota.ended_runs e LEFT JOIN LATERAL rota.handling_of(e.id, e.error_group, e.finished_at) h ON true
    WHERE e.id = handle_run.run_id AND e.keep_class = place.keep_class AND e.finished_at = place.finished_at;
    IF old.handled_by IS NOT NULL THEN
        RAISE EXCEPTION 'run % was already handled by %', handle_run.run_id, old.handled_by USING ERRCODE = 'RO005';
    END IF;
    PERFORM rota.note_handled('run', handle_run.run_id::text, who, handle_run.reason);
    PERFORM rota.write_audit(who, 'run.handled', 'run', handle_run.run_id::text, NULL, NULL, handle_run.reason,
        old.tenant);
END $$;

-- Who has seen to a failed run: the run itself is handled, or its group up to then.
-- Called by: dead_letters, handle_run, sql/runs/fitting.sql, sql/runs/handled.sql.
CREATE FUNCTION rota.handling_of(run_id bigint, error_group text, finished_at timestamptz)
RETURNS TABLE (handled_at timestamptz, handled_by text, reason text) LANGUAGE sql STABLE AS $$
    SELECT h.handled_at, h.handled_by, h.reason FROM rota.handled h
    WHERE (h.kind = 'run' AND h.id = handling_of.run_id::text OR h.kind = 'error' AND h.id = handling_of.error_group)
      AND h.handled_at >= handling_of.finished_at
    ORDER BY h.handled_at LIMIT 1
$$;

-- An error group that was marked as handled needs attention again.
-- Called by: operations/runs/error_groups.py, users.
CREATE FUNCTION rota.reopen_error(error_group text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET lock_timeout = '5s' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    old rota.handled;
BEGIN
    IF NOT EXISTS (SELECT FROM rota.error_groups g WHERE g.id = reopen_error.error_group) THEN
        RAISE EXCEPTION 'there is no error group %', reopen_error.error_group
            USING ERRCODE = 'RO012', DETAIL = jsonb_build_object('error_group', reopen_error.error_group);
    END IF;
    DELETE FROM rota.handled h WHERE h.kind = 'error' AND h.id = reopen_error.error_group RETURNING h.* INTO old;
    IF old.id IS NULL THEN
        RAISE EXCEPTION 'error group % is not handled', reopen_error.error_group USING ERRCODE = 'RO005';
    END IF;
    PERFORM rota.write_audit(reopen_error.actor, 'error.reopened', 'error', old.id,
        jsonb_build_object('handled_by', old.handled_by, 'handled_at', old.handled_at, 'reason', old.reason), NULL,
        reopen_error.reason);
END $$;

-- A failed run that was marked as handled needs attention again.
-- Called by: operations/runs/runs.py, users.
CREATE FUNCTION rota.reopen_run(run_id bigint, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET lock_timeout = '5s' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    place record := rota.find_run(reopen_run.run_id);
    old   rota.handled;
BEGIN
    IF place.state IS NULL THEN
        RAISE EXCEPTION 'there is no run %', reopen_run.run_id
            USING ERRCODE = 'RO004', DETAIL = jsonb_build_object('run', reopen_run.run_id);
    END IF;
    DELETE FROM rota.handled h WHERE h.kind = 'run' AND h.id = reopen_run.run_id::text RETURNING h.* INTO old;
    IF old.id IS NULL THEN
        RAISE EXCEPTION 'run % is not handled', reopen_run.run_id
            USING ERRCODE = 'RO005', HINT = 'If its error group is handled, reopen the group.';
    END IF;
    PERFORM rota.write_audit(reopen_run.actor, 'run.reopened', 'run', old.id,
        jsonb_build_object('handled_by', old.handled_by, 'handled_at', old.handled_at, 'reason', old.reason), NULL,
        reopen_run.reason, coalesce((SELECT e.tenant FROM rota.ended_runs e
            WHERE e.id = reopen_run.run_id AND e.finished_at = place.finished_at), ''));
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
FROM rota.error_groups g CROSS JOIN (SELECT rota.now() AS now OFFSET 0) n LEFT JOIN rota.handled h
    ON h.kind = 'error' AND h.id = g.id;
COMMENT ON VIEW rota.errors
    IS 'Failures grouped by type, place and message: how often, since when, and who handled them.';

-- Every final failure, whatever its end_reason.
CREATE VIEW rota.dead_letters AS
SELECT e.id, e.job, e.queue, e.tenant, e.priority,
       coalesce(e.payload, rota.large_payload(e.id)) AS payload, e.attempts_used, e.max_attempts, e.error_type, e.error,
       e.end_reason, coalesce(e.tags, '{}') AS tags, e.schedule, e.created_at, e.finished_at, e.error_group,
       h.handled_at, h.handled_by, h.reason AS handled_reason
FROM rota.ended_runs e LEFT JOIN LATERAL rota.handling_of(e.id, e.error_group, e.finished_at) h ON true
WHERE e.state = 'failed';
COMMENT ON VIEW rota.dead_letters IS 'Runs that failed permanently, until they are retried or removed by retention.';
