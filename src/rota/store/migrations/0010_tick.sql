-- The tick: what is due is taken, decided in Python, and written by compare-and-set.

-- The tick, first half: takes what is due, marked for a moment so that nobody else decides it too.
-- Nothing stays locked while Python decides.
CREATE FUNCTION rota.take_due_schedules(max_schedules integer, hold_seconds double precision)
RETURNS TABLE (schedule json, clock timestamptz, unfinished integer, is_job_enabled boolean, calendar_definition jsonb)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    at timestamptz := rota.now();
BEGIN
    RETURN QUERY
    WITH due AS MATERIALIZED (
        SELECT s.id FROM rota.schedules s
        WHERE s.is_ticking AND s.init IS NULL AND s.due_at <= at
          AND (s.ticking_until IS NULL OR s.ticking_until <= clock_timestamp())
        ORDER BY s.due_at LIMIT max_schedules FOR UPDATE SKIP LOCKED
    ), taken AS (
        UPDATE rota.schedules s SET ticking_until = clock_timestamp() + make_interval(secs => hold_seconds)
        WHERE s.id = ANY (ARRAY(SELECT id FROM due))
        RETURNING s.*
    )
    SELECT to_json(t), at,
           (SELECT count(*)::integer FROM rota.open_runs o WHERE o.schedule_id = t.id),
           coalesce((SELECT j.is_enabled AND j.deleted_from_code_at IS NULL FROM rota.jobs j WHERE j.name = t.job), false),
           (SELECT c.definition FROM rota.calendars c WHERE c.name = t.calendar)
    FROM taken t;
END $$;

-- Seconds until there is something to do (NULL: never). What another ticker thinks about is left to it until
-- its time is over: asking again and again would not hurry it.
CREATE FUNCTION rota.next_schedule_seconds() RETURNS double precision LANGUAGE sql STABLE SET enable_seqscan = off AS $$
    SELECT greatest(extract(epoch FROM n.soonest), 0) FROM (SELECT least(
        (SELECT s.due_at - rota.now() FROM rota.schedules s
         WHERE s.is_ticking AND s.init IS NULL AND s.due_at < 'infinity'
           AND (s.ticking_until IS NULL OR s.ticking_until <= clock_timestamp())
         ORDER BY s.due_at LIMIT 1),
        (SELECT min(s.ticking_until) - clock_timestamp() FROM rota.schedules s
         WHERE s.is_ticking AND s.init IS NULL AND s.due_at <= rota.now() AND s.ticking_until > clock_timestamp())) AS soonest) n
    WHERE n.soonest IS NOT NULL
$$;

