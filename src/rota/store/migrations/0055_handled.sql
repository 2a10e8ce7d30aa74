-- Seen by somebody: a group of errors, or one run that failed. It counts for what happened up to then; what happens again afterwards is
-- news, without anything being written: so nothing that fails ever waits for a person's open transaction.

CREATE TABLE rota.handled_errors (
    error_group text COLLATE "C" PRIMARY KEY,
    handled_at  timestamptz NOT NULL,
    handled_by  text NOT NULL,
    reason      text
);
CREATE TABLE rota.handled_runs (
    run_id     bigint PRIMARY KEY,
    handled_at timestamptz NOT NULL,
    handled_by text NOT NULL,
    reason     text
);
CREATE INDEX handled_runs_at ON rota.handled_runs (handled_at);

CREATE VIEW rota.errors AS
SELECT g.id, g.error_type, g.error, g.file, g.line, g.function, g.is_system, g.first_seen_at, g.last_seen_at, g.failures, g.runs, g.last_run_id,
       CASE WHEN h.handled_at >= g.last_seen_at THEN 'handled'
            WHEN g.last_seen_at < n.now - interval '7 days' THEN 'quiet'
            WHEN h.handled_at IS NOT NULL OR g.returned_at > n.now - interval '7 days' THEN 'back'
            WHEN g.first_seen_at > n.now - interval '1 day' THEN 'new'
            ELSE 'known' END AS standing,
       g.returned_at, g.quiet_since, h.handled_at, h.handled_by, h.reason AS handled_reason
FROM rota.error_groups g CROSS JOIN (SELECT rota.now() AS now) n LEFT JOIN rota.handled_errors h ON h.error_group = g.id;
COMMENT ON VIEW rota.errors IS 'Failures grouped by type, place and message: how often, since when, and who has seen to them.';

