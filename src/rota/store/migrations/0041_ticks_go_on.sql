-- Nobody's open transaction on one schedule holds up another, or the ends of runs; and one that cannot be followed is tried again.

ALTER TABLE rota.schedules
    ADD COLUMN parked_times integer NOT NULL DEFAULT 0,       -- in a row
    ADD COLUMN retry_at     timestamptz;                      -- when a parked one is tried again
UPDATE rota.schedules SET parked_times = 1, retry_at = rota.now() WHERE parked_at IS NOT NULL;
CREATE INDEX schedules_parked ON rota.schedules (retry_at) WHERE parked_at IS NOT NULL;
SELECT rota.guard_values('rota.schedules', true);

-- Parked for a minute, two, four … at most an hour; an edit tries at once. False: somebody holds it, or has changed it.
DROP FUNCTION rota.park_schedule(bigint, bigint, text);
CREATE FUNCTION rota.park_schedule(schedule_id bigint, read_version bigint, why text) RETURNS boolean LANGUAGE plpgsql VOLATILE
SET jit = off AS $$
BEGIN
    UPDATE rota.schedules s SET parked_at = rota.now(), error = why, parked_times = s.parked_times + 1,
        retry_at = rota.now() + least(interval '1 hour', interval '1 minute' * 2 ^ least(s.parked_times, 10))
    WHERE s.id IN (SELECT p.id FROM rota.schedules p WHERE p.id = park_schedule.schedule_id AND p.version = read_version
                   FOR UPDATE SKIP LOCKED);
    RETURN FOUND;
END $$;

CREATE FUNCTION rota.retry_parked(most integer) RETURNS void LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
BEGIN
    UPDATE rota.schedules s SET parked_at = NULL, retry_at = NULL, version = s.version + 1
    WHERE s.id = ANY (ARRAY(SELECT p.id FROM rota.schedules p WHERE p.parked_at IS NOT NULL AND p.retry_at <= rota.now()
                            ORDER BY p.retry_at LIMIT most FOR UPDATE SKIP LOCKED));
END $$;

CREATE OR REPLACE FUNCTION rota.revive_schedules() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    UPDATE rota.schedules s SET parked_at = NULL, error = NULL, parked_times = 0, retry_at = NULL, version = s.version + 1
    WHERE s.calendar = NEW.name AND s.parked_at IS NOT NULL;
    PERFORM pg_notify('rota', 'schedules') WHERE FOUND;
    RETURN NULL;
END $$;

-- The ends of scheduled runs. What an end changes about its schedule waits here while somebody else holds the schedule's row: the
-- end itself, and those written with it, do not wait.
CREATE TABLE rota.schedule_ends (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    schedule_id   bigint NOT NULL,
    run_id        bigint NOT NULL,
    scheduled_for timestamptz,
    state         text COLLATE "C" NOT NULL,
    error         text,
    duration_ms   real,
    lateness_ms   double precision,
    finished_at   timestamptz NOT NULL,
    is_init       boolean NOT NULL
);
CREATE INDEX schedule_ends_schedule ON rota.schedule_ends (schedule_id);

-- Whether its rows could be locked: then they are. A schedule that is gone holds up nobody.
CREATE FUNCTION rota.lock_schedule_end(of_schedule bigint, of_run bigint, nominal timestamptz) RETURNS boolean LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off AS $$
BEGIN
    PERFORM FROM rota.schedules s WHERE s.id = of_schedule FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND AND EXISTS (SELECT FROM rota.schedules s WHERE s.id = of_schedule) THEN
        RETURN false;
    END IF;
    PERFORM FROM rota.ledger l WHERE l.schedule_id = of_schedule AND l.nominal_at = nominal AND l.run_id = of_run FOR NO KEY UPDATE SKIP LOCKED;
    RETURN FOUND OR NOT EXISTS (
        SELECT FROM rota.ledger l WHERE l.schedule_id = of_schedule AND l.nominal_at = nominal AND l.run_id = of_run);
