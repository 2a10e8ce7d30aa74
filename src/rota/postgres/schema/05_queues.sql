-- `queues`: what somebody said about a queue. A queue needs no row to exist. Verbs: `pause_queue`, `resume_queue`;
-- `end_pauses` ends those whose time is over.

-- A queue needs no row to exist; a row holds what an operator said about it.
CREATE TABLE rota.queues (
    name                 text COLLATE "C" PRIMARY KEY CHECK (name <> '' AND length(name) <= 100),
    is_paused            boolean NOT NULL DEFAULT false,
    paused_at            timestamptz,
    paused_by            text,
    pause_reason         text,
    version              bigint NOT NULL DEFAULT 1,
    paused_until         timestamptz,
    -- How many runs may wait in a queue, and what happens when more come: they are refused, or those with the lowest
    -- priority are dropped. Queues without a cap cost one look at a short list per enqueue (settings.capped_queues).
    -- Workers count the waiting runs about every second; the cap is compared with that count.
    max_waiting          bigint CONSTRAINT queues_max_waiting CHECK (max_waiting BETWEEN 0 AND 1000000000),
    when_full            text COLLATE "C" NOT NULL DEFAULT 'refuse' CONSTRAINT queues_when_full
    CHECK (when_full IN ('refuse', 'drop_lowest')), declared_max_waiting bigint,            -- as the code said last
    declared_when_full   text COLLATE "C",  -- NULL: no code says anything
    is_edited            boolean NOT NULL DEFAULT false,
    description          text CONSTRAINT queues_description CHECK (length(description) <= 500),
    CHECK (is_paused = (paused_at IS NOT NULL))
);
CREATE INDEX queues_paused_until ON rota.queues (paused_until) WHERE paused_until IS NOT NULL;
COMMENT ON COLUMN rota.queues.paused_until IS 'when it resumes automatically; NULL: when somebody resumes it';

