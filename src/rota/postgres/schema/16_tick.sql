-- How due schedules become runs. A ticker takes a stretch of what is due (`hold_due`), reads it (`read_due`),
-- decides in Python, writes cursors, ledger and runs (`write_ticks`), and lets go (`release_hold`). No leader: any
-- number of tickers may do so, and each nominal time is decided once. `schedule_ends` tells schedules how their runs
-- ended (`settle_schedule_ends`).

-- Stretches of due schedules that some ticker works on, each until a time. Not logged: a hold that is lost costs
-- nothing.
CREATE UNLOGGED TABLE rota.schedule_holds (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    first_due timestamptz NOT NULL,
    first_id  bigint NOT NULL,
    last_due  timestamptz NOT NULL,
    last_id   bigint NOT NULL,
    until     timestamptz NOT NULL
);

-- When the tick has something to do: zero while something is due that nobody holds; else the seconds until the next
-- due time, or until a stretch with something due is free again. NULL: nothing will ever be due.
-- Called by: quiet_seconds, sql/schedules/next_due.sql.
CREATE FUNCTION rota.next_schedule_seconds() RETURNS double precision LANGUAGE plpgsql VOLATILE
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
    SELECT s.due_at - clock INTO soonest FROM rota.schedule_state s WHERE s.due_at > clock ORDER BY s.due_at LIMIT 1;
    SELECT min(h.until) - clock_timestamp() INTO held FROM rota.schedule_holds h WHERE h.until > clock_timestamp()
    AND EXISTS (SELECT FROM rota.schedule_state s WHERE s.due_at <= clock);
    SELECT s.retry_at - clock INTO parked FROM rota.schedule_state s WHERE s.parked_at IS NOT NULL ORDER BY s.retry_at
    LIMIT 1;
    soonest := least(soonest, held, parked);
    RETURN CASE WHEN soonest IS NOT NULL THEN greatest(extract(epoch FROM soonest), 0) END;
END $$;

-- The tick begins: takes a stretch of what is due, one ticker at a time, until the commit, so that the next one sees
-- what this one took. A hold is a courtesy: a ticker that does not get the lock in time goes on without one, and its
-- tick is right all the same.
-- Called by: sql/schedules/hold_due.sql.
-- Locks: "hold_due", rows that nobody else has locked.
CREATE FUNCTION rota.hold_due(max_schedules integer, hold_seconds double precision, OUT hold bigint, OUT ids bigint[])
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
BEGIN
    -- Nobody has to wait for the disk: a stretch that is lost costs nothing, and neither does a tick (see write_ticks).
    PERFORM set_config('synchronous_commit', 'off', true);
    IF EXISTS (SELECT FROM rota.schedule_ends) THEN
        PERFORM rota.settle_schedule_ends(1000);
    END IF;
    IF EXISTS (SELECT FROM rota.schedule_state s WHERE s.parked_at IS NOT NULL AND s.retry_at <= rota.now()) THEN
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
    SELECT f.due_at, f.schedule_id, l.due_at, l.schedule_id, clock_timestamp() + make_interval(secs => hold_seconds)
    FROM rota.schedule_state f, rota.schedule_state l
    WHERE f.schedule_id = ids[1] AND l.schedule_id = ids[cardinality(ids)]
    RETURNING id INTO hold;
END $$;

-- Parked schedules whose wait is over are due again, so many at most. Rows that somebody holds are passed over.
-- Called by: hold_due.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.retry_parked(most integer) RETURNS void LANGUAGE plpgsql VOLATILE SET enable_seqscan = off
SET jit = off AS $$
BEGIN
    UPDATE rota.schedule_state s SET parked_at = NULL, retry_at = NULL, tick_version = s.tick_version + 1
    WHERE s.schedule_id = ANY (ARRAY(
        SELECT p.schedule_id FROM rota.schedule_state p WHERE p.parked_at IS NOT NULL AND p.retry_at <= rota.now()
        ORDER BY p.retry_at LIMIT most FOR UPDATE SKIP LOCKED));
END $$;

-- What is due and in no stretch that somebody holds, oldest first: one probe for each gap between the stretches.
-- Called by: hold_due, next_schedule_seconds.
CREATE FUNCTION rota.find_due(clock timestamptz, most integer) RETURNS bigint[] LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
    held    record;
    at_due  timestamptz := '-infinity';
    at_id   bigint := 0;
    found   bigint[] := '{}';