END $$;

-- Into the ledger, which outlives the run; into the schedule; and into the counts of its days. The rows are locked.
CREATE FUNCTION rota.note_schedule_end(e rota.schedule_ends) RETURNS void LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    ok boolean := e.state = 'succeeded';
BEGIN
    UPDATE rota.ledger l
    SET state = e.state, success = ok, duration_ms = e.duration_ms, error = e.error, lateness_ms = e.lateness_ms
    WHERE l.schedule_id = e.schedule_id AND l.nominal_at = e.scheduled_for AND l.run_id = e.run_id;
    UPDATE rota.schedules s
    SET last_run_at = greatest(s.last_run_at, e.finished_at),
        last_run_success = CASE WHEN s.last_run_at > e.finished_at THEN s.last_run_success ELSE ok END,
        last_success_at = CASE WHEN ok THEN greatest(s.last_success_at, e.finished_at) ELSE s.last_success_at END,
        last_success_for = CASE WHEN ok THEN greatest(s.last_success_for, e.scheduled_for) ELSE s.last_success_for END,
        failures_in_a_row = CASE WHEN ok THEN 0 WHEN e.state = 'failed' THEN s.failures_in_a_row + 1 ELSE s.failures_in_a_row END,
        finished_at = CASE WHEN ok AND e.is_init AND s.init = 'once' THEN e.finished_at ELSE s.finished_at END
    WHERE s.id = e.schedule_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- One that counts from the end of its run is due so long after it.
    UPDATE rota.schedules s SET next_run_at = rota.after(e.finished_at, least(s.interval_seconds, 3153600000)), version = s.version + 1
    WHERE s.id = e.schedule_id AND s.every_from = 'end' AND s.moved_to IS NULL;
    PERFORM pg_notify('rota', 'schedules') WHERE FOUND;
    UPDATE rota.schedules s
    SET paused_at = rota.now(), paused_by = 'rota', pause_reason = format('%s runs failed in a row', s.failures_in_a_row)
    WHERE s.id = e.schedule_id AND s.failures_in_a_row >= s.pause_after_failures AND s.paused_at IS NULL;
    IF e.is_init THEN
        UPDATE rota.init_runs i SET state = e.state WHERE i.run_id = e.run_id;
    END IF;
    INSERT INTO rota.schedule_days AS d (schedule_id, day, succeeded, failed, cancelled, timed, duration_ms, longest_ms)
    VALUES (e.schedule_id, (e.finished_at AT TIME ZONE 'UTC')::date, ok::integer, (e.state = 'failed')::integer,
            (e.state = 'cancelled')::integer, (e.duration_ms IS NOT NULL)::integer, coalesce(e.duration_ms, 0), coalesce(e.duration_ms, 0))
    ON CONFLICT (schedule_id, day) DO UPDATE SET
        succeeded = d.succeeded + excluded.succeeded, failed = d.failed + excluded.failed,
        cancelled = d.cancelled + excluded.cancelled, timed = d.timed + excluded.timed,
        duration_ms = d.duration_ms + excluded.duration_ms, longest_ms = greatest(d.longest_ms, excluded.longest_ms);
END $$;

-- What waits, in its order, where the rows are free again; and the next runs that waited for those may go.
CREATE FUNCTION rota.settle_schedule_ends(most integer) RETURNS integer LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
DECLARE
    of_schedule bigint;
    one         rota.schedule_ends;
    settled     integer := 0;
    is_locked   boolean;