-- Runs that an overlap policy holds may go as soon as there is room: the oldest first. One that is meant for
-- later (jitter, the next allowed day) waits for its time.
CREATE FUNCTION rota.free_held_runs(schedules bigint[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    touched text[];
    soonest timestamptz;
BEGIN
    WITH waiting AS (
        SELECT w.schedule_id, coalesce(min(s.max_concurrent_runs), 1) AS room, coalesce(bool_or(s.overlap = 'allow'), false) AS is_free
        FROM rota.open_runs w LEFT JOIN rota.schedules s ON s.id = w.schedule_id
        WHERE w.schedule_id = ANY (schedules) AND w.held_by = 'overlap' GROUP BY w.schedule_id
    ), chosen AS (
        SELECT o.id FROM waiting w CROSS JOIN LATERAL (
            SELECT h.id FROM rota.open_runs h WHERE h.schedule_id = w.schedule_id AND h.held_by = 'overlap'
            ORDER BY h.scheduled_for
            LIMIT CASE WHEN w.is_free THEN NULL ELSE greatest(0, w.room - (
                SELECT count(*) FROM rota.open_runs r WHERE r.schedule_id = w.schedule_id AND r.held_by IS DISTINCT FROM 'overlap')) END
            FOR UPDATE SKIP LOCKED) o
    ), freed AS (
        UPDATE rota.open_runs o
        SET held_by = NULL, seq = nextval('rota.run_ids'), enqueued_at = clock_timestamp(),
            state = CASE WHEN o.run_at > clock THEN 'scheduled' ELSE 'queued' END
        WHERE o.id = ANY (ARRAY(SELECT id FROM chosen)) RETURNING o.queue, o.state, o.run_at
    )
    SELECT array_agg(DISTINCT queue) FILTER (WHERE state = 'queued'), min(run_at) FILTER (WHERE state = 'scheduled')
    INTO touched, soonest FROM freed;
    PERFORM rota.wake(touched) WHERE touched IS NOT NULL;
    PERFORM rota.wake_later(soonest - clock) WHERE soonest IS NOT NULL;
END $$;

-- The tick, second half: one statement writes cursors, ledger and runs, for those schedules only that
-- are as they were read. ticks is an array of {id, version, cursor_at, new_cursor_at, next_run_at, segments, is_resumed,
-- is_moved, is_finished, occurrences: [{nominal_at, through_at, count, decision, reason, is_moved, start_at, is_held, details}]}.
-- Answers the ids that were written; the others have changed and are due again.
CREATE FUNCTION rota.write_ticks(for_worker bigint, ticks jsonb) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    written bigint[];
    resumed bigint[];
    arrived bigint[];
    touched text[];
    soonest timestamptz;
BEGIN
    -- In one order, as the ends of runs lock them too.
    PERFORM FROM rota.schedules s WHERE s.id = ANY (ARRAY(SELECT (t ->> 'id')::bigint FROM jsonb_array_elements(ticks) t))
    ORDER BY s.id FOR NO KEY UPDATE;
    WITH decided AS MATERIALIZED (
        SELECT t.* FROM jsonb_to_recordset(ticks) AS t (
            id bigint, version bigint, cursor_at timestamptz, new_cursor_at timestamptz, next_run_at timestamptz,
            segments jsonb, is_resumed boolean, is_finished boolean, is_moved boolean, occurrences jsonb)
    ), moved AS (
        -- No column that people edit, as the triggers of edits go by the columns that are named.
        UPDATE rota.schedules s
        SET cursor_at = t.new_cursor_at, next_run_at = t.next_run_at, segments = t.segments, ticking_until = NULL,
            finished_at = CASE WHEN t.is_finished THEN clock END,
            version = s.version + 1,
            run_count = s.run_count + (SELECT count(*) FROM jsonb_array_elements(t.occurrences) o WHERE o ->> 'decision' IN ('ran', 'caught_up')),
            last_enqueued_at = CASE WHEN t.occurrences @> '[{"decision": "ran"}]' OR t.occurrences @> '[{"decision": "caught_up"}]'
                               THEN clock ELSE s.last_enqueued_at END
        FROM decided t
        WHERE s.id = ANY (ARRAY[t.id]) AND s.version = t.version AND s.cursor_at IS NOT DISTINCT FROM t.cursor_at
          AND s.is_enabled AND (s.paused_at IS NULL OR t.is_resumed)
        RETURNING s.id, s.tenant, s.name, s.job, s.payload, s.queue, s.priority, s.max_attempts, s.timeout_seconds, s.run_tags,
            s.run_metadata, s.last_success_for, t.occurrences, t.is_resumed, t.is_moved AS was_moved
    ), in_order AS MATERIALIZED (
        -- Numbers are claimed in their order: given by priority, then by nominal time.
        SELECT m.id, m.tenant, m.name, m.job, m.payload, m.queue, coalesce(m.priority, j.priority) AS priority, m.max_attempts,
            m.timeout_seconds, m.run_tags, m.run_metadata, m.last_success_for, o.*
        FROM moved m LEFT JOIN rota.jobs j ON j.name = m.job CROSS JOIN LATERAL jsonb_to_recordset(m.occurrences) AS o (
            nominal_at timestamptz, through_at timestamptz, count integer, decision text, reason text, is_moved boolean,
            start_at timestamptz, is_held boolean, details jsonb)
        ORDER BY coalesce(m.priority, j.priority), o.nominal_at
    ), wanted AS MATERIALIZED (
        SELECT i.*, CASE WHEN i.decision IN ('ran', 'caught_up') THEN nextval('rota.run_ids') END AS new_run_id FROM in_order i
    ), noted AS (
        INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, count, decision, reason, tenant, schedule, is_moved, details,
            claimed_at, decided_at, decided_by, enqueued_at, run_id, state)
        SELECT w.id, w.nominal_at, w.through_at, w.count, w.decision, w.reason, w.tenant, w.name, coalesce(w.is_moved, false), w.details,
            clock, clock_timestamp() + (SELECT clock_offset FROM rota.settings), for_worker,
            CASE WHEN w.new_run_id IS NOT NULL THEN clock END, w.new_run_id, CASE WHEN w.new_run_id IS NOT NULL THEN 'queued' END
        FROM wanted w ORDER BY w.id, w.nominal_at
        ON CONFLICT (schedule_id, nominal_at) DO NOTHING
        RETURNING schedule_id, nominal_at, run_id
    ), enqueued AS (
        INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, held_by, queue, job, tenant, payload, priority,
            max_attempts, timeout_seconds, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id)
        SELECT n.run_id, n.run_id, clock, clock_timestamp(), w.start_at,
            CASE WHEN w.start_at > clock AND NOT w.is_held THEN 'scheduled' ELSE 'queued' END,
            CASE WHEN w.is_held THEN 'overlap' END,
            coalesce(w.queue, j.queue), w.job, w.tenant, coalesce(w.payload, j.default_payload, '{}'), w.priority,
            coalesce(w.max_attempts, j.max_attempts), w.timeout_seconds, w.run_tags, w.run_metadata,
            jsonb_build_object('type', CASE w.decision WHEN 'caught_up' THEN 'catch_up' ELSE 'scheduler' END, 'schedule', w.name,
                               'since', w.last_success_for),
            w.name, w.nominal_at, w.id
        FROM noted n JOIN wanted w ON w.id = n.schedule_id AND w.nominal_at = n.nominal_at JOIN rota.jobs j ON j.name = w.job
        WHERE n.run_id IS NOT NULL
        ORDER BY n.run_id
        RETURNING queue, state, run_at, held_by
    )
    SELECT (SELECT array_agg(id) FROM moved), (SELECT array_agg(id) FROM moved WHERE is_resumed),
           (SELECT array_agg(id) FROM moved WHERE was_moved),
           (SELECT array_agg(DISTINCT queue) FROM enqueued WHERE state = 'queued' AND held_by IS NULL),
           (SELECT min(run_at) FROM enqueued WHERE state = 'scheduled')
    INTO written, resumed, arrived, touched, soonest;
    PERFORM rota.act_as('rota') WHERE resumed IS NOT NULL;
    UPDATE rota.schedules s
    SET paused_at = NULL, paused_by = NULL, pause_reason = NULL, paused_until = NULL, failures_in_a_row = 0, version = s.version + 1
    WHERE s.id = ANY (resumed);
    UPDATE rota.schedules s SET moved_to = NULL WHERE s.id = ANY (arrived);
    -- A run that ended between the reading and now would not free what was just held because of it.
    PERFORM rota.free_held_runs(written);
    PERFORM rota.wake(coalesce(touched, '{}'));
    PERFORM rota.wake_later(soonest - clock) WHERE soonest IS NOT NULL;
    DELETE FROM rota.schedules s WHERE s.id = ANY (written) AND s.finished_at IS NOT NULL AND s.delete_when_finished;
    RETURN QUERY SELECT unnest(written);