BEGIN
    FOR held IN SELECT h.first_due, h.first_id, h.last_due, h.last_id FROM rota.schedule_holds h
        WHERE h.until > clock_timestamp()
                ORDER BY h.first_due, h.first_id
    LOOP
        IF (held.first_due, held.first_id) > (at_due, at_id) THEN
            found := found || rota.due_between(at_due, at_id, held.first_due, held.first_id, most - cardinality(found));
        END IF;
        IF (held.last_due, held.last_id) > (at_due, at_id) THEN
            at_due := held.last_due;
            at_id := held.last_id;
        END IF;
    END LOOP;
    RETURN found || rota.due_between(at_due, at_id, clock, 9223372036854775807, most - cardinality(found));
END $$;

-- The due schedules from one place in the order to another, both left out.
-- Called by: find_due.
CREATE FUNCTION rota.due_between(due_after timestamptz, id_after bigint, due_before timestamptz, id_before bigint,
    most integer)
RETURNS bigint[] LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
BEGIN
    RETURN ARRAY(SELECT s.schedule_id FROM rota.schedule_state s
        WHERE s.due_at IS NOT NULL AND (s.due_at, s.schedule_id) > (due_after, id_after)
          AND (s.due_at, s.schedule_id) < (due_before, id_before)
        ORDER BY s.due_at, s.schedule_id LIMIT most);
END $$;

-- The tick, first half: everything that deciding about these schedules needs, read in one statement.
-- Called by: sql/schedules/read_due.sql.
CREATE FUNCTION rota.read_due(ids bigint[])
RETURNS TABLE (schedule json, clock timestamptz, unfinished integer, is_job_enabled boolean, calendar_definition jsonb)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    at timestamptz := rota.now();
BEGIN
    RETURN QUERY
    SELECT row_to_json(d), at,
           (SELECT count(*)::integer FROM rota.open_runs o WHERE o.schedule_id = d.id),
           coalesce((SELECT j.is_enabled AND j.deleted_from_code_at IS NULL FROM rota.jobs j WHERE j.name = d.job),
               false),
           (SELECT c.definition FROM rota.calendars c WHERE c.name = d.calendar)
    FROM (
        SELECT s.id, s.tenant, s.name, s.job, t.tick_version, s.anchor_at, t.cursor_at, s.cron, s.interval_seconds,
               s.run_at, s.has_seconds, s.timezone, s.gap, s.fold, s.every_from, s.start_at, s.end_at, s.max_runs,
               s.jitter_seconds, s.calendar, s.on_closed, s.catch_up, s.catch_up_window_seconds, s.catch_up_limit,
               s.grace_seconds, s.overlap, s.max_concurrent_runs, s.requires,
               s.is_shadow, s.paused_at, s.paused_until, t.next_run_at, t.moved_to, t.segments, t.run_count,
               t.last_success_for
        -- One by one and by id: by due times it would walk over all that is due for each of them.
        FROM unnest(ids) WITH ORDINALITY AS f (id, n)
        CROSS JOIN LATERAL (SELECT * FROM rota.schedule_state WHERE schedule_id = f.id OFFSET 0) t
        CROSS JOIN LATERAL (SELECT * FROM rota.schedules WHERE id = f.id OFFSET 0) s
        WHERE t.due_at <= at ORDER BY f.n
    ) d;
END $$;

-- The unfinished runs of a schedule that make up for missed times: they follow one another, and are not each other's
-- overlap.
-- Called by: sql/schedules/read_due.sql.
CREATE FUNCTION rota.count_made_up(schedule_id bigint) RETURNS integer LANGUAGE sql STABLE
SET enable_seqscan = off SET jit = off AS $$
    SELECT count(*)::integer FROM rota.open_runs o
    WHERE o.schedule_id = count_made_up.schedule_id AND o.triggered_by ->> 'type' = 'catch_up'
$$;