BEGIN
    PERFORM rota.act_as('rota');
    FOR of_schedule IN SELECT DISTINCT e.schedule_id FROM rota.schedule_ends e LOOP
        BEGIN
            is_locked := false;
            FOR one IN SELECT e.* FROM rota.schedule_ends e WHERE e.schedule_id = of_schedule ORDER BY e.id LIMIT most FOR UPDATE SKIP LOCKED LOOP
                EXIT WHEN NOT rota.lock_schedule_end(one.schedule_id, one.run_id, one.scheduled_for);
                is_locked := true;
                PERFORM rota.note_schedule_end(one);
                DELETE FROM rota.schedule_ends e WHERE e.id = one.id;
                settled := settled + 1;
            END LOOP;
            IF is_locked THEN
                PERFORM rota.free_held_runs(ARRAY[of_schedule]);
            END IF;
        EXCEPTION WHEN data_exception OR integrity_constraint_violation OR raise_exception THEN
            RAISE WARNING 'the ends of runs of schedule % could not be noted: %', of_schedule, SQLERRM;
        END;
    END LOOP;
    RETURN settled;
END $$;

-- The end locks the schedule, whatever it changes: a tick that holds a run back because of this one is then either seen here, or
-- sees this end. Where the tick has the lock, it is settled after both.
CREATE OR REPLACE FUNCTION rota.schedule_run_ended() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    ended rota.schedule_ends;
BEGIN
    ended.schedule_id := NEW.schedule_id;
    ended.run_id := NEW.id;
    ended.scheduled_for := NEW.scheduled_for;
    ended.state := NEW.state;
    ended.error := NEW.error;
    ended.duration_ms := NEW.duration_ms;
    ended.lateness_ms := CASE WHEN isfinite(NEW.run_at) THEN extract(epoch FROM NEW.started_at - NEW.run_at) * 1000 END;
    ended.finished_at := NEW.finished_at;
    ended.is_init := NEW.triggered_by ? 'init';
    IF rota.lock_schedule_end(NEW.schedule_id, NEW.id, NEW.scheduled_for) THEN
        PERFORM rota.note_schedule_end(ended);
        PERFORM rota.free_held_runs(ARRAY[NEW.schedule_id]);
    ELSE
        INSERT INTO rota.schedule_ends (schedule_id, run_id, scheduled_for, state, error, duration_ms, lateness_ms, finished_at, is_init)
        VALUES (ended.schedule_id, ended.run_id, ended.scheduled_for, ended.state, ended.error, ended.duration_ms, ended.lateness_ms,
                ended.finished_at, coalesce(ended.is_init, false));
        PERFORM pg_notify('rota', 'schedules');
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER ended_runs_schedule_day ON rota.ended_runs;
DROP TRIGGER ended_runs_schedule_init ON rota.ended_runs;
DROP FUNCTION rota.count_schedule_run();
DROP FUNCTION rota.init_run_ended();

-- Holds a stretch of what is due, one at a time, until the commit: the next one sees what this one took. A hold is a courtesy: who
-- does not get the lock in time goes on without one, and its tick is right all the same.
CREATE OR REPLACE FUNCTION rota.hold_due(max_schedules integer, hold_seconds double precision, OUT hold bigint, OUT ids bigint[])
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
BEGIN
    -- Nobody has to wait for the disk: a stretch that is lost costs nothing, and neither does a tick (see write_ticks).
    PERFORM set_config('synchronous_commit', 'off', true);
    IF EXISTS (SELECT FROM rota.schedule_ends) THEN
        PERFORM rota.settle_schedule_ends(1000);
    END IF;
    IF EXISTS (SELECT FROM rota.schedules s WHERE s.parked_at IS NOT NULL AND s.retry_at <= rota.now()) THEN
        PERFORM rota.retry_parked(max_schedules);
    END IF;
    ids := rota.find_due(rota.now(), max_schedules);
    IF ids = '{}' THEN
        RETURN;
    END IF;
    BEGIN
        PERFORM rota.take_lock('hold_due', 1000);
    EXCEPTION WHEN lock_not_available THEN
        RETURN;
    END;
    ids := rota.find_due(rota.now(), max_schedules);
    IF ids = '{}' THEN
        RETURN;
    END IF;
    DELETE FROM rota.schedule_holds h WHERE h.id = ANY (ARRAY(
        SELECT o.id FROM rota.schedule_holds o WHERE o.until < clock_timestamp() FOR UPDATE SKIP LOCKED));
    INSERT INTO rota.schedule_holds (first_due, first_id, last_due, last_id, until)
    SELECT f.due_at, f.id, l.due_at, l.id, clock_timestamp() + make_interval(secs => hold_seconds)
    FROM rota.schedules f, rota.schedules l WHERE f.id = ids[1] AND l.id = ids[cardinality(ids)]
    RETURNING id INTO hold;