-- Until it happens again.
CREATE FUNCTION rota.handle_error(error_group text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void LANGUAGE plpgsql VOLATILE
SET lock_timeout = '5s' SET jit = off AS $$
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
            USING ERRCODE = 'RO005', HINT = 'Reopen it first to say something else about it.';
    END IF;
    INSERT INTO rota.handled_errors AS h (error_group, handled_at, handled_by, reason) VALUES (seen.id, rota.now(), who, handle_error.reason)
    ON CONFLICT (error_group) DO UPDATE SET handled_at = excluded.handled_at, handled_by = excluded.handled_by, reason = excluded.reason;
    PERFORM rota.write_audit(who, 'error.handled', 'error', seen.id, jsonb_build_object('standing', seen.standing),
        jsonb_build_object('standing', 'handled', 'error_type', seen.error_type, 'failures', seen.failures), handle_error.reason);
END $$;

CREATE FUNCTION rota.reopen_error(error_group text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void LANGUAGE plpgsql VOLATILE
SET lock_timeout = '5s' SET jit = off AS $$
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
        jsonb_build_object('handled_by', old.handled_by, 'handled_at', old.handled_at, 'reason', old.reason), NULL, reopen_error.reason);
END $$;

-- Who has seen that a run failed: it itself, or all of its group up to then.
CREATE FUNCTION rota.handled(run_id bigint, error_group text, finished_at timestamptz)
RETURNS TABLE (handled_at timestamptz, handled_by text, reason text) LANGUAGE sql STABLE AS $$
    SELECT h.handled_at, h.handled_by, h.reason FROM (
        SELECT r.handled_at, r.handled_by, r.reason FROM rota.handled_runs r WHERE r.run_id = handled.run_id
        UNION ALL
        SELECT g.handled_at, g.handled_by, g.reason FROM rota.handled_errors g WHERE g.error_group = handled.error_group) h
    WHERE h.handled_at >= handled.finished_at ORDER BY h.handled_at LIMIT 1
$$;

-- Every final failure, whatever its end_reason.
CREATE OR REPLACE VIEW rota.dead_letters AS
SELECT e.id, e.job, e.queue, e.tenant, e.priority, e.payload, e.attempts_used, e.max_attempts, e.error_type, e.error, e.end_reason,
       coalesce(e.tags, '{}') AS tags, e.schedule, e.created_at, e.finished_at, e.error_group, h.handled_at, h.handled_by, h.reason AS handled_reason
FROM rota.ended_runs e LEFT JOIN LATERAL rota.handled(e.id, e.error_group, e.finished_at) h ON true WHERE e.state = 'failed';
COMMENT ON VIEW rota.dead_letters IS 'Runs that failed for good, until they are retried or retention takes them.';

CREATE FUNCTION rota.handle_run(run_id bigint, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void LANGUAGE plpgsql VOLATILE
SET lock_timeout = '5s' SET jit = off AS $$
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
        RAISE EXCEPTION 'run % is %', handle_run.run_id, place.state USING ERRCODE = 'RO005', HINT = 'Only a run that failed for good can be handled.';
    END IF;
    SELECT e.tenant, h.handled_by INTO old
    FROM rota.ended_runs e LEFT JOIN LATERAL rota.handled(e.id, e.error_group, e.finished_at) h ON true
    WHERE e.id = handle_run.run_id AND e.keep_class = place.keep_class AND e.finished_at = place.finished_at;
    IF old.handled_by IS NOT NULL THEN
        RAISE EXCEPTION 'run % was handled by %', handle_run.run_id, old.handled_by USING ERRCODE = 'RO005';
    END IF;
    INSERT INTO rota.handled_runs AS h (run_id, handled_at, handled_by, reason) VALUES (handle_run.run_id, rota.now(), who, handle_run.reason)
    ON CONFLICT (run_id) DO UPDATE SET handled_at = excluded.handled_at, handled_by = excluded.handled_by, reason = excluded.reason;
    PERFORM rota.write_audit(who, 'run.handled', 'run', handle_run.run_id::text, NULL, NULL, handle_run.reason, old.tenant);
END $$;

CREATE FUNCTION rota.reopen_run(run_id bigint, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void LANGUAGE plpgsql VOLATILE
SET lock_timeout = '5s' SET jit = off AS $$
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
        RAISE EXCEPTION 'run % is not handled', reopen_run.run_id USING ERRCODE = 'RO005', HINT = 'If its group of errors is, reopen that.';
    END IF;
    PERFORM rota.write_audit(reopen_run.actor, 'run.reopened', 'run', old.run_id::text,
        jsonb_build_object('handled_by', old.handled_by, 'handled_at', old.handled_at, 'reason', old.reason), NULL, reopen_run.reason,
        coalesce((SELECT e.tenant FROM rota.ended_runs e WHERE e.id = old.run_id AND e.finished_at = place.finished_at), ''));
END $$;

-- As before (0038), with what is kept about errors.
CREATE OR REPLACE FUNCTION rota.prune_rows(relation text, before_at timestamptz, max_rows integer) RETURNS integer LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    removed integer;
BEGIN
    CASE relation
    WHEN 'rollups' THEN
        DELETE FROM rota.rollup_minutes r WHERE r.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.rollup_minutes o WHERE o.minute < before_at ORDER BY o.minute LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'rollup_sums' THEN
        DELETE FROM rota.rollup_spans r WHERE r.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.rollup_spans o WHERE o.span <> 'ever' AND o.started_at < before_at LIMIT max_rows FOR UPDATE SKIP LOCKED));
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
    WHEN 'backfill_times' THEN
        DELETE FROM rota.backfill_times t WHERE (t.backfill_id, t.nominal_at) IN (
            SELECT o.backfill_id, o.nominal_at FROM rota.backfill_times o JOIN rota.old_backfills(before_at) b ON b = o.backfill_id
            LIMIT max_rows FOR UPDATE OF o SKIP LOCKED);
    WHEN 'backfills' THEN
        DELETE FROM rota.backfills b WHERE b.id IN (
            SELECT o FROM rota.old_backfills(before_at) o WHERE NOT EXISTS (SELECT FROM rota.backfill_times t WHERE t.backfill_id = o) LIMIT max_rows);
    WHEN 'schedules' THEN
        PERFORM rota.act_as('rota');
        DELETE FROM rota.schedules s WHERE s.id = ANY (ARRAY(
            SELECT o.id FROM rota.schedules o WHERE o.id IN (SELECT rota.old_schedules(before_at)) LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'init_runs' THEN
        DELETE FROM rota.init_runs i WHERE (i.schedule_id, i.marker) IN (
            SELECT o.schedule_id, o.marker FROM rota.init_runs o WHERE rota.is_old_init(o, before_at) LIMIT max_rows FOR UPDATE SKIP LOCKED);
    WHEN 'error_counts' THEN
        DELETE FROM rota.error_counts c WHERE c.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.error_counts o WHERE o.at < before_at ORDER BY o.at LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'error_groups' THEN
        RETURN rota.forget_errors(ARRAY(SELECT g.id FROM rota.error_groups g WHERE g.last_seen_at < before_at
                                        ORDER BY g.last_seen_at LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'handled_runs' THEN
        DELETE FROM rota.handled_runs h WHERE h.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.handled_runs o WHERE o.handled_at < before_at ORDER BY o.handled_at LIMIT max_rows FOR UPDATE SKIP LOCKED));
    END CASE;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;
