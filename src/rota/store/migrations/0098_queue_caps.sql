-- How many runs may wait in a queue, and what happens when more come: they are refused, or the least important ones go. Queues without a cap
-- pay for a look at a short list at enqueue (settings.capped_queues). What a cap compares with is counted by workers, about every second.
ALTER TABLE rota.queues
    ADD COLUMN max_waiting bigint CONSTRAINT queues_max_waiting CHECK (max_waiting BETWEEN 0 AND 1000000000),
    ADD COLUMN when_full text COLLATE "C" NOT NULL DEFAULT 'refuse' CONSTRAINT queues_when_full CHECK (when_full IN ('refuse', 'drop_lowest')),
    ADD COLUMN declared_max_waiting bigint,         -- as the code said last
    ADD COLUMN declared_when_full text COLLATE "C", -- NULL: no code says anything
    ADD COLUMN is_edited boolean NOT NULL DEFAULT false;
ALTER TABLE rota.settings ADD COLUMN capped_queues text[] COLLATE "C" NOT NULL DEFAULT '{}';
SELECT rota.guard_values('rota.settings', false);

-- Of queues that have a cap: what waits in them, apart from what people edit, which has versions.
CREATE TABLE rota.queue_caps (
    queue      text COLLATE "C" PRIMARY KEY,
    waiting    bigint NOT NULL DEFAULT 0,
    counted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    took_ms    double precision NOT NULL DEFAULT 0,
    full_since timestamptz,
    adopted_id bigint DEFAULT 0                     -- runs of before the cap are marked up to this number; NULL: all are
) WITH (fillfactor = 50);
COMMENT ON TABLE rota.queue_caps IS 'What waits in queues that have a cap, as it was counted last.';
-- Not undone by the transaction that is refused.
CREATE SEQUENCE rota.queue_refusals;
INSERT INTO rota.locks (name) VALUES ('caps');

-- Runs of capped queues, ready, held and for later alike. A claim changes nothing that the index knows, and others are not in it.
ALTER TABLE rota.open_runs ADD COLUMN is_capped boolean NOT NULL DEFAULT false;
CREATE INDEX open_runs_capped ON rota.open_runs (queue, priority, seq) WHERE is_capped;

-- Changes of a cap, by whatever statement.
CREATE FUNCTION rota.check_queue() RETURNS trigger LANGUAGE plpgsql SET jit = off AS $$
BEGIN
    IF NOT coalesce(NEW.max_waiting BETWEEN 0 AND 1000000000, true) THEN
        RAISE EXCEPTION 'queue "%": max_waiting must be a whole number from 0 to 1000000000, not %', NEW.name, NEW.max_waiting
            USING ERRCODE = 'RO002', HINT = 'NULL takes the cap away.';
    ELSIF NEW.when_full IS NULL OR NEW.when_full NOT IN ('refuse', 'drop_lowest') THEN
        RAISE EXCEPTION 'queue "%": when_full is refuse or drop_lowest, not %', NEW.name, coalesce(NEW.when_full, 'NULL') USING ERRCODE = 'RO002';
    END IF;
    IF NEW.name = 'rota' || '.system' AND NEW.max_waiting IS NOT NULL THEN
        RAISE EXCEPTION 'queue "%" is of Rota''s own jobs, and has no cap', NEW.name USING ERRCODE = 'RO002';
    END IF;
    -- What an operator changes about a cap that the code declares stays theirs.
    IF NEW.declared_when_full IS NULL THEN
        NEW.is_edited := false;
    ELSIF NOT rota.is_syncing() THEN
        NEW.is_edited := (NEW.max_waiting, NEW.when_full) IS DISTINCT FROM (NEW.declared_max_waiting, NEW.declared_when_full);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER queues_check BEFORE INSERT OR UPDATE OF max_waiting, when_full, declared_max_waiting, declared_when_full ON rota.queues
    FOR EACH ROW EXECUTE FUNCTION rota.check_queue();