END $$;

-- Some of what was taken could not be decided: it is left alone for a while. Neighbours of the batch are one stretch.
CREATE FUNCTION rota.pass_over(batch bigint[], passed bigint[], for_seconds double precision) RETURNS void LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO rota.schedule_holds (first_due, first_id, last_due, last_id, until)
    SELECT (array_agg(p.due_at ORDER BY p.n))[1], (array_agg(p.id ORDER BY p.n))[1],
           (array_agg(p.due_at ORDER BY p.n DESC))[1], (array_agg(p.id ORDER BY p.n DESC))[1],
           clock_timestamp() + make_interval(secs => for_seconds)
    FROM (SELECT s.id, s.due_at, b.n, b.n - row_number() OVER (ORDER BY b.n) AS island
          FROM unnest(batch) WITH ORDINALITY AS b (id, n) JOIN rota.schedules s ON s.id = b.id WHERE b.id = ANY (passed)) p
    GROUP BY p.island;
END $$;

CREATE OR REPLACE FUNCTION rota.next_schedule_seconds() RETURNS double precision LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    clock   timestamptz := rota.now();
    soonest interval;
    held    interval;
    parked  interval;
BEGIN
    IF rota.find_due(clock, 1) <> '{}' THEN
        RETURN 0;
    END IF;
    SELECT s.due_at - clock INTO soonest FROM rota.schedules s
    WHERE s.is_ticking AND s.init IS NULL AND s.due_at > clock AND s.due_at < 'infinity' ORDER BY s.due_at LIMIT 1;
    SELECT min(h.until) - clock_timestamp() INTO held FROM rota.schedule_holds h WHERE h.until > clock_timestamp()
    AND EXISTS (SELECT FROM rota.schedules s WHERE s.is_ticking AND s.init IS NULL AND s.due_at <= clock);
    SELECT s.retry_at - clock INTO parked FROM rota.schedules s WHERE s.parked_at IS NOT NULL ORDER BY s.retry_at LIMIT 1;
    soonest := least(soonest, held, parked);
    RETURN CASE WHEN soonest IS NOT NULL THEN greatest(extract(epoch FROM soonest), 0) END;
END $$;

-- As before (0017), but what somebody else holds is passed over, and neither waited for.
CREATE OR REPLACE FUNCTION rota.write_ticks(for_worker bigint, ticks jsonb) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET lock_timeout = '5s' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    written bigint[];
    resumed bigint[];
    arrived bigint[];
    touched text[];
    soonest timestamptz;
