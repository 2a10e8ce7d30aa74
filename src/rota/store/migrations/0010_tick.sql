-- The tick: what is due is taken, decided in Python, and written by compare-and-set.

-- The tick, first half: takes what is due, marked for a moment so that nobody else decides it too.
-- Nothing stays locked while Python decides.
CREATE FUNCTION rota.take_due_schedules(max_schedules integer, hold_seconds double precision)
RETURNS TABLE (schedule jsonb, clock timestamptz, unfinished integer, is_job_enabled boolean, calendar_definition jsonb)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    at timestamptz := rota.now();
BEGIN
    RETURN QUERY
    WITH due AS MATERIALIZED (
        SELECT s.id FROM rota.schedules s
        WHERE s.is_ticking AND coalesce(s.next_run_at, '-infinity') <= at AND s.init IS NULL
          AND (s.ticking_until IS NULL OR s.ticking_until <= clock_timestamp())
          AND (s.paused_at IS NULL OR s.paused_until <= at)
        ORDER BY coalesce(s.next_run_at, '-infinity') LIMIT max_schedules FOR UPDATE SKIP LOCKED
    ), taken AS (
        UPDATE rota.schedules s SET ticking_until = clock_timestamp() + make_interval(secs => hold_seconds)
        WHERE s.id = ANY (ARRAY(SELECT id FROM due))
        RETURNING s.*
    )
    SELECT to_jsonb(t), at,
           (SELECT count(*)::integer FROM rota.open_runs o WHERE o.schedule_id = t.id),
           coalesce((SELECT j.is_enabled FROM rota.jobs j WHERE j.name = t.job), false),
           (SELECT c.definition FROM rota.calendars c WHERE c.name = t.calendar)
    FROM taken t;
END $$;

-- Seconds until the next schedule is due (NULL: none); ticking_until does not matter here.
CREATE FUNCTION rota.next_schedule_seconds() RETURNS double precision LANGUAGE sql STABLE SET enable_seqscan = off AS $$
    SELECT extract(epoch FROM greatest(least(
        (SELECT coalesce(s.next_run_at, '-infinity') FROM rota.schedules s
         WHERE s.is_ticking AND s.init IS NULL AND s.paused_at IS NULL
         ORDER BY coalesce(s.next_run_at, '-infinity') LIMIT 1),
        (SELECT min(s.paused_until) FROM rota.schedules s WHERE s.is_ticking AND s.paused_at IS NOT NULL)
    ), rota.now()) - rota.now())
$$;

-- The tick, second half: one statement writes cursors, ledger and runs, for those schedules only that
-- are as they were read. ticks is an array of {id, version, cursor_at, new_cursor_at, next_run_at, is_resumed,
-- is_finished, occurrences: [{nominal_at, through_at, count, decision, reason, is_moved, run_at, is_held, details}]}.
-- Answers the ids that were written; the others have changed and are due again.
CREATE FUNCTION rota.write_ticks(for_worker bigint, ticks jsonb) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    written bigint[];
    touched text[];
    soonest timestamptz;