-- No run of the queue is claimed until it is resumed, or until that time; running attempts continue. If the queue is
-- paused already, a new end or reason replaces the old one. Returns whether it wrote: false if nothing differs.
-- Called by: operations/queues/queues.py, users.
CREATE FUNCTION rota.pause_queue(queue text, reason text DEFAULT NULL, actor text DEFAULT NULL,
    until timestamptz DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    clock timestamptz := rota.now();
    was   text[];
    is_changed boolean;
BEGIN
    IF pause_queue.until <= clock THEN
        RAISE EXCEPTION 'queue "%": the end of a pause must be in the future, not %', pause_queue.queue,
            pause_queue.until USING ERRCODE = 'RO002';
    END IF;
    was := rota.say_why(pause_queue.actor, pause_queue.reason);
    INSERT INTO rota.queues AS q (name, is_paused, paused_at, paused_by, pause_reason, paused_until)
    VALUES (pause_queue.queue, true, clock, rota.who(), pause_queue.reason, pause_queue.until)
    ON CONFLICT (name) DO UPDATE SET is_paused = true, paused_by = excluded.paused_by,
        paused_until = excluded.paused_until,
        paused_at = CASE WHEN rota.queue_is_paused(q) THEN q.paused_at ELSE excluded.paused_at END,
        pause_reason = CASE WHEN rota.queue_is_paused(q) THEN coalesce(excluded.pause_reason, q.pause_reason)
            ELSE excluded.pause_reason END
    WHERE NOT rota.queue_is_paused(q) OR q.paused_until IS DISTINCT FROM excluded.paused_until
       OR q.pause_reason IS DISTINCT FROM coalesce(excluded.pause_reason, q.pause_reason);
    is_changed := FOUND;
    PERFORM rota.unsay(was);
    RETURN is_changed;
END $$;

-- A pause whose time is over counts as none, before anybody has ended it.
-- Called by: many.
CREATE FUNCTION rota.queue_is_paused(q rota.queues) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT q.is_paused AND (q.paused_until IS NULL OR q.paused_until > rota.now())
$$;

-- Writes to the audit who paused or resumed a queue, and calls those who wait, now or when the pause ends.
-- Called by: after_queue.
CREATE FUNCTION rota.note_queue_pause(new rota.queues, old rota.queues) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    before jsonb := CASE WHEN OLD.name IS NOT NULL AND OLD.is_paused
        THEN jsonb_strip_nulls(jsonb_build_object('is_paused', true, 'paused_until', OLD.paused_until)) END;
    after  jsonb := CASE WHEN NEW.name IS NOT NULL AND NEW.is_paused
        THEN jsonb_strip_nulls(jsonb_build_object('is_paused', true, 'paused_until', NEW.paused_until)) END;
BEGIN
    IF after IS NOT NULL THEN
        -- An older pause whose time is over was none.
        PERFORM rota.write_audit(NULL, 'queue.paused', 'queue', NEW.name,
            CASE WHEN rota.queue_is_paused(OLD) THEN before END, after,
            CASE WHEN OLD.name IS NULL OR NEW.pause_reason IS DISTINCT FROM OLD.pause_reason THEN NEW.pause_reason END)
        WHERE OLD.name IS NULL OR (NEW.paused_at, NEW.paused_until, NEW.pause_reason)
            IS DISTINCT FROM (OLD.paused_at, OLD.paused_until, OLD.pause_reason);
        PERFORM rota.wake_later(NEW.paused_until - rota.now()) WHERE NEW.paused_until IS NOT NULL;
    ELSIF before IS NOT NULL THEN
        PERFORM rota.write_audit(NULL, 'queue.resumed', 'queue', OLD.name, before, '{"is_paused": false}');
        PERFORM rota.wake(ARRAY[OLD.name]), rota.wake_isolation();
    END IF;
END $$;

-- The queue goes on, and whoever waits for work is called. Returns whether it wrote: false if it was not paused.
-- Called by: operations/queues/queues.py, users.
CREATE FUNCTION rota.resume_queue(queue text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    was        text[] := rota.say_why(resume_queue.actor, resume_queue.reason);
    is_changed boolean;
BEGIN
    UPDATE rota.queues q SET is_paused = false, paused_at = NULL, paused_by = NULL, pause_reason = NULL,
        paused_until = NULL
    WHERE q.name = resume_queue.queue AND rota.queue_is_paused(q);
    is_changed := FOUND;
    PERFORM rota.unsay(was);
    RETURN is_changed;
END $$;

-- Ends pauses of queues whose time is over, and calls those who wait. Returns the seconds until the next one ends.
-- Called by: promote_runs.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.end_pauses(clock timestamptz) RETURNS double precision LANGUAGE plpgsql VOLATILE
SET jit = off AS $$
DECLARE
    over text[] := ARRAY(SELECT q.name FROM rota.queues q WHERE q.is_paused AND q.paused_until <= clock
                         ORDER BY q.name FOR UPDATE SKIP LOCKED);
    was  text[];
BEGIN
    IF over <> '{}' THEN
        was := rota.say_why('rota', 'the pause ended');
        UPDATE rota.queues q SET is_paused = false, paused_at = NULL, paused_by = NULL, pause_reason = NULL,
            paused_until = NULL
        WHERE q.name = ANY (over);
        PERFORM rota.unsay(was);
    END IF;
    RETURN (SELECT extract(epoch FROM min(q.paused_until) - clock) FROM rota.queues q
        WHERE q.is_paused AND q.paused_until > clock);
END $$;

-- Of queues that have a cap: what waits in them, apart from what people edit, which has versions.
CREATE TABLE rota.queue_caps (
    queue      text COLLATE "C" PRIMARY KEY,
    waiting    bigint NOT NULL DEFAULT 0,
    counted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    took_ms    double precision NOT NULL DEFAULT 0,
    full_since timestamptz,
    -- Runs from before the cap are marked in passes, as those of limits are: see begin_pass.
    adopted_id bigint DEFAULT 0,
    adopt_at   timestamptz DEFAULT clock_timestamp(),
    adopt_xid  xid8
) WITH (fillfactor = 50);
COMMENT ON TABLE rota.queue_caps IS 'The last count of waiting runs in queues that have a cap.';

-- Not undone by the transaction that is refused.
CREATE SEQUENCE rota.queue_refusals;

-- Says in words what is wrong with the cap of a queue.
-- Called by: before_queue.
CREATE FUNCTION rota.check_queue(new rota.queues, old rota.queues) RETURNS rota.queues
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF NOT coalesce(NEW.max_waiting BETWEEN 0 AND 1000000000, true) THEN
        RAISE EXCEPTION 'queue "%": max_waiting must be a whole number from 0 to 1000000000, not %', NEW.name,
            NEW.max_waiting
            USING ERRCODE = 'RO002', CONSTRAINT = 'cap_out_of_range', COLUMN = 'max_waiting',
                HINT = 'null removes the cap.';
    ELSIF NEW.when_full IS NULL OR NEW.when_full NOT IN ('refuse', 'drop_lowest') THEN
        RAISE EXCEPTION 'queue "%": when_full must be refuse or drop_lowest, not %', NEW.name,
            coalesce(NEW.when_full, 'NULL') USING ERRCODE = 'RO002', COLUMN = 'when_full';
    END IF;
    IF NEW.name = 'rota' || '.system' AND NEW.max_waiting IS NOT NULL THEN
        RAISE EXCEPTION 'queue "%" belongs to Rota and cannot have a cap', NEW.name USING ERRCODE = 'RO002';
    END IF;
    -- What an operator changes about a cap that the code declares stays theirs.
    IF NEW.declared_when_full IS NULL THEN
        NEW.is_edited := false;
    ELSIF NOT rota.is_syncing() THEN
        NEW.is_edited := (NEW.max_waiting, NEW.when_full) IS DISTINCT FROM (NEW.declared_max_waiting,
            NEW.declared_when_full);
    END IF;
    RETURN NEW;
END $$;

-- What people set of a queue; the defaults for one without a row.
-- Called by: note_queue_settings, set_queue, sql/queues/list.sql.
CREATE FUNCTION rota.queue_settings(q rota.queues) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_object('max_waiting', q.max_waiting, 'when_full', coalesce(q.when_full, 'refuse'),
        'description', q.description)
$$;

-- Changed settings of a queue are in the audit; one that gets a cap, or loses it, has its row of rota.queue_caps.
-- Called by: after_queue.
CREATE FUNCTION rota.note_queue_settings(new rota.queues, old rota.queues) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    whose  text := coalesce(NEW.name, OLD.name);
    before jsonb := rota.queue_settings(OLD);
    after  jsonb := rota.queue_settings(NEW);
BEGIN
    IF before = after THEN
        RETURN;
    END IF;
    PERFORM rota.write_audit(NULL, 'queue.updated', 'queue', whose,
        (SELECT jsonb_object_agg(o.key, o.value) FROM jsonb_each(before) o
            WHERE o.value IS DISTINCT FROM after -> o.key),
        (SELECT jsonb_object_agg(n.key, n.value) FROM jsonb_each(after) n
            WHERE n.value IS DISTINCT FROM before -> n.key));
    IF before -> 'max_waiting' = after -> 'max_waiting' AND before -> 'when_full' = after -> 'when_full' THEN
        RETURN;
    ELSIF after -> 'max_waiting' = 'null' THEN
        DELETE FROM rota.queue_caps c WHERE c.queue = whose;
        UPDATE rota.settings s SET capped_queues = array_remove(s.capped_queues, whose)
        WHERE whose = ANY (s.capped_queues);
    ELSE
        -- What is known now, so that the cap holds at once; counted_at: somebody counts soon.
        INSERT INTO rota.queue_caps (queue, waiting, counted_at)
        SELECT whose, coalesce(sum(d.blocked + d.scheduled + d.queued), 0), clock_timestamp() - interval '1 minute'
        FROM rota.kept_depths() d WHERE d.queue = whose
        ON CONFLICT (queue) DO NOTHING;
        -- From the rows as they are now: two concurrent changes see each other.
        UPDATE rota.settings s SET capped_queues = array_append(s.capped_queues, whose)
        WHERE whose <> ALL (s.capped_queues);
    END IF;
    PERFORM rota.call_workers('tenants');
END $$;

-- Trigger: all that happens before a queue is written, in this order.
CREATE FUNCTION rota.before_queue() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF TG_OP = 'INSERT' OR (NEW.max_waiting, NEW.when_full, NEW.declared_max_waiting, NEW.declared_when_full)
        IS DISTINCT FROM (OLD.max_waiting, OLD.when_full, OLD.declared_max_waiting, OLD.declared_when_full) THEN
        NEW := rota.check_queue(NEW, OLD);
    END IF;
    IF TG_OP = 'UPDATE' THEN
        NEW.version := rota.next_version(OLD.version, to_jsonb(OLD), to_jsonb(NEW), '{version}');
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER queues_before BEFORE INSERT OR UPDATE ON rota.queues FOR EACH ROW EXECUTE FUNCTION rota.before_queue();

-- Trigger: all that follows from a written queue, in this order.
CREATE FUNCTION rota.after_queue() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    PERFORM rota.note_queue_settings(NEW, OLD);
    IF TG_OP <> 'UPDATE' OR (NEW.is_paused, NEW.paused_at, NEW.paused_until, NEW.pause_reason)
        IS DISTINCT FROM (OLD.is_paused, OLD.paused_at, OLD.paused_until, OLD.pause_reason) THEN
        PERFORM rota.note_queue_pause(NEW, OLD);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER queues_after AFTER INSERT OR UPDATE OR DELETE ON rota.queues FOR EACH ROW
    EXECUTE FUNCTION rota.after_queue();

-- Changes settings of a queue, for operators: {"max_waiting": 1000, "when_full": "drop_lowest"}; null removes the cap.
-- Called by: operations/queues/queues.py, users.
CREATE FUNCTION rota.set_queue(queue text, settings jsonb, reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    known constant text[] := ARRAY(SELECT jsonb_object_keys(rota.queue_settings(NULL)) ORDER BY 1);
    odd   text;
    was   text[];
BEGIN
    IF set_queue.queue IS NULL OR length(set_queue.queue) NOT BETWEEN 1 AND 100 THEN
        RAISE EXCEPTION 'the name of a queue must have 1 to 100 characters' USING ERRCODE = 'RO002';
    ELSIF set_queue.settings IS NULL OR jsonb_typeof(set_queue.settings) <> 'object' THEN
        RAISE EXCEPTION 'the settings of queue "%" must be a JSON object', set_queue.queue USING ERRCODE = 'RO002';
    END IF;
    SELECT k INTO odd FROM jsonb_object_keys(set_queue.settings) k WHERE k <> ALL (known) LIMIT 1;
    IF odd IS NOT NULL THEN
        RAISE EXCEPTION 'unknown queue setting "%"', odd
            USING ERRCODE = 'RO002', HINT = 'Choose from ' || array_to_string(known, ', ') || '.';
    ELSIF jsonb_typeof(set_queue.settings -> 'max_waiting') NOT IN ('number', 'null')
        OR (set_queue.settings ->> 'max_waiting')::numeric % 1 <> 0
          OR NOT (set_queue.settings ->> 'max_waiting')::numeric BETWEEN 0 AND 1000000000 THEN
        RAISE EXCEPTION 'queue "%": max_waiting must be a whole number from 0 to 1000000000, not %', set_queue.queue,
            left((set_queue.settings -> 'max_waiting')::text, 60)
                USING ERRCODE = 'RO002', CONSTRAINT = 'cap_out_of_range', COLUMN = 'max_waiting',
                HINT = 'null removes the cap.';
    END IF;
    was := rota.say_why(set_queue.actor, set_queue.reason);
    INSERT INTO rota.queues (name) VALUES (set_queue.queue) ON CONFLICT (name) DO NOTHING;
    UPDATE rota.queues q
    SET max_waiting = s.max_waiting, when_full = coalesce(s.when_full, 'refuse'), description = s.description
    FROM rota.queues o CROSS JOIN LATERAL jsonb_populate_record(o, set_queue.settings) s
    WHERE q.name = set_queue.queue AND o.name = q.name AND rota.queue_settings(o) <> rota.queue_settings(s);
    PERFORM rota.unsay(was);
END $$;

-- Sets what code declares about a queue; what an operator has changed stays. Of an application, the newest build
-- decides. Returns whether it wrote.
-- Called by: postgres/queues.py, users.
-- Locks: rows.
CREATE FUNCTION rota.put_queue(queue text, max_waiting bigint, when_full text DEFAULT 'refuse',
    actor text DEFAULT NULL, application text DEFAULT NULL, build text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off SET lock_timeout = '1s' AS $$
#variable_conflict use_column
DECLARE
    was        text[];
    is_written boolean;
BEGIN
    IF EXISTS (SELECT FROM rota.queues q WHERE q.name = put_queue.queue
               AND (q.declared_max_waiting, q.declared_when_full) IS NOT DISTINCT FROM (put_queue.max_waiting,
                   put_queue.when_full)) THEN
        RETURN false;
    END IF;
    was := rota.say_why(put_queue.actor, NULL);
    PERFORM set_config('rota' || '.syncing', 'on', true);
    INSERT INTO rota.queues (name) VALUES (put_queue.queue) ON CONFLICT (name) DO NOTHING;
    PERFORM FROM rota.queues q WHERE q.name = put_queue.queue FOR UPDATE;
    -- A cap that somebody has set before any code spoke of it is theirs too.
    UPDATE rota.queues q
    SET declared_max_waiting = put_queue.max_waiting, declared_when_full = put_queue.when_full,
        is_edited = q.is_edited OR (q.declared_when_full IS NULL AND q.max_waiting IS NOT NULL
                                    AND (q.max_waiting, q.when_full) IS DISTINCT FROM (put_queue.max_waiting,
                                        put_queue.when_full)),
        max_waiting = CASE WHEN q.is_edited OR (q.declared_when_full IS NULL AND q.max_waiting IS NOT NULL)
            THEN q.max_waiting ELSE put_queue.max_waiting END,
        when_full = CASE WHEN q.is_edited OR (q.declared_when_full IS NULL AND q.max_waiting IS NOT NULL)
            THEN q.when_full ELSE put_queue.when_full END
    WHERE q.name = put_queue.queue AND (q.declared_when_full IS NULL OR put_queue.application IS NULL
        OR rota.is_newest(put_queue.application, put_queue.build));
    is_written := FOUND;
    PERFORM set_config('rota' || '.syncing', '', true), rota.unsay(was);
    RETURN is_written;
END $$;

-- Sets a queue back to what the code says; no cap, if it says nothing.
-- Called by: operations/queues/queues.py, users.
CREATE FUNCTION rota.reset_queue(queue text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    was text[] := rota.say_why(reset_queue.actor, reset_queue.reason);
BEGIN
    UPDATE rota.queues q SET max_waiting = q.declared_max_waiting, when_full = coalesce(q.declared_when_full, 'refuse')
    WHERE q.name = reset_queue.queue AND (q.max_waiting, q.when_full) IS DISTINCT FROM (q.declared_max_waiting,
        coalesce(q.declared_when_full, 'refuse'));
    PERFORM rota.unsay(was);
END $$;

-- Counts the waiting runs of a capped queue up to a maximum: beyond it the queue is full anyway.
-- Called by: check_cap, tend_caps.
CREATE FUNCTION rota.count_capped(of_queue text, most bigint) RETURNS bigint LANGUAGE sql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    SELECT count(*) FROM (SELECT FROM rota.open_runs o WHERE o.is_capped AND o.queue = of_queue AND o.state <> 'running'
        LIMIT most) w
$$;

-- Cancels the waiting runs beyond the cap: those with the lowest priority, newest first. A run that has been claimed
-- before stays.
-- Called by: check_cap, tend_caps.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.drop_lowest(of_queue text, most bigint) RETURNS integer LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_sort = off SET jit = off AS $$
DECLARE
    gone bigint[] := ARRAY(
        SELECT o.id FROM rota.open_runs o
        WHERE o.is_capped AND o.queue = of_queue AND o.state IN ('queued', 'scheduled') AND o.attempt = 0
        ORDER BY o.queue DESC, o.priority DESC, o.seq DESC LIMIT most FOR UPDATE SKIP LOCKED);
BEGIN
    IF gone = '{}' THEN
        RETURN 0;
    END IF;
    UPDATE rota.ledger g SET decision = 'skipped', reason = 'queue_full', run_id = NULL, enqueued_at = NULL,
        state = NULL,
        details = coalesce(g.details, '{}') || jsonb_build_object('queue', of_queue, 'run', o.id)
    -- One by one and by id, not over all that schedules have open.
    FROM unnest(gone) AS u (id) CROSS JOIN LATERAL (SELECT r.id, r.schedule_id, r.scheduled_for FROM rota.open_runs r
        WHERE r.id = u.id OFFSET 0) o
    WHERE o.schedule_id IS NOT NULL AND g.schedule_id = o.schedule_id AND g.nominal_at = o.scheduled_for
      AND g.run_id = o.id;
    PERFORM rota.end_waiting_runs(gone, 'cancelled', 'queue full');
    INSERT INTO rota.count_changes (name, labels, amount)
    VALUES ('runs_dropped', jsonb_build_object('queue', of_queue), cardinality(gone));
    RETURN cardinality(gone);
END $$;

-- Whether the queue has a cap. RO032 if so many more runs do not fit and it refuses. It compares with what a worker
-- counted about a second ago; where no worker has for a while, it counts itself.
-- Called by: enqueue_batch, enqueue_many, enqueue_run, retry_run, users.
CREATE FUNCTION rota.check_cap(queue text, runs bigint DEFAULT 1) RETURNS boolean LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    q record;
BEGIN
    SELECT k.max_waiting, k.when_full, c.waiting, c.adopted_id IS NULL OR c.adopt_xid IS NOT NULL AS is_read,
        c.counted_at < clock_timestamp() - make_interval(secs => 5 + c.took_ms / 50) AS is_old INTO q
    FROM rota.queues k JOIN rota.queue_caps c ON c.queue = k.name
    WHERE k.name = check_cap.queue AND k.max_waiting IS NOT NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF q.is_old THEN
        q.waiting := greatest(rota.count_capped(check_cap.queue, q.max_waiting + check_cap.runs + 100),
            CASE WHEN NOT q.is_read THEN q.waiting END);
        IF q.when_full = 'drop_lowest' AND q.waiting > q.max_waiting THEN
            PERFORM rota.drop_lowest(check_cap.queue, q.waiting - q.max_waiting);
        END IF;
    END IF;
    IF q.when_full = 'refuse' AND q.waiting + check_cap.runs > q.max_waiting THEN
        PERFORM nextval('rota.queue_refusals');
        RAISE EXCEPTION 'queue "%" is full: %, and its cap is %', check_cap.queue,
            CASE q.waiting WHEN 1 THEN '1 run waits' ELSE rota.plural_words(q.waiting, 'run') || ' wait' END,
            rota.number_words(q.max_waiting) || CASE WHEN check_cap.runs > 1
                THEN format('; %s more do not fit', rota.number_words(check_cap.runs)) ELSE '' END
            USING ERRCODE = 'RO032', DETAIL = jsonb_build_object('queue', check_cap.queue, 'waiting', q.waiting,
                'max_waiting', q.max_waiting, 'runs', check_cap.runs),
                HINT = 'Retry when some have started, raise max_waiting of the queue, or set its when_full to '
                'drop_lowest, which drops the runs with the lowest priority.';
    END IF;
    RETURN true;
END $$;

-- Whether the runs of a schedule would be refused: its times are skipped.
-- Called by: note_skipped_inits, run_inits, sql/schedules/read_due.sql.
CREATE FUNCTION rota.has_full_queue(of_schedule bigint) RETURNS boolean LANGUAGE sql STABLE
SET enable_seqscan = off SET jit = off AS $$
    SELECT EXISTS (
        SELECT FROM rota.schedules s JOIN rota.jobs j ON j.name = s.job
        JOIN rota.queues q ON q.name = coalesce(s.queue, j.queue) AND q.max_waiting IS NOT NULL
            AND q.when_full = 'refuse'
        JOIN rota.queue_caps c ON c.queue = q.name AND c.waiting >= q.max_waiting
        WHERE s.id = of_schedule)
$$;

-- One turn of a worker: counts what waits in capped queues, drops what is too much, marks runs from before a cap.
-- Returns how much it did and after how many seconds somebody should look again; NULL: there is no cap.
-- Called by: sql/tenants/tend.sql.
-- Locks: "caps" if it is free, rows that nobody else has locked.
CREATE FUNCTION rota.tend_caps(max_runs integer DEFAULT 5000, OUT moved integer, OUT next_seconds double precision)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET lock_timeout = '5s' AS $$
DECLARE
    turn    timestamptz := clock_timestamp();
    began   timestamptz;
    one     record;
    found   bigint;
    seen    integer;
    last_id bigint;
    is_read boolean;
BEGIN
    moved := 0;
    IF NOT EXISTS (SELECT FROM rota.queue_caps) THEN
        RETURN;
    END IF;
    next_seconds := 1;
    IF NOT rota.try_lock('caps') THEN
        RETURN;
    END IF;
    FOR one IN SELECT q.name, q.max_waiting, q.when_full, c.waiting, c.adopted_id, c.adopt_at, c.adopt_xid
               FROM rota.queue_caps c
        JOIN rota.queues q ON q.name = c.queue
               WHERE q.max_waiting IS NOT NULL ORDER BY q.name LOOP
        began := clock_timestamp();
        -- Known after the first pass; those after it look for what has committed late.
        is_read := one.adopted_id IS NULL OR one.adopt_xid IS NOT NULL;
        IF one.adopted_id IS NOT NULL OR one.adopt_at <= began THEN
            SELECT * INTO one.adopted_id, one.adopt_at, one.adopt_xid
            FROM rota.begin_pass(one.adopted_id, one.adopt_at, one.adopt_xid);
            SELECT max(r.id), count(*) INTO last_id, seen
            FROM (SELECT o.id FROM rota.open_runs o WHERE o.id > one.adopted_id ORDER BY o.id LIMIT max_runs) r;
            UPDATE rota.open_runs o SET is_capped = true
            WHERE o.id = ANY (ARRAY(SELECT w.id FROM rota.open_runs w WHERE w.id > one.adopted_id AND w.id <= last_id
                AND w.queue = one.name
                                    AND NOT w.is_capped ORDER BY w.id FOR UPDATE SKIP LOCKED));
            is_read := is_read OR seen < max_runs;
            moved := moved + seen;
            IF seen < max_runs THEN
                one.adopt_at := rota.next_pass(one.adopt_at);
            END IF;
            one.adopted_id := CASE WHEN seen >= max_runs THEN last_id END;
        END IF;
        -- Until all are marked, what was known when the cap was set. Beyond the cap, as many as are dropped in one
        -- turn: a long queue takes longer to be counted than to lose some.
        found := CASE WHEN is_read THEN rota.count_capped(one.name, one.max_waiting + 4 * max_runs)
            ELSE one.waiting END;
        IF is_read AND one.when_full = 'drop_lowest' AND found > one.max_waiting THEN
            seen := rota.drop_lowest(one.name, found - one.max_waiting);
            moved := moved + seen;
            found := found - seen;
        END IF;
        UPDATE rota.queue_caps c SET waiting = found, counted_at = clock_timestamp(), took_ms = extract(epoch
            FROM clock_timestamp() - began) * 1000,
            full_since = CASE WHEN found >= one.max_waiting THEN coalesce(c.full_since, rota.now()) END,
            adopted_id = one.adopted_id, adopt_at = one.adopt_at, adopt_xid = one.adopt_xid
        WHERE c.queue = one.name;
    END LOOP;
    -- At most a tenth of somebody's time goes into it.
    next_seconds := greatest(next_seconds, 10 * extract(epoch FROM clock_timestamp() - turn));
END $$;