BEGIN
    -- A tick that a crash of the server forgets is one that never was: its runs are gone with it, and the next tick decides
    -- again. Whoever claimed one of them has flushed the tick too, as commits are flushed in their order.
    PERFORM set_config('synchronous_commit', 'off', true);
    WITH decided AS MATERIALIZED (
        SELECT t.* FROM jsonb_to_recordset(ticks) AS t (
            id bigint, version bigint, cursor_at timestamptz, new_cursor_at timestamptz, next_run_at timestamptz,
            segments jsonb, is_resumed boolean, is_finished boolean, is_moved boolean, occurrences jsonb)
        CROSS JOIN LATERAL (SELECT FROM rota.schedules f WHERE f.id = t.id FOR NO KEY UPDATE SKIP LOCKED) free
    ), moved AS (
        -- No column that people edit, as the triggers of edits go by the columns that are named.
        UPDATE rota.schedules s
        SET cursor_at = t.new_cursor_at, next_run_at = t.next_run_at, segments = coalesce(t.segments, '[]'),
            finished_at = CASE WHEN t.is_finished THEN clock END,
            version = s.version + 1, error = NULL, parked_times = 0,
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
        SELECT w.id, w.nominal_at, coalesce(w.through_at, w.nominal_at), coalesce(w.count, 1), w.decision, w.reason, w.tenant, w.name, coalesce(w.is_moved, false), w.details,
            clock, clock_timestamp() + (SELECT clock_offset FROM rota.settings), for_worker,
            CASE WHEN w.new_run_id IS NOT NULL THEN clock END, w.new_run_id, CASE WHEN w.new_run_id IS NOT NULL THEN 'queued' END
        FROM wanted w ORDER BY w.id, w.nominal_at
        ON CONFLICT (schedule_id, nominal_at) DO NOTHING
        RETURNING run_id
    ), enqueued AS (
        INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, held_by, queue, job, tenant, payload, priority,
            max_attempts, timeout_seconds, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id)
        SELECT n.run_id, n.run_id, clock, clock_timestamp(), w.start_at,
            CASE WHEN w.start_at > clock AND w.is_held IS NOT TRUE THEN 'scheduled' ELSE 'queued' END,
            CASE WHEN w.is_held THEN 'overlap' END,
            coalesce(w.queue, j.queue), w.job, w.tenant, coalesce(w.payload, j.default_payload, '{}'), w.priority,
            coalesce(w.max_attempts, j.max_attempts), w.timeout_seconds, w.run_tags, w.run_metadata,
            jsonb_build_object('type', CASE w.decision WHEN 'caught_up' THEN 'catch_up' ELSE 'scheduler' END, 'schedule', w.name,
                               'since', w.last_success_for),
            w.name, w.nominal_at, w.id
        FROM noted n JOIN wanted w ON w.new_run_id = n.run_id JOIN rota.jobs j ON j.name = w.job
        ORDER BY n.run_id
        RETURNING queue, state, run_at, held_by
    )
    SELECT (SELECT array_agg(id) FROM moved), (SELECT array_agg(id) FROM moved WHERE is_resumed),
           (SELECT array_agg(id) FROM moved WHERE was_moved),
           (SELECT array_agg(DISTINCT queue) FROM enqueued WHERE state = 'queued' AND held_by IS NULL),
           (SELECT min(run_at) FROM enqueued WHERE state = 'scheduled')
    INTO written, resumed, arrived, touched, soonest;
    IF resumed IS NOT NULL THEN
        PERFORM rota.act_as('rota');
        UPDATE rota.schedules s
        SET paused_at = NULL, paused_by = NULL, pause_reason = NULL, paused_until = NULL, failures_in_a_row = 0, version = s.version + 1
        WHERE s.id = ANY (resumed);
    END IF;
    IF arrived IS NOT NULL THEN
        UPDATE rota.schedules s SET moved_to = NULL, version = s.version + 1 WHERE s.id = ANY (arrived);
    END IF;
    IF EXISTS (SELECT FROM rota.open_runs o WHERE o.held_by = 'overlap') THEN
        -- A run that ended between the reading and now would not free what was just held because of it, and an edit may have
        -- made room.
        PERFORM rota.free_held_runs(written);
    END IF;
    IF touched IS NOT NULL THEN
        PERFORM rota.wake(touched);
    END IF;
    IF soonest IS NOT NULL THEN
        PERFORM rota.wake_later(soonest - clock);
    END IF;
    IF ticks @> '[{"is_finished": true}]' THEN
        DELETE FROM rota.schedules s WHERE s.id = ANY (written) AND s.finished_at IS NOT NULL AND s.delete_when_finished;
    END IF;
    RETURN QUERY SELECT unnest(written);
END $$;