END $$;

-- A schedule that cannot be read stops no other.
CREATE FUNCTION rota.park_schedule(schedule_id bigint, read_version bigint, why text) RETURNS void LANGUAGE sql VOLATILE AS $$
    UPDATE rota.schedules SET parked_at = rota.now(), error = why, ticking_until = NULL
    WHERE id = schedule_id AND version = read_version
$$;

-- The end of a scheduled run: into the ledger, which outlives it; into the schedule; and the next one that
-- waited for it may go.
CREATE FUNCTION rota.schedule_run_ended() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    ok boolean := NEW.state = 'succeeded';
BEGIN
    UPDATE rota.ledger l
    SET state = NEW.state, success = ok, duration_ms = NEW.duration_ms, error = NEW.error,
        lateness_ms = extract(epoch FROM NEW.started_at - NEW.run_at) * 1000
    WHERE l.schedule_id = NEW.schedule_id AND l.nominal_at = NEW.scheduled_for AND l.run_id = NEW.id;
    -- Locks the schedule, whatever it changes: a tick that holds a run back because of this one is then either
    -- seen below, or sees this end.
    UPDATE rota.schedules s
    SET last_run_at = greatest(s.last_run_at, NEW.finished_at),
        last_run_success = CASE WHEN s.last_run_at > NEW.finished_at THEN s.last_run_success ELSE ok END,
        last_success_at = CASE WHEN ok THEN greatest(s.last_success_at, NEW.finished_at) ELSE s.last_success_at END,
        last_success_for = CASE WHEN ok THEN greatest(s.last_success_for, NEW.scheduled_for) ELSE s.last_success_for END,
        failures_in_a_row = CASE WHEN ok THEN 0 WHEN NEW.state = 'failed' THEN s.failures_in_a_row + 1 ELSE s.failures_in_a_row END,
        next_run_at = CASE WHEN s.every_from = 'end' AND s.moved_to IS NULL
                      THEN NEW.finished_at + make_interval(secs => s.interval_seconds) ELSE s.next_run_at END
    WHERE s.id = NEW.schedule_id;
    UPDATE rota.schedules s
    SET paused_at = rota.now(), paused_by = 'rota', pause_reason = format('%s runs failed in a row', s.failures_in_a_row)
    WHERE s.id = NEW.schedule_id AND s.failures_in_a_row >= s.pause_after_failures AND s.paused_at IS NULL;
    PERFORM pg_notify('rota', 'schedules') FROM rota.schedules s WHERE s.id = NEW.schedule_id AND s.every_from = 'end';
    PERFORM rota.free_held_runs(ARRAY[NEW.schedule_id]);
    RETURN NULL;
END $$;
CREATE TRIGGER ended_runs_schedule AFTER INSERT ON rota.ended_runs FOR EACH ROW WHEN (NEW.schedule_id IS NOT NULL)
EXECUTE FUNCTION rota.schedule_run_ended();