CREATE FUNCTION rota.note_queue_cap() RETURNS trigger LANGUAGE plpgsql SET jit = off AS $$
DECLARE
    whose  text := CASE TG_OP WHEN 'DELETE' THEN OLD.name ELSE NEW.name END;
    before jsonb := CASE WHEN TG_OP <> 'INSERT' THEN jsonb_build_object('max_waiting', OLD.max_waiting, 'when_full', OLD.when_full)
                    ELSE '{"max_waiting": null, "when_full": "refuse"}' END;
    after  jsonb := CASE WHEN TG_OP <> 'DELETE' THEN jsonb_build_object('max_waiting', NEW.max_waiting, 'when_full', NEW.when_full)
                    ELSE '{"max_waiting": null, "when_full": "refuse"}' END;
BEGIN
    IF before = after THEN
        RETURN NULL;
    END IF;
    PERFORM rota.write_audit(NULL, 'queue.updated', 'queue', whose,
        (SELECT jsonb_object_agg(o.key, o.value) FROM jsonb_each(before) o WHERE o.value IS DISTINCT FROM after -> o.key),
        (SELECT jsonb_object_agg(n.key, n.value) FROM jsonb_each(after) n WHERE n.value IS DISTINCT FROM before -> n.key));
    IF after -> 'max_waiting' = 'null' THEN
        DELETE FROM rota.queue_caps c WHERE c.queue = whose;
        UPDATE rota.settings s SET capped_queues = array_remove(s.capped_queues, whose) WHERE whose = ANY (s.capped_queues);
    ELSE
        -- What is known now, so that the cap holds at once; counted_at: somebody counts soon.
        INSERT INTO rota.queue_caps (queue, waiting, counted_at)
        SELECT whose, coalesce(sum(d.blocked + d.scheduled + d.queued), 0), clock_timestamp() - interval '1 minute'
        FROM rota.kept_depths() d WHERE d.queue = whose
        ON CONFLICT (queue) DO NOTHING;
        -- From what is there by then: two at once see each other.
        UPDATE rota.settings s SET capped_queues = array_append(s.capped_queues, whose) WHERE whose <> ALL (s.capped_queues);
    END IF;
    PERFORM pg_notify('rota', 'tenants');
    RETURN NULL;
END $$;
CREATE TRIGGER queues_cap AFTER INSERT OR DELETE OR UPDATE OF max_waiting, when_full ON rota.queues
    FOR EACH ROW EXECUTE FUNCTION rota.note_queue_cap();