BEGIN
    WITH decided AS MATERIALIZED (
        SELECT t.* FROM jsonb_to_recordset(ticks) AS t (
            id bigint, version bigint, cursor_at timestamptz, new_cursor_at timestamptz, next_run_at timestamptz,
            is_resumed boolean, is_finished boolean, is_moved boolean, occurrences jsonb)
    ), moved AS (
        UPDATE rota.schedules s
        SET cursor_at = t.new_cursor_at, next_run_at = t.next_run_at, segments = '[]', ticking_until = NULL,
            finished_at = CASE WHEN t.is_finished THEN clock END,
            moved_to = CASE WHEN t.is_moved THEN NULL ELSE s.moved_to END,
            paused_at = CASE WHEN t.is_resumed THEN NULL ELSE s.paused_at END,
            paused_by = CASE WHEN t.is_resumed THEN NULL ELSE s.paused_by END,
            pause_reason = CASE WHEN t.is_resumed THEN NULL ELSE s.pause_reason END,
            paused_until = CASE WHEN t.is_resumed THEN NULL ELSE s.paused_until END,
            version = s.version + 1,
            run_count = s.run_count + (SELECT count(*) FROM jsonb_array_elements(t.occurrences) o WHERE o ->> 'decision' IN ('ran', 'caught_up')),
            last_enqueued_at = CASE WHEN t.occurrences @> '[{"decision": "ran"}]' OR t.occurrences @> '[{"decision": "caught_up"}]'
                               THEN clock ELSE s.last_enqueued_at END
        FROM decided t
        WHERE s.id = ANY (ARRAY[t.id]) AND s.version = t.version AND s.cursor_at IS NOT DISTINCT FROM t.cursor_at
          AND s.is_enabled AND (s.paused_at IS NULL OR t.is_resumed)
        RETURNING s.id, s.tenant, s.name, s.job, s.payload, s.queue, s.priority, s.max_attempts, s.timeout_seconds, s.run_tags,
            s.run_metadata, s.last_success_for, t.occurrences
    ), wanted AS MATERIALIZED (
        SELECT m.*, o.*, CASE WHEN o.decision IN ('ran', 'caught_up') THEN nextval('rota.run_ids') END AS new_run_id
        FROM moved m CROSS JOIN LATERAL jsonb_to_recordset(m.occurrences) AS o (
            nominal_at timestamptz, through_at timestamptz, count integer, decision text, reason text, is_moved boolean,
            start_at timestamptz, is_held boolean, details jsonb)
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
            CASE WHEN w.start_at > clock THEN 'scheduled' ELSE 'queued' END,
            CASE WHEN w.is_held AND NOT w.start_at > clock THEN 'overlap' END,
            coalesce(w.queue, j.queue), w.job, w.tenant, coalesce(w.payload, j.default_payload, '{}'), coalesce(w.priority, j.priority),
            coalesce(w.max_attempts, j.max_attempts), w.timeout_seconds, w.run_tags, w.run_metadata,
            jsonb_build_object('type', CASE w.decision WHEN 'caught_up' THEN 'catch_up' ELSE 'scheduler' END, 'schedule', w.name,
                               'since', w.last_success_for),
            w.name, w.nominal_at, w.id
        FROM noted n JOIN wanted w ON w.id = n.schedule_id AND w.nominal_at = n.nominal_at JOIN rota.jobs j ON j.name = w.job
        WHERE n.run_id IS NOT NULL
        ORDER BY coalesce(w.priority, j.priority), w.nominal_at
        RETURNING queue, state, run_at
    )
    SELECT (SELECT array_agg(id) FROM moved), (SELECT array_agg(DISTINCT queue) FROM enqueued WHERE state = 'queued'),
           (SELECT min(run_at) FROM enqueued WHERE state = 'scheduled')
    INTO written, touched, soonest;
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
    UPDATE rota.schedules s
    SET last_run_at = NEW.finished_at, last_run_success = ok,
        last_success_at = CASE WHEN ok THEN greatest(s.last_success_at, NEW.finished_at) ELSE s.last_success_at END,
        last_success_for = CASE WHEN ok THEN greatest(s.last_success_for, NEW.scheduled_for) ELSE s.last_success_for END,
        failures_in_a_row = CASE WHEN ok THEN 0 WHEN NEW.state = 'failed' THEN s.failures_in_a_row + 1 ELSE s.failures_in_a_row END,
        next_run_at = CASE WHEN s.every_from = 'end' THEN NEW.finished_at + make_interval(secs => s.interval_seconds) ELSE s.next_run_at END
    WHERE s.id = NEW.schedule_id AND (s.last_run_at IS NULL OR s.last_run_at <= NEW.finished_at);
    UPDATE rota.schedules s
    SET paused_at = rota.now(), paused_by = 'rota', pause_reason = format('%s runs failed in a row', s.failures_in_a_row)
    WHERE s.id = NEW.schedule_id AND s.failures_in_a_row >= s.pause_after_failures AND s.paused_at IS NULL;
    PERFORM pg_notify('rota', 'schedules') FROM rota.schedules s WHERE s.id = NEW.schedule_id AND s.every_from = 'end';
    UPDATE rota.open_runs o SET held_by = NULL, seq = nextval('rota.run_ids'), enqueued_at = clock_timestamp()
    WHERE o.id = (SELECT w.id FROM rota.open_runs w WHERE w.schedule_id = NEW.schedule_id AND w.held_by = 'overlap'
                  ORDER BY w.scheduled_for LIMIT 1 FOR UPDATE SKIP LOCKED);
    IF FOUND THEN
        PERFORM rota.wake(ARRAY[NEW.queue]);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER ended_runs_schedule AFTER INSERT ON rota.ended_runs FOR EACH ROW WHEN (NEW.schedule_id IS NOT NULL)
EXECUTE FUNCTION rota.schedule_run_ended();