-- An instant at which many are due: how many there were when the first of them was looked at, and how many have been
-- given a place.
CREATE TABLE rota.bursts (
    at        timestamptz PRIMARY KEY,
    schedules integer NOT NULL,
    taken     integer NOT NULL,
    noted_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE rota.bursts IS 'Times at which many schedules are due, and how many of these have been spread so far.';

-- The places, from 0, of schedules that a tick is about to decide, and how many are due at the same instant; nothing of
-- those that are not spread (is_spread), or are no more than `free` at that instant, or whose instant somebody else
-- holds. Ticks take schedules by their numbers, so that one has about the same place each time.
-- Called by: sql/schedules/read_due.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.take_places(ids bigint[], free integer) RETURNS TABLE (id bigint, place integer, crowd integer)
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET lock_timeout = '1s' SET jit = off AS $$
#variable_conflict use_column
BEGIN
    IF ids = '{}' THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH due AS MATERIALIZED (
        SELECT s.schedule_id AS id, s.due_at, row_number() OVER (PARTITION BY s.due_at ORDER BY s.schedule_id) AS n,
            count(*) OVER (PARTITION BY s.due_at) AS here
        FROM unnest(ids) AS u (id)
        CROSS JOIN LATERAL (SELECT * FROM rota.schedule_state WHERE schedule_id = u.id OFFSET 0) s
        WHERE s.due_at = s.next_run_at AND s.is_spread
    ), noted AS (
        INSERT INTO rota.bursts AS b (at, schedules, taken)
        SELECT d.due_at, c.schedules, d.here FROM due d CROSS JOIN LATERAL (
            -- Those of the first ticks are no longer due: what the first one counted holds.
            SELECT coalesce((SELECT k.schedules FROM rota.bursts k WHERE k.at = d.due_at), (
                -- OFFSET: counted once, though it is asked twice
                SELECT count(*)::integer FROM rota.schedule_state s
                WHERE s.due_at = d.due_at AND s.due_at = s.next_run_at AND s.is_spread)) AS schedules OFFSET 0) c
        WHERE d.n = 1 AND c.schedules > free ORDER BY d.due_at
        ON CONFLICT (at) DO UPDATE SET taken = b.taken + excluded.taken
        RETURNING b.at, b.schedules, b.taken
    )
    SELECT d.id, (n.taken - d.here + d.n - 1)::integer, n.schedules FROM due d JOIN noted n ON n.at = d.due_at;
    IF FOUND THEN
        DELETE FROM rota.bursts b WHERE b.at = ANY (ARRAY(
            SELECT o.at FROM rota.bursts o WHERE o.noted_at < clock_timestamp() - interval '1 hour' ORDER BY o.at
            LIMIT 1000 FOR UPDATE SKIP LOCKED));
    END IF;
EXCEPTION WHEN lock_not_available THEN
    RETURN;   -- they run at their time, all together
END $$;

-- The tick, second half: one statement writes cursors, ledger and runs, for those schedules only that are as they
-- were read. ticks is an array of {id, tick_version, cursor_at, new_cursor_at, next_run_at, segments, is_resumed,
-- is_moved, is_finished, occurrences: [{nominal_at, through_at, count, decision, reason, is_moved, start_at,
-- is_held, details}]}. Returns the ids that were written; the others have changed and are due again, or somebody
-- holds them: those are passed over, and not waited for. Runs under limits wait for their admission.
-- Called by: sql/schedules/write_ticks.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.write_ticks(for_worker bigint, ticks jsonb) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET lock_timeout = '5s' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    -- Those whose definition is to be written too: the pause is over, the set time has come, it is to be deleted.
    free    bigint[];
    written bigint[];
    resumed bigint[];
    arrived bigint[];
    touched text[];
    soonest timestamptz;
    limited boolean := (SELECT s.has_limits FROM rota.settings s);
    capped  text[] := (SELECT s.capped_queues FROM rota.settings s);
BEGIN
    -- A tick that a crash of the server forgets is one that never was: its runs are gone with it, and the next tick
    -- decides again. Whoever claimed one of them has flushed the tick too, as commits are flushed in their order.
    PERFORM set_config('synchronous_commit', 'off', true);
    IF ticks @> '[{"is_resumed": true}]' OR ticks @> '[{"is_moved": true}]' OR ticks @> '[{"is_finished": true}]' THEN
        free := ARRAY(SELECT s.id FROM rota.schedules s WHERE s.id = ANY (ARRAY(
            SELECT (t ->> 'id')::bigint FROM jsonb_array_elements(ticks) t
            WHERE t -> 'is_resumed' = 'true' OR t -> 'is_moved' = 'true' OR t -> 'is_finished' = 'true'))
            FOR NO KEY UPDATE SKIP LOCKED);
    END IF;
    WITH decided AS MATERIALIZED (
        SELECT t.* FROM jsonb_to_recordset(ticks) AS t (
            id bigint, tick_version bigint, cursor_at timestamptz, new_cursor_at timestamptz, next_run_at timestamptz,
            segments jsonb, is_resumed boolean, is_finished boolean, is_moved boolean, occurrences jsonb)
        CROSS JOIN LATERAL (SELECT FROM rota.schedule_state f WHERE f.schedule_id = t.id
            FOR NO KEY UPDATE SKIP LOCKED) held
        WHERE (t.is_resumed OR t.is_moved OR t.is_finished) IS NOT TRUE OR t.id = ANY (free)
    ), moved AS (
        UPDATE rota.schedule_state s
        SET cursor_at = t.new_cursor_at, next_run_at = t.next_run_at, segments = coalesce(t.segments, '[]'),
            finished_at = CASE WHEN t.is_finished THEN clock END,
            moved_to = CASE WHEN t.is_moved IS NOT TRUE THEN s.moved_to END,
            tick_version = s.tick_version + 1, error = NULL, parked_times = 0,
            run_count = s.run_count + (SELECT count(*) FROM jsonb_array_elements(t.occurrences) o
                WHERE o ->> 'decision' IN ('ran', 'caught_up')),
            last_enqueued_at = CASE WHEN t.occurrences @> '[{"decision": "ran"}]'
                OR t.occurrences @> '[{"decision": "caught_up"}]'
                               THEN clock ELSE s.last_enqueued_at END
        FROM decided t
        WHERE s.schedule_id = ANY (ARRAY[t.id]) AND s.tick_version = t.tick_version AND s.cursor_at = t.cursor_at
          AND (NOT s.is_stopped OR t.is_resumed)
        RETURNING s.schedule_id AS id, s.last_success_for, t.occurrences, t.is_resumed, t.is_moved AS was_moved
    ), in_order AS MATERIALIZED (
        -- Numbers are claimed in their order: given by priority, then by nominal time.
        SELECT m.id, s.tenant, s.name, s.job, s.payload, s.queue, coalesce(s.priority, j.priority) AS priority,
            s.max_attempts, s.timeout_seconds, s.run_tags, s.run_metadata, m.last_success_for, o.*
        FROM moved m CROSS JOIN LATERAL (SELECT * FROM rota.schedules WHERE id = m.id OFFSET 0) s
        LEFT JOIN rota.jobs j ON j.name = s.job CROSS JOIN LATERAL jsonb_to_recordset(m.occurrences) AS o (
            nominal_at timestamptz, through_at timestamptz, count integer, decision text, reason text, is_moved boolean,
            start_at timestamptz, is_held boolean, details jsonb)
        ORDER BY coalesce(s.priority, j.priority), o.nominal_at
    ), wanted AS MATERIALIZED (
        SELECT i.*, CASE WHEN i.decision IN ('ran', 'caught_up') THEN nextval('rota.run_ids') END AS new_run_id
        FROM in_order i
    ), noted AS (
        INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, count, decision, reason, tenant, schedule,
            is_moved, details, claimed_at, decided_at, decided_by, enqueued_at, run_id, state)
        SELECT w.id, w.nominal_at, coalesce(w.through_at, w.nominal_at), coalesce(w.count, 1), w.decision, w.reason,
            w.tenant, w.name, coalesce(w.is_moved, false), w.details, clock, clock_timestamp() + (SELECT clock_offset
                FROM rota.settings), for_worker,
            CASE WHEN w.new_run_id IS NOT NULL THEN clock END, w.new_run_id, CASE WHEN w.new_run_id IS NOT NULL
                THEN 'queued' END
        FROM wanted w ORDER BY w.id, w.nominal_at
        ON CONFLICT (schedule_id, nominal_at) DO NOTHING
        RETURNING run_id
    ), enqueued AS (
        INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, held_by, queue, job, tenant,
            payload, priority, max_attempts, timeout_seconds, tags, metadata, triggered_by, schedule, scheduled_for,
            schedule_id, limit_keys, limit_key, is_capped, expires_at)
        SELECT n.run_id, n.run_id, clock, clock_timestamp(), d.at,
            CASE WHEN d.at > clock AND w.is_held IS NOT TRUE THEN 'scheduled' ELSE 'queued' END,
            rota.hold_of(d.at <= clock OR w.is_held, k.keys, others => CASE WHEN w.is_held THEN 'overlap' END),
            coalesce(w.queue, j.queue), w.job, d.tenant,
            CASE WHEN pg_column_size(coalesce(w.payload, j.default_payload)) > 4000
                THEN rota.put_large_payload(n.run_id, coalesce(w.payload, j.default_payload))
                ELSE coalesce(w.payload, j.default_payload, '{}') END, w.priority,
            coalesce(w.max_attempts, j.max_attempts), w.timeout_seconds, coalesce(w.run_tags, nullif(j.tags, '{}')),
            coalesce(j.metadata || w.run_metadata, nullif(j.metadata, '{}')),
            jsonb_build_object('type', CASE w.decision WHEN 'caught_up' THEN 'catch_up' ELSE 'scheduler' END,
                'schedule', w.name,
                               'since', w.last_success_for),
            w.name, w.nominal_at, w.id, k.keys, k.keys[1], coalesce(w.queue, j.queue) = ANY (capped),
            d.at + make_interval(secs => j.expires_in_seconds)
        FROM noted n JOIN wanted w ON w.new_run_id = n.run_id JOIN rota.jobs j ON j.name = w.job
        CROSS JOIN LATERAL (SELECT w.start_at + make_interval(secs => coalesce(j.delay_seconds, 0)) AS at,
            coalesce(nullif(w.tenant, ''), j.tenant, '') AS tenant) d
        CROSS JOIN LATERAL (SELECT CASE WHEN limited
            THEN rota.limit_keys_of(w.job, coalesce(w.queue, j.queue), d.tenant, w.name,
            coalesce(w.payload, j.default_payload, '{}')) END AS keys) k
        ORDER BY n.run_id
        RETURNING queue, state, run_at, held_by
    )
    SELECT (SELECT array_agg(id) FROM moved), (SELECT array_agg(id) FROM moved WHERE is_resumed),
           (SELECT array_agg(id) FROM moved WHERE was_moved),
           (SELECT array_agg(DISTINCT queue) FROM enqueued WHERE state = 'queued' AND held_by IS NULL),
           (SELECT min(run_at) FROM enqueued WHERE state = 'scheduled')
    INTO written, resumed, arrived, touched, soonest;
    IF resumed IS NOT NULL OR arrived IS NOT NULL THEN
        PERFORM rota.act_as('rota');
        UPDATE rota.schedules s SET paused_at = NULL, paused_by = NULL, pause_reason = NULL, paused_until = NULL
        WHERE s.id = ANY (resumed);
        UPDATE rota.schedules s SET next_run_at = NULL WHERE s.id = ANY (arrived);
    END IF;
    IF EXISTS (SELECT FROM rota.open_runs o WHERE o.held_by = 'overlap') THEN
        -- A run that ended between the reading and now would not free what was just held because of it, and an edit may
        -- have made room.
        PERFORM rota.free_held_runs(written);
    END IF;
    IF touched IS NOT NULL THEN
        PERFORM rota.wake(touched);
    END IF;
    IF limited THEN
        PERFORM rota.wake_admission();
    END IF;
    IF soonest IS NOT NULL THEN
        PERFORM rota.wake_later(soonest - clock);
    END IF;
    IF ticks @> '[{"is_finished": true}]' THEN
        DELETE FROM rota.schedules s USING rota.schedule_state t WHERE s.id = ANY (written) AND s.delete_when_finished
            AND t.schedule_id = s.id AND t.finished_at IS NOT NULL;
    END IF;
    RETURN QUERY SELECT unnest(written);