-- What operators say about a queue: {"max_waiting": 1000, "when_full": "drop_lowest"}; null takes the cap away.
CREATE FUNCTION rota.set_queue(queue text, settings jsonb, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    known constant text[] := '{max_waiting,when_full}';
    odd   text;
    was   text;
BEGIN
    IF set_queue.queue IS NULL OR length(set_queue.queue) NOT BETWEEN 1 AND 100 THEN
        RAISE EXCEPTION 'the name of a queue has 1 to 100 characters' USING ERRCODE = 'RO002';
    ELSIF set_queue.settings IS NULL OR jsonb_typeof(set_queue.settings) <> 'object' THEN
        RAISE EXCEPTION 'the settings of queue "%" are a JSON object', set_queue.queue USING ERRCODE = 'RO002';
    END IF;
    SELECT k INTO odd FROM jsonb_object_keys(set_queue.settings) k WHERE k <> ALL (known) LIMIT 1;
    IF odd IS NOT NULL THEN
        RAISE EXCEPTION 'a queue has no setting "%"', odd USING ERRCODE = 'RO002', HINT = 'It has ' || array_to_string(known, ', ') || '.';
    ELSIF jsonb_typeof(set_queue.settings -> 'max_waiting') NOT IN ('number', 'null') OR (set_queue.settings ->> 'max_waiting')::numeric % 1 <> 0
          OR NOT (set_queue.settings ->> 'max_waiting')::numeric BETWEEN 0 AND 1000000000 THEN
        RAISE EXCEPTION 'queue "%": max_waiting must be a whole number from 0 to 1000000000, not %', set_queue.queue,
            left((set_queue.settings -> 'max_waiting')::text, 60) USING ERRCODE = 'RO002', HINT = 'null takes the cap away.';
    END IF;
    was := rota.say_why(set_queue.actor, set_queue.reason);
    INSERT INTO rota.queues (name) VALUES (set_queue.queue) ON CONFLICT (name) DO NOTHING;
    UPDATE rota.queues q
    SET max_waiting = CASE WHEN set_queue.settings ? 'max_waiting' THEN (set_queue.settings ->> 'max_waiting')::bigint ELSE q.max_waiting END,
        when_full = CASE WHEN set_queue.settings ? 'when_full' THEN coalesce(set_queue.settings ->> 'when_full', 'refuse') ELSE q.when_full END
    WHERE q.name = set_queue.queue AND (
        set_queue.settings ? 'max_waiting' AND q.max_waiting IS DISTINCT FROM (set_queue.settings ->> 'max_waiting')::bigint
        OR set_queue.settings ? 'when_full' AND q.when_full <> coalesce(set_queue.settings ->> 'when_full', 'refuse'));
    PERFORM set_config('rota' || '.reason', was, true);
END $$;

-- What code declares; what an operator has changed stays.
CREATE FUNCTION rota.put_queue(queue text, max_waiting bigint, when_full text DEFAULT 'refuse', actor text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET jit = off SET lock_timeout = '5s' AS $$
#variable_conflict use_column
DECLARE
    is_new boolean;
BEGIN
    IF EXISTS (SELECT FROM rota.queues q WHERE q.name = put_queue.queue
               AND (q.declared_max_waiting, q.declared_when_full) IS NOT DISTINCT FROM (put_queue.max_waiting, put_queue.when_full)) THEN
        RETURN false;
    END IF;
    PERFORM rota.act_as(put_queue.actor);
    PERFORM set_config('rota' || '.syncing', 'on', true);
    INSERT INTO rota.queues (name) VALUES (put_queue.queue) ON CONFLICT (name) DO NOTHING;
    -- A cap that somebody has set before any code spoke of it is theirs too.
    UPDATE rota.queues q
    SET declared_max_waiting = put_queue.max_waiting, declared_when_full = put_queue.when_full,
        is_edited = q.is_edited OR (q.declared_when_full IS NULL AND q.max_waiting IS NOT NULL
                                    AND (q.max_waiting, q.when_full) IS DISTINCT FROM (put_queue.max_waiting, put_queue.when_full)),
        max_waiting = CASE WHEN q.is_edited OR (q.declared_when_full IS NULL AND q.max_waiting IS NOT NULL) THEN q.max_waiting ELSE put_queue.max_waiting END,
        when_full = CASE WHEN q.is_edited OR (q.declared_when_full IS NULL AND q.max_waiting IS NOT NULL) THEN q.when_full ELSE put_queue.when_full END
    WHERE q.name = put_queue.queue;
    PERFORM set_config('rota' || '.syncing', '', true);
    RETURN true;
END $$;

-- Back to what the code says; no cap, if it says nothing.
CREATE FUNCTION rota.reset_queue(queue text, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    was text := rota.say_why(reset_queue.actor, reset_queue.reason);
BEGIN
    UPDATE rota.queues q SET max_waiting = q.declared_max_waiting, when_full = coalesce(q.declared_when_full, 'refuse')
    WHERE q.name = reset_queue.queue AND (q.max_waiting, q.when_full) IS DISTINCT FROM (q.declared_max_waiting, coalesce(q.declared_when_full, 'refuse'));
    PERFORM set_config('rota' || '.reason', was, true);
END $$;

-- What an enqueue asks.

-- Up to so many: what is over that is full anyway.
CREATE FUNCTION rota.count_capped(of_queue text, most bigint) RETURNS bigint LANGUAGE sql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    SELECT count(*) FROM (SELECT FROM rota.open_runs o WHERE o.is_capped AND o.queue = of_queue AND o.state <> 'running' LIMIT most) w
$$;

-- The least important that wait end, of those the newest first. What has been at work before stays.
CREATE FUNCTION rota.drop_lowest(of_queue text, most bigint) RETURNS integer LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    gone bigint[] := ARRAY(
        SELECT o.id FROM rota.open_runs o
        WHERE o.is_capped AND o.queue = of_queue AND o.state IN ('queued', 'scheduled') AND o.attempt = 0
        ORDER BY o.queue DESC, o.priority DESC, o.seq DESC LIMIT most FOR UPDATE SKIP LOCKED);
BEGIN
    IF gone = '{}' THEN
        RETURN 0;
    END IF;
    UPDATE rota.ledger g SET decision = 'skipped', reason = 'queue_full', run_id = NULL, enqueued_at = NULL, state = NULL,
        details = coalesce(g.details, '{}') || jsonb_build_object('queue', of_queue, 'run', o.id)
    -- One by one and by id, not over all that schedules have open.
    FROM unnest(gone) AS u (id) CROSS JOIN LATERAL (SELECT r.id, r.schedule_id, r.scheduled_for FROM rota.open_runs r WHERE r.id = u.id OFFSET 0) o
    WHERE o.schedule_id IS NOT NULL AND g.schedule_id = o.schedule_id AND g.nominal_at = o.scheduled_for AND g.run_id = o.id;
    PERFORM rota.end_waiting_runs(gone, 'cancelled', 'queue full');
    INSERT INTO rota.count_changes (name, labels, amount) VALUES ('runs_dropped', jsonb_build_object('queue', of_queue), cardinality(gone));
    RETURN cardinality(gone);
END $$;

-- Whether the queue has a cap. RO032 if so many more runs do not fit and it refuses. It compares with what a worker counted about a second ago; where
-- no worker has for a while, it counts itself.
CREATE FUNCTION rota.check_cap(queue text, runs bigint DEFAULT 1) RETURNS boolean LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
DECLARE
    q record;
BEGIN
    SELECT k.max_waiting, k.when_full, c.waiting, c.adopted_id IS NULL AS is_read,
        c.counted_at < clock_timestamp() - make_interval(secs => 5 + c.took_ms / 50) AS is_old INTO q
    FROM rota.queues k JOIN rota.queue_caps c ON c.queue = k.name WHERE k.name = check_cap.queue AND k.max_waiting IS NOT NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF q.is_old THEN
        q.waiting := greatest(rota.count_capped(check_cap.queue, q.max_waiting + check_cap.runs + 100), CASE WHEN NOT q.is_read THEN q.waiting END);
        IF q.when_full = 'drop_lowest' AND q.waiting > q.max_waiting THEN
            PERFORM rota.drop_lowest(check_cap.queue, q.waiting - q.max_waiting);
        END IF;
    END IF;
    IF q.when_full = 'refuse' AND q.waiting + check_cap.runs > q.max_waiting THEN
        PERFORM nextval('rota.queue_refusals');
        RAISE EXCEPTION 'queue "%" is full: % in it, and % may%', check_cap.queue,
            CASE q.waiting WHEN 1 THEN '1 run waits' ELSE rota.plural_words(q.waiting, 'run') || ' wait' END, rota.number_words(q.max_waiting),
            CASE WHEN check_cap.runs > 1 THEN format('; %s more do not fit', rota.number_words(check_cap.runs)) ELSE '' END
            USING ERRCODE = 'RO032', HINT = 'Enqueue again when some have started, raise the cap (rota queues set --max-waiting), or let the least '
                'important ones go (--when-full drop_lowest).';
    END IF;
    RETURN true;
END $$;

-- Whether the runs of a schedule would be refused: its times are skipped.
CREATE FUNCTION rota.has_full_queue(of_schedule bigint) RETURNS boolean LANGUAGE sql STABLE SET enable_seqscan = off SET jit = off AS $$
    SELECT EXISTS (
        SELECT FROM rota.schedules s JOIN rota.jobs j ON j.name = s.job
        JOIN rota.queues q ON q.name = coalesce(s.queue, j.queue) AND q.max_waiting IS NOT NULL AND q.when_full = 'refuse'
        JOIN rota.queue_caps c ON c.queue = q.name AND c.waiting >= q.max_waiting
        WHERE s.id = of_schedule)
$$;

-- One turn of a worker: counts what waits in capped queues, drops what is too much, marks runs from before a cap. Answers how much it did and after
-- how many seconds somebody should look again; NULL: there is no cap.
CREATE FUNCTION rota.tend_caps(max_runs integer DEFAULT 5000, OUT moved integer, OUT next_seconds double precision) LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET lock_timeout = '5s' AS $$
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
    FOR one IN SELECT q.name, q.max_waiting, q.when_full, c.waiting, c.adopted_id FROM rota.queue_caps c JOIN rota.queues q ON q.name = c.queue
               WHERE q.max_waiting IS NOT NULL ORDER BY q.name LOOP
        began := clock_timestamp();
        is_read := one.adopted_id IS NULL;
        IF NOT is_read THEN
            SELECT max(r.id), count(*) INTO last_id, seen
            FROM (SELECT o.id FROM rota.open_runs o WHERE o.id > one.adopted_id ORDER BY o.id LIMIT max_runs) r;
            UPDATE rota.open_runs o SET is_capped = true
            WHERE o.id = ANY (ARRAY(SELECT w.id FROM rota.open_runs w WHERE w.id > one.adopted_id AND w.id <= last_id AND w.queue = one.name
                                    AND NOT w.is_capped ORDER BY w.id FOR UPDATE SKIP LOCKED));
            is_read := seen < max_runs;
            moved := moved + seen;
        END IF;
        -- Until all are marked, what was known when the cap was set. Beyond the cap, as many as are dropped in one turn: a long queue takes
        -- longer to be counted than to lose some.
        found := CASE WHEN is_read THEN rota.count_capped(one.name, one.max_waiting + 4 * max_runs) ELSE one.waiting END;
        IF is_read AND one.when_full = 'drop_lowest' AND found > one.max_waiting THEN
            seen := rota.drop_lowest(one.name, found - one.max_waiting);
            moved := moved + seen;
            found := found - seen;
        END IF;
        UPDATE rota.queue_caps c SET waiting = found, counted_at = clock_timestamp(), took_ms = extract(epoch FROM clock_timestamp() - began) * 1000,
            full_since = CASE WHEN found >= one.max_waiting THEN coalesce(c.full_since, rota.now()) END,
            adopted_id = CASE WHEN NOT is_read THEN last_id END
        WHERE c.queue = one.name;
    END LOOP;
    -- At most a tenth of somebody's time goes into it.
    next_seconds := greatest(next_seconds, 10 * extract(epoch FROM clock_timestamp() - turn));
END $$;

-- Every way in. As these functions are defined now, each with a few words more.
CREATE FUNCTION rota.patch_function(of_name text, VARIADIC changes text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    text text := (SELECT pg_get_functiondef(p.oid) FROM pg_proc p WHERE p.proname = of_name
                  AND p.pronamespace = (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'rota.queues'::regclass));
BEGIN
    FOR n IN 1..cardinality(changes) BY 2 LOOP
        IF strpos(text, changes[n]) = 0 THEN
            RAISE EXCEPTION 'function % is written in a way that this migration does not know: %', of_name, changes[n];
        END IF;
        text := replace(text, changes[n], changes[n + 1]);
    END LOOP;
    EXECUTE text;
END $$;

SELECT rota.patch_function('enqueue_run',
    'latest timestamptz;', $x$latest timestamptz;
    capped boolean := false;$x$,
    's.has_limits INTO def', 's.has_limits, s.capped_queues INTO def',
    $x$THEN 'limit' END, limit_keys = keys,$x$, $x$THEN 'limit' END, is_capped = (enqueue_run.queue = ANY (def.capped_queues)), limit_keys = keys,$x$,
    $x$    IF enqueue_run.tenant <> '' THEN
        PERFORM rota.check_quota$x$, $x$    IF enqueue_run.queue = ANY (def.capped_queues) THEN
        capped := rota.check_cap(enqueue_run.queue);
    END IF;
    IF enqueue_run.tenant <> '' THEN
        PERFORM rota.check_quota$x$,
    $x$limit_keys, limit_key,
        held_by)$x$, $x$limit_keys, limit_key,
        held_by, is_capped)$x$,
    $x$keys, keys[1], CASE WHEN keys IS NOT NULL AND at <= def.clock THEN 'limit' END);$x$,
    $x$keys, keys[1], CASE WHEN keys IS NOT NULL AND at <= def.clock THEN 'limit' END, capped);$x$);
SELECT rota.patch_function('enqueue_plain',
    'AND NOT (s.has_limits AND EXISTS', $x$AND coalesce(enqueue_plain.queue, j.queue) <> ALL (s.capped_queues)
      AND NOT (s.has_limits AND EXISTS$x$);
SELECT rota.patch_function('enqueue_batch',
    'lane  text;', $x$lane  text;
    capped boolean := false;$x$,
    's.payload_bytes, statement_timestamp() + s.clock_offset AS clock,', 's.payload_bytes, s.capped_queues, statement_timestamp() + s.clock_offset AS clock,',
    'lane := coalesce(enqueue_batch.queue, def.queue);', $x$lane := coalesce(enqueue_batch.queue, def.queue);
    IF lane = ANY (def.capped_queues) THEN
        capped := rota.check_cap(lane, jsonb_array_length(payloads));
    END IF;$x$,
    'validated_by, limit_keys, limit_key, held_by)', 'validated_by, limit_keys, limit_key, held_by, is_capped)',
    $x$keys, keys[1], CASE WHEN keys IS NOT NULL AND at <= def.clock THEN 'limit' END$x$,
    $x$keys, keys[1], CASE WHEN keys IS NOT NULL AND at <= def.clock THEN 'limit' END, capped$x$);
SELECT rota.patch_function('enqueue_many',
    'limited boolean := (SELECT s.has_limits FROM rota.settings s);', $x$limited boolean := (SELECT s.has_limits FROM rota.settings s);
    capped  text[] := (SELECT s.capped_queues FROM rota.settings s);$x$,
    '    IF tenants IS NOT NULL THEN', $x$    IF capped <> '{}' THEN
        PERFORM rota.check_cap(q.lane, q.runs)
        FROM (SELECT coalesce(w.queue, j.queue) AS lane, count(*) AS runs
              FROM unnest(payloads, CASE WHEN cardinality(jobs) > 1 THEN jobs END, queues, keys) AS w (payload, job, queue, key)
              JOIN rota.jobs j ON j.name = coalesce(w.job, jobs[1]) WHERE w.key IS NULL GROUP BY 1 ORDER BY 1) q WHERE q.lane = ANY (capped);
    END IF;
    IF tenants IS NOT NULL THEN$x$,
    'validated_by, limit_keys, limit_key, held_by)', 'validated_by, limit_keys, limit_key, held_by, is_capped)',
    $x$keys, keys[1], CASE WHEN keys IS NOT NULL AND at <= clock THEN 'limit' END$x$,
    $x$keys, keys[1], CASE WHEN keys IS NOT NULL AND at <= clock THEN 'limit' END,
            coalesce(queue, job_queue) = ANY (capped)$x$);
SELECT rota.patch_function('write_ticks',
    'limited boolean := (SELECT s.has_limits FROM rota.settings s);', $x$limited boolean := (SELECT s.has_limits FROM rota.settings s);
    capped  text[] := (SELECT s.capped_queues FROM rota.settings s);$x$,
    'schedule_id, limit_keys, limit_key)', 'schedule_id, limit_keys, limit_key, is_capped)',
    'w.name, w.nominal_at, w.id, k.keys, k.keys[1]', 'w.name, w.nominal_at, w.id, k.keys, k.keys[1], coalesce(w.queue, j.queue) = ANY (capped)');
SELECT rota.patch_function('run_inits',
    'starter rota.workers;', $x$starter rota.workers;
    capped  text[] := (SELECT s.capped_queues FROM rota.settings s);$x$,
    'AND coalesce(s.run_count < s.max_runs, true)', $x$AND coalesce(s.run_count < s.max_runs, true) AND (capped = '{}' OR NOT rota.has_full_queue(s.id))$x$,
    'limit_keys, limit_key, held_by)', 'limit_keys, limit_key, held_by, is_capped)',
    $x$k.keys, k.keys[1], CASE WHEN k.keys IS NOT NULL THEN 'limit' END$x$,
    $x$k.keys, k.keys[1], CASE WHEN k.keys IS NOT NULL THEN 'limit' END, coalesce(d.queue, d.job_queue) = ANY (capped)$x$);
SELECT rota.patch_function('note_skipped_inits', $x$WHEN s.is_shadow THEN 'shadow' END$x$, $x$WHEN s.is_shadow THEN 'shadow' WHEN rota.has_full_queue(s.id) THEN 'queue_full' END$x$);
SELECT rota.patch_function('retry_run',
    'keys   text[];', $x$keys   text[];
    capped boolean := false;$x$,
    '    IF EXISTS (SELECT FROM rota.settings s WHERE s.has_limits) THEN', $x$    IF EXISTS (SELECT FROM rota.settings s WHERE old.queue = ANY (s.capped_queues)) THEN
        capped := rota.check_cap(old.queue);
    END IF;
    IF EXISTS (SELECT FROM rota.settings s WHERE s.has_limits) THEN$x$,
    'limit_keys, limit_key, held_by)', 'limit_keys, limit_key, held_by, is_capped)',
    $x$CASE WHEN keys IS NOT NULL AND at <= clock THEN 'limit' END);$x$, $x$CASE WHEN keys IS NOT NULL AND at <= clock THEN 'limit' END, capped);$x$);