END $$;

-- Leaves schedules alone for a while that were taken and could not be decided. Neighbours of the batch are one
-- stretch.
-- Called by: sql/schedules/pass_over.sql.
CREATE FUNCTION rota.pass_over(batch bigint[], passed bigint[], for_seconds double precision) RETURNS void
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO rota.schedule_holds (first_due, first_id, last_due, last_id, until)
    SELECT (array_agg(p.due_at ORDER BY p.n))[1], (array_agg(p.id ORDER BY p.n))[1],
           (array_agg(p.due_at ORDER BY p.n DESC))[1], (array_agg(p.id ORDER BY p.n DESC))[1],
           clock_timestamp() + make_interval(secs => for_seconds)
    FROM (SELECT b.id, s.due_at, b.n, b.n - row_number() OVER (ORDER BY b.n) AS island
          FROM unnest(batch) WITH ORDINALITY AS b (id, n) JOIN rota.schedule_state s ON s.schedule_id = b.id
          WHERE b.id = ANY (passed)) p
    GROUP BY p.island;
END $$;

-- The ticker is done with its stretch of due schedules.
-- Called by: sql/schedules/release.sql.
CREATE FUNCTION rota.release_hold(hold bigint) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    DELETE FROM rota.schedule_holds h WHERE h.id = hold;
END $$;