-- Why.
CREATE FUNCTION rota.why_queue_full(of_queue text) RETURNS SETOF rota.finding LANGUAGE sql STABLE SET jit = off AS $$
    SELECT 'queue_full', c.full_since, NULL::timestamptz, NULL, jsonb_build_object('queue', q.name, 'max', rota.number_words(q.max_waiting),
        'waiting', CASE c.waiting WHEN 1 THEN '1 run waits' ELSE rota.plural_words(c.waiting, 'run') || ' wait' END,
        'then', CASE q.when_full WHEN 'refuse' THEN 'New runs are refused, and times of schedules skipped, until some have started.'
                                 ELSE 'When more come, the least important ones are dropped.' END)
    FROM rota.queues q JOIN rota.queue_caps c ON c.queue = q.name WHERE q.name = of_queue AND q.max_waiting IS NOT NULL AND c.full_since IS NOT NULL
$$;
INSERT INTO rota.reasons (code, place, sentence, next_step, is_past, command) VALUES
    ('queue_full', 52, 'Queue {queue} is full: {waiting} in it, and {max} may.', '{then}', false, 'rota queues show {queue}'),
    ('skipped_queue_full', 45, '{which} was skipped{times}: its queue was full.',
     'The next time runs if there is room by then.', false, 'rota queues list'),
    ('run_dropped', 1, 'Queue {queue} was full, and it was among the least important that waited: it was dropped.',
     'It stays cancelled until somebody retries it, when there is room.', true, 'rota runs retry {run}');
SELECT rota.patch_function('why_queue', '    RETURN QUERY SELECT * FROM rota.why_queue_paused(of_queue);', $x$    RETURN QUERY SELECT * FROM rota.why_queue_paused(of_queue);
    RETURN QUERY SELECT * FROM rota.why_queue_full(of_queue);$x$);
SELECT rota.patch_function('why_schedule', '        RETURN QUERY SELECT * FROM rota.why_queue_paused(lane);', $x$        RETURN QUERY SELECT * FROM rota.why_queue_paused(lane);
        RETURN QUERY SELECT * FROM rota.why_queue_full(lane);$x$);
SELECT rota.patch_function('why_ended_run', $x$        WHEN e.state = 'cancelled' THEN 'run_cancelled'$x$, $x$        WHEN e.state = 'cancelled' AND e.end_reason = 'queue full' THEN 'run_dropped'
        WHEN e.state = 'cancelled' THEN 'run_cancelled'$x$,
    $x$jsonb_build_object('run', e.id, 'job', e.job,$x$, $x$jsonb_build_object('run', e.id, 'queue', e.queue, 'job', e.job,$x$);
DROP FUNCTION rota.patch_function(text, text[]);