-- A schedule that cannot be read stops no other: it is parked with its error, and tried again after a minute, then
-- after ever longer waits of at most an hour. False if it was edited meanwhile, or somebody holds it.
-- Called by: sql/schedules/park.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.park_schedule(schedule_id bigint, read_version bigint, why text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    UPDATE rota.schedule_state s SET parked_at = rota.now(), error = why, parked_times = s.parked_times + 1,
        retry_at = rota.now() + least(interval '1 hour', interval '1 minute' * 2 ^ least(s.parked_times, 10))
    WHERE s.schedule_id IN (SELECT p.schedule_id FROM rota.schedule_state p
                            WHERE p.schedule_id = park_schedule.schedule_id AND p.tick_version = read_version
                            FOR UPDATE SKIP LOCKED);
    RETURN FOUND;
END $$;

-- The ends of scheduled runs. What an end changes about its schedule waits here while somebody else holds the
-- schedule's row: the end itself, and those written with it, do not wait.
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

-- Trigger: the end of a scheduled run locks the schedule, whatever it changes: a tick that holds a run back because
-- of this one is then either seen here, or sees this end. Where the tick has the lock, the end is settled after both
-- (schedule_ends).
CREATE FUNCTION rota.schedule_run_ended() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
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
    IF rota.lock_schedule_end(ended) THEN
        PERFORM rota.note_schedule_end(ended);
        PERFORM rota.free_held_runs(ARRAY[NEW.schedule_id]);
    ELSE
        INSERT INTO rota.schedule_ends (schedule_id, run_id, scheduled_for, state, error, duration_ms, lateness_ms,
            finished_at, is_init)
        VALUES (ended.schedule_id, ended.run_id, ended.scheduled_for, ended.state, ended.error, ended.duration_ms,
                ended.lateness_ms, ended.finished_at, coalesce(ended.is_init, false));
        PERFORM rota.call_workers('schedules');
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER ended_runs_schedule AFTER INSERT ON rota.ended_runs FOR EACH ROW WHEN (NEW.schedule_id IS NOT NULL)
EXECUTE FUNCTION rota.schedule_run_ended();

-- Locks all rows that note_schedule_end writes, or none: false where somebody holds one. Ends that are settled days
-- later are counted for their own day, whose row nobody else writes any more.
-- Called by: schedule_run_ended, settle_schedule_ends.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.lock_schedule_end(e rota.schedule_ends) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
DECLARE
    since date := (rota.now() AT TIME ZONE 'UTC')::date - 1;
    fails integer;
BEGIN
    SELECT s.failures_in_a_row + 1 INTO fails FROM rota.schedule_state s WHERE s.schedule_id = e.schedule_id
    FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND AND EXISTS (SELECT FROM rota.schedule_state s WHERE s.schedule_id = e.schedule_id) THEN
        RETURN false;
    END IF;
    IF e.state = 'failed' AND EXISTS (SELECT FROM rota.schedules s WHERE s.id = e.schedule_id
        AND s.pause_after_failures <= fails) THEN
        -- It may be paused.
        PERFORM FROM rota.schedules s WHERE s.id = e.schedule_id FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END IF;
    IF e.is_init THEN
        PERFORM FROM rota.init_runs i WHERE i.run_id = e.run_id FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND AND EXISTS (SELECT FROM rota.init_runs i WHERE i.run_id = e.run_id) THEN
            RETURN false;
        END IF;
    END IF;
    IF EXISTS (SELECT FROM rota.schedule_days d WHERE d.schedule_id = e.schedule_id AND d.day >= since
        AND d.day NOT IN (SELECT f.day FROM (SELECT o.day FROM rota.schedule_days o
            WHERE o.schedule_id = e.schedule_id AND o.day >= since FOR NO KEY UPDATE SKIP LOCKED) f)) THEN
        RETURN false;
    END IF;
    PERFORM FROM rota.ledger l
    WHERE l.schedule_id = e.schedule_id AND l.nominal_at = e.scheduled_for AND l.run_id = e.run_id
    FOR NO KEY UPDATE SKIP LOCKED;
    RETURN FOUND OR NOT EXISTS (SELECT FROM rota.ledger l
        WHERE l.schedule_id = e.schedule_id AND l.nominal_at = e.scheduled_for AND l.run_id = e.run_id);
END $$;

-- Writes the end of a schedule's run into the ledger, which outlives the run; into the state of the schedule; and into
-- the counts of its days. The rows are locked. A run without a nominal time was triggered by somebody: its failure is
-- not one of the failures in a row, and its end moves no time.
-- Called by: schedule_run_ended, settle_schedule_ends.
CREATE FUNCTION rota.note_schedule_end(e rota.schedule_ends) RETURNS void LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    ok      constant boolean := e.state = 'succeeded';
    is_time constant boolean := e.scheduled_for IS NOT NULL OR e.is_init;
    of_end  constant rota.schedules := (SELECT s FROM rota.schedules s WHERE s.id = e.schedule_id);
    -- One that counts from the end of its run is due so long after it.
    next_at constant timestamptz := CASE WHEN is_time AND of_end.every_from = 'end'
        THEN rota.after(e.finished_at, least(of_end.interval_seconds, 3153600000)) END;
    fails   integer;
    was     text[];
BEGIN
    UPDATE rota.ledger l
    SET state = e.state, success = ok, duration_ms = e.duration_ms, error = e.error, lateness_ms = e.lateness_ms
    WHERE l.schedule_id = e.schedule_id AND l.nominal_at = e.scheduled_for AND l.run_id = e.run_id;
    UPDATE rota.schedule_state s
    SET last_run_at = greatest(s.last_run_at, e.finished_at),
        last_run_success = CASE WHEN s.last_run_at > e.finished_at THEN s.last_run_success ELSE ok END,
        last_success_at = CASE WHEN ok THEN greatest(s.last_success_at, e.finished_at) ELSE s.last_success_at END,
        last_success_for = CASE WHEN ok THEN greatest(s.last_success_for, e.scheduled_for) ELSE s.last_success_for END,
        failures_in_a_row = CASE WHEN ok THEN 0 WHEN e.state = 'failed' AND is_time THEN s.failures_in_a_row + 1
            ELSE s.failures_in_a_row END,
        finished_at = CASE WHEN ok AND e.is_init AND of_end.init = 'once' THEN e.finished_at ELSE s.finished_at END,
        next_run_at = CASE WHEN s.moved_to IS NULL THEN coalesce(next_at, s.next_run_at) ELSE s.next_run_at END,
        tick_version = s.tick_version + (next_at IS NOT NULL AND s.moved_to IS NULL)::integer
    WHERE s.schedule_id = e.schedule_id RETURNING s.failures_in_a_row INTO fails;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM rota.call_workers('schedules') WHERE next_at IS NOT NULL;
    IF e.state = 'failed' AND is_time AND fails >= of_end.pause_after_failures THEN
        was := rota.say_why('rota', NULL);
        UPDATE rota.schedules s SET paused_at = rota.now(), paused_by = 'rota', pause_reason = CASE fails
            WHEN 1 THEN '1 run failed' ELSE format('%s runs failed in a row', fails) END
        WHERE s.id = e.schedule_id AND s.paused_at IS NULL;
        PERFORM rota.unsay(was);
    END IF;
    IF e.is_init THEN
        UPDATE rota.init_runs i SET state = e.state WHERE i.run_id = e.run_id;
    END IF;
    INSERT INTO rota.schedule_days AS d (schedule_id, day, succeeded, failed, cancelled, timed, duration_ms, longest_ms)
    VALUES (e.schedule_id, (e.finished_at AT TIME ZONE 'UTC')::date, ok::integer, (e.state = 'failed')::integer,
            (e.state = 'cancelled')::integer, (e.duration_ms IS NOT NULL)::integer, coalesce(e.duration_ms, 0),
            coalesce(e.duration_ms, 0))
    ON CONFLICT (schedule_id, day) DO UPDATE SET
        succeeded = d.succeeded + excluded.succeeded, failed = d.failed + excluded.failed,
        cancelled = d.cancelled + excluded.cancelled, timed = d.timed + excluded.timed,
        duration_ms = d.duration_ms + excluded.duration_ms, longest_ms = greatest(d.longest_ms, excluded.longest_ms);
END $$;

-- Settles ends that wait in schedule_ends, in their order, where the rows are free again; the next runs that waited
-- for those may go.
-- Called by: hold_due, postgres/upkeep.py.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.settle_schedule_ends(most integer) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off SET lock_timeout = '5s' AS $$
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
            FOR one IN SELECT e.* FROM rota.schedule_ends e WHERE e.schedule_id = of_schedule ORDER BY e.id LIMIT most
                FOR UPDATE SKIP LOCKED LOOP
                EXIT WHEN NOT rota.lock_schedule_end(one);
                is_locked := true;
                PERFORM rota.note_schedule_end(one);
                DELETE FROM rota.schedule_ends e WHERE e.id = one.id;
                settled := settled + 1;
            END LOOP;
            IF is_locked THEN
                PERFORM rota.free_held_runs(ARRAY[of_schedule]);
            END IF;
        EXCEPTION WHEN data_exception OR integrity_constraint_violation OR raise_exception THEN
            RAISE WARNING 'the results of runs of schedule % could not be recorded: %', of_schedule, SQLERRM;
        END;
    END LOOP;
    RETURN settled;
END $$;

-- Runs that an overlap policy holds may go as soon as there is room: the oldest first. One that is meant for later
-- (jitter, the next allowed day) waits for its time; one under a limit waits for its admission next.
-- Called by: schedule_run_ended, settle_schedule_ends, write_ticks.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.free_held_runs(schedules bigint[]) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    touched text[];
    holds   text[];
    soonest timestamptz;
BEGIN
    WITH waiting AS (
        SELECT w.schedule_id, coalesce(min(s.max_concurrent_runs), 1) AS room,
            coalesce(bool_or(s.overlap = 'allow'), false) AS is_free
        FROM rota.open_runs w LEFT JOIN rota.schedules s ON s.id = w.schedule_id
        WHERE w.schedule_id = ANY (schedules) AND w.held_by = 'overlap' GROUP BY w.schedule_id
    ), chosen AS (
        SELECT o.id FROM waiting w CROSS JOIN LATERAL (
            SELECT h.id FROM rota.open_runs h WHERE h.schedule_id = w.schedule_id AND h.held_by = 'overlap'
            ORDER BY h.scheduled_for
            LIMIT CASE WHEN w.is_free THEN NULL ELSE greatest(0, w.room - (
                SELECT count(*) FROM rota.open_runs r
                WHERE r.schedule_id = w.schedule_id AND r.held_by IS DISTINCT FROM 'overlap')) END
            FOR UPDATE SKIP LOCKED) o
    ), freed AS (
        UPDATE rota.open_runs o
        SET held_by = rota.hold_of(o.run_at <= clock, o.limit_keys, o.suspicion), limit_key = o.limit_keys[1],
            seq = nextval('rota.run_ids'), enqueued_at = clock_timestamp(),
            state = CASE WHEN o.run_at > clock THEN 'scheduled' ELSE 'queued' END
        WHERE o.id = ANY (ARRAY(SELECT id FROM chosen)) RETURNING o.queue, o.state, o.run_at, o.held_by
    )
    SELECT array_agg(DISTINCT queue) FILTER (WHERE state = 'queued' AND held_by IS NULL), array_agg(DISTINCT held_by),
        min(run_at) FILTER (WHERE state = 'scheduled')
    INTO touched, holds, soonest FROM freed;
    PERFORM rota.wake_for(touched, holds, soonest - clock);
END $$;
