-- Who may start under a limit: `admit_runs`, by one worker at a time (lock "admission"), key by key, in the order of
-- the line. It counts what was given back, takes slots or tokens, and makes runs ready. `mend_limits` compares the
-- counters with the runs, and notes what differed in the audit.

-- One turn of the admission, over all keys that are worth a look. Returns how many runs got what they waited for,
-- the seconds until the next look (NULL: when called), from where on to look for keys next time, and whether anybody
-- waits (NULL: there are no limits).
-- Called by: sql/limits/admit.sql, users.
-- Locks: "admission" if it is free.
CREATE FUNCTION rota.admit_runs(max_runs integer DEFAULT 1000, after_key text DEFAULT '',
    OUT admitted integer, OUT next_seconds double precision, OUT last_key text, OUT is_waiting boolean)
LANGUAGE plpgsql VOLATILE SET lock_timeout = '5s' SET jit = off AS $$
DECLARE
    most  constant integer := 1000;
    clock timestamptz := rota.now();
    waited text[];
    keys  text[];
    share integer;
    is_full boolean := false;
    one   text;
    prefix text;
    of_limit rota.limits;
    got   record;
    queues text[] := '{}';
    ready bigint[] := '{}';
    adopted integer;
    began constant timestamptz := clock_timestamp();
    -- keys of which this session has marks; NULL: none, or it is time to look without them
    marked text[] := CASE WHEN rota.walk_in() > 0 THEN rota.marked_keys() END;
    before bigint;
    is_slow boolean;   -- to find the keys has read much: keys of which nobody waits, and without marks, are to blame
BEGIN
    admitted := 0;
    last_key := '';
    IF NOT EXISTS (SELECT FROM rota.settings s WHERE s.has_limits) THEN
        RETURN;
    ELSIF NOT rota.try_lock('admission') THEN
        next_seconds := 0.1;
        last_key := after_key;
        is_waiting := true;
        RETURN;
    END IF;
    adopted := rota.adopt_runs(max_runs);
    before := rota.blocks_of_limits();
    waited := ARRAY(SELECT rota.waited_keys(after_key, most, marked));
    is_waiting := waited <> '{}' OR after_key <> '';
    IF cardinality(waited) = most THEN
        last_key := waited[most];
        next_seconds := 0.05;
    END IF;
    keys := ARRAY(SELECT rota.keys_with_room(waited, clock, marked));
    is_slow := rota.blocks_of_limits() - before > 1000 + 20 * greatest(cardinality(waited), cardinality(keys));
    -- To each its share, so that a long line leaves something to the others.
    share := greatest(max_runs / greatest(cardinality(keys), 1), 1);
    FOREACH one IN ARRAY keys LOOP
        -- Keys of one limit follow one another.
        IF split_part(one, ':', 1) IS DISTINCT FROM prefix THEN
            prefix := split_part(one, ':', 1);
            of_limit := rota.limit_of(one);
        END IF;
        got := rota.admit_key(of_limit, one, share, one = ANY (marked), is_slow);
        admitted := admitted + got.admitted;
        queues := queues || got.touched;
        ready := ready || got.ready;
        IF got.is_held THEN
            next_seconds := 0.1;
        END IF;
        is_full := is_full OR got.is_more OR got.admitted >= share;
    END LOOP;
    IF ready <> '{}' THEN
        queues := queues || rota.make_ready(ready);
    END IF;
    IF admitted > 0 THEN
        INSERT INTO rota.count_changes (name, amount) VALUES ('runs_admitted', admitted);
    END IF;
    IF is_full OR adopted > 0 THEN
        next_seconds := 0;
    END IF;
    next_seconds := least(next_seconds,
        (SELECT greatest(extract(epoch FROM min(s.wait_until) - clock), 0.01) FROM rota.limit_slots s
            WHERE s.wait_until IS NOT NULL AND s.wait_until < 'infinity' HAVING count(*) > 0),
        (SELECT greatest(extract(epoch FROM min(l.adopt_at) - clock_timestamp()), 0.01) FROM rota.limits l
            WHERE l.adopted_id IS NULL AND l.adopt_at < 'infinity' AND adopted IS NOT NULL HAVING count(*) > 0),
        CASE WHEN adopted IS NULL THEN 0.25 END);
    IF marked IS NOT NULL THEN
        next_seconds := least(next_seconds, greatest(rota.walk_in(), 0.01));
    ELSIF rota.marked_keys() IS NOT NULL THEN
        PERFORM set_config('rota' || '.walk_at', extract(epoch FROM clock_timestamp()
            + greatest(interval '1 s', 20 * (clock_timestamp() - began)))::text, false);
    END IF;
    IF queues <> '{}' THEN
        PERFORM rota.wake(ARRAY(SELECT DISTINCT q FROM unnest(queues) q));
    END IF;
END $$;

-- While a snapshot is held, the runs that were admitted stay in the index of the line, and so do the versions of the
-- counter and what was given back. Of keys where an admission reads much for what it finds the session keeps marks: the
-- place of the counter, up to which id what was given back is counted, and up to where each priority of the line is
-- admitted, both less a margin for what commits in another order. They are for speed only: a turn without them about
-- once a second finds the rest. Of a sequence they only say whether anybody waits; its order is strict, so that who is
-- next is looked for without them. A turn over a thousand keys asks for marks a thousand times: this and the next are
-- without settings, so that they are inlined.
-- Called by: is_waited, keys_with_room, line_of, mark_key, rate_wait, take_others, take_slots.
CREATE FUNCTION rota.key_marks(of_key text) RETURNS text[] LANGUAGE sql STABLE AS $$
    SELECT nullif(current_setting('rota' || '.key_' || md5(of_key), true), '')::text[]
$$;

-- The keys of which this session has marks; NULL: none.
-- Called by: admit_key, admit_runs, mark_key, take_slots.
CREATE FUNCTION rota.marked_keys() RETURNS text[] LANGUAGE sql STABLE AS $$
    SELECT nullif(nullif(current_setting('rota' || '.keys_marked', true), '')::text[], '{}')
$$;

-- The seconds until a turn goes without marks; not above 0: this one.
-- Called by: admit_runs.
CREATE FUNCTION rota.walk_in() RETURNS double precision LANGUAGE sql VOLATILE SET jit = off AS $$
    SELECT coalesce(nullif(current_setting('rota' || '.walk_at', true), '')::double precision
        - extract(epoch FROM clock_timestamp())::double precision, 0)
$$;

-- Moves the marks of a key: to the place of its counter, up to what has been counted, and to the last of the runs that
-- are about to leave the line, by priority.
-- Called by: admit_key.
CREATE FUNCTION rota.mark_key(of_key text, place tid, released bigint, leaving bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    margin constant integer := 200;
    marks  text[] := coalesce(rota.key_marks(of_key), ARRAY[NULL] || array_fill('0'::text, ARRAY[11]));
    marked text[] := rota.marked_keys();
    one    record;
BEGIN
    marks[1] := place::text;
    marks[2] := greatest(marks[2]::bigint, released - margin)::text;
    FOR one IN SELECT o.priority, max(o.seq) AS seq FROM rota.open_runs o WHERE o.id = ANY (leaving) GROUP BY 1 LOOP
        marks[one.priority + 3] := greatest(marks[one.priority + 3]::bigint, one.seq - margin)::text;
    END LOOP;
    PERFORM set_config('rota' || '.key_' || md5(of_key), marks::text, false);
    IF (of_key = ANY (marked)) IS NOT TRUE THEN
        PERFORM set_config('rota' || '.keys_marked', (marked || of_key)::text, false);
    END IF;
END $$;

-- The next key that somebody waits for. Keys with marks are asked behind those, and the index is walked between them.
-- Called by: waited_keys.
CREATE FUNCTION rota.next_waited(after_key text, marked text[]) RETURNS text LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET jit = off AS $$
DECLARE
    last   text := after_key;
    beyond text;
    found  text;
BEGIN
    LOOP
        beyond := (SELECT min(m COLLATE "C") FROM unnest(marked) m WHERE m COLLATE "C" > last);
        SELECT o.limit_key INTO found FROM rota.open_runs o
        WHERE o.held_by = 'limit' AND o.limit_key > last AND o.limit_key < coalesce(beyond, '~')
        ORDER BY o.limit_key LIMIT 1;
        IF found IS NOT NULL OR beyond IS NULL THEN
            RETURN found;
        END IF;
        IF rota.is_waited(beyond) THEN
            RETURN beyond;
        END IF;
        last := beyond;
    END LOOP;
END $$;

-- Whether somebody waits for a key behind its marks. Priorities without a mark are asked together.
-- Called by: next_waited.
CREATE FUNCTION rota.is_waited(of_key text) RETURNS boolean LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET jit = off AS $$
DECLARE
    marks bigint[] := (rota.key_marks(of_key))[3:12];
    low   integer := -1;
BEGIN
    FOR p IN 0..10 LOOP
        CONTINUE WHEN marks[p + 1] = 0;
        IF p > low + 1 AND EXISTS (SELECT FROM rota.open_runs o WHERE o.held_by = 'limit' AND o.limit_key = of_key
               AND o.priority > low AND o.priority < p)
           OR EXISTS (SELECT FROM rota.open_runs o WHERE o.held_by = 'limit' AND o.limit_key = of_key
               AND o.priority = p AND o.seq > marks[p + 1]) THEN
            RETURN true;
        END IF;
        low := p;
    END LOOP;
    RETURN false;
END $$;

-- The keys that somebody waits for, from the next one on.
-- Called by: admit_runs.
CREATE FUNCTION rota.waited_keys(after_key text, most integer, marked text[]) RETURNS SETOF text LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
    WITH RECURSIVE keys (key, n) AS (
        SELECT after_key COLLATE "C", 0
        UNION ALL
        SELECT CASE WHEN marked IS NULL
            THEN (SELECT o.limit_key FROM rota.open_runs o WHERE o.held_by = 'limit' AND o.limit_key > k.key
                ORDER BY o.limit_key LIMIT 1)
            ELSE rota.next_waited(k.key, marked) END, k.n + 1
        FROM keys k WHERE k.key IS NOT NULL AND k.n < most
    )
    SELECT key FROM keys WHERE key IS NOT NULL AND n > 0
$$;

-- The keys that are worth a look: those of which something was given back, and of those that somebody waits for the
-- ones with room.
-- Called by: admit_runs.
CREATE FUNCTION rota.keys_with_room(waited text[], clock timestamptz, marked text[]) RETURNS SETOF text
LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off AS $$
    SELECT DISTINCT k.key FROM (
        -- What was given back of the keys without marks is between those with marks.
        SELECT r.key FROM (SELECT coalesce(lag(m) OVER (ORDER BY m), '') AS low, m AS high
            FROM (SELECT u COLLATE "C" AS m FROM unnest(marked || '~'::text) u) o) g
        CROSS JOIN LATERAL (SELECT f.key FROM rota.limit_releases f WHERE f.key > g.low AND f.key < g.high LIMIT 5000) r
        UNION ALL
        SELECT m FROM unnest(marked) m WHERE m = ANY (waited) OR EXISTS (SELECT FROM rota.limit_releases f
            WHERE f.key = m AND f.id > coalesce((rota.key_marks(m))[2]::bigint, 0))
        UNION ALL
        SELECT w FROM unnest(waited) w
        LEFT JOIN rota.limits l ON l.id = substr(split_part(w, ':', 1), 2)::bigint
        -- LIMIT: by the whole of the key, whatever the planner thinks of tenants.
        LEFT JOIN LATERAL (SELECT * FROM rota.limit_slots u WHERE u.tenant = l.tenant AND u.key = w
            AND (w = ANY (marked)) IS NOT TRUE LIMIT 1) s ON true
        WHERE (w = ANY (marked)) IS NOT TRUE AND (l.id IS NULL OR s.key IS NULL OR l.on_full <> 'wait'
           OR CASE l.kind WHEN 'rate' THEN s.wait_until IS NULL OR s.wait_until <= clock
               OR s.version IS DISTINCT FROM l.version ELSE s.in_use < l.cap END)
    ) k ORDER BY 1
$$;

-- Admits the runs that wait for one key of a limit, as many as there is room for; without a limit, all.
-- Called by: admit_runs.
CREATE FUNCTION rota.admit_key(l rota.limits, of_key text, max_runs integer, is_marked boolean, is_slow boolean,
    OUT admitted integer, OUT is_held boolean, OUT is_more boolean, OUT ready bigint[], OUT touched text[])
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
DECLARE
    clock  timestamptz;
    s      rota.limit_slots;
    room   integer;
    one    record;
    cost   integer;
    got    boolean;
    used   integer := 0;      -- slots or tokens of this key
    taken  integer := 0;      -- runs that have it
    asked  integer;
    seen   integer := 0;
    sure   integer;           -- how many of those that are ready stand before the first that stays
    counter record;
    before constant bigint := rota.blocks_of_limits();
BEGIN
    admitted := 0;
    is_held := false;
    is_more := false;
    ready := '{}';
    IF l.id IS NULL THEN
        SELECT f.admitted, f.touched INTO admitted, touched FROM rota.forget_key(of_key, max_runs) f;
        PERFORM set_config('rota' || '.keys_marked', array_remove(rota.marked_keys(), of_key)::text, false)
        WHERE is_marked;
        RETURN;
    END IF;
    counter := rota.take_slots(l, of_key, is_marked);
    s := counter.taken;
    IF s.key IS NULL THEN
        is_held := true;
        RETURN;
    END IF;
    -- The moment itself, and not that of the statement: under the lock it only goes on.
    clock := clock_timestamp() + (SELECT t.clock_offset FROM rota.settings t);
    room := CASE l.kind WHEN 'rate' THEN (rota.tokens_of(l, s, clock, 1)).room ELSE l.cap - s.in_use END;
    asked := least(room, max_runs);
    FOR one IN SELECT w.* FROM rota.line_of(l, of_key, greatest(asked, 0), s.blocked_by, is_marked) w WHERE asked > 0
    LOOP
        seen := seen + 1;
        cost := CASE WHEN l.cost IS NULL THEN 1 ELSE rota.cost_of(l, one.payload) END;
        EXIT WHEN cost > room - used;
        IF cardinality(one.missing) > 1 THEN
            IF l.kind = 'sequence' THEN
                -- It has its turn, and waits for the rest with it: nobody overtakes it.
                UPDATE rota.open_runs o SET slots = coalesce(o.slots, '{}') || of_key,
                    limit_key = (array_remove(one.missing, of_key))[1] WHERE o.id = one.id;
                used := used + 1;
                taken := taken + 1;
                is_more := true;
                CONTINUE;
            END IF;
            got := rota.take_others(one.id, one.payload, array_remove(one.missing, of_key), clock);
            is_held := is_held OR got IS NULL;
            is_more := is_more OR got IS FALSE;   -- its place in this line is the next one's
            IF got IS NULL THEN
                sure := coalesce(sure, cardinality(ready));
            END IF;
            CONTINUE WHEN got IS NOT TRUE;
        END IF;
        ready := ready || one.id;
        used := used + cost;
        taken := taken + 1;
    END LOOP;
    IF taken > 0 AND l.kind = 'rate' THEN
        s := rota.spend_tokens(l, s, clock, used);
    END IF;
    IF taken > 0 OR l.kind = 'rate' THEN
        UPDATE rota.limit_slots u
        SET in_use = CASE WHEN l.kind = 'rate' THEN 0 ELSE s.in_use + used END, admitted = u.admitted + taken,
            used_at = clock_timestamp(),
            spent = s.spent, spent_at = s.spent_at, tokens = s.tokens, tokens_at = s.tokens_at,
            version = l.version, wait_until = CASE WHEN l.kind = 'rate'
                THEN rota.rate_wait(l, s, of_key, clock, ready, is_marked) END
        WHERE u.ctid = counter.place RETURNING u.ctid INTO counter.place;
    END IF;
    IF (is_slow OR rota.blocks_of_limits() - before > 200 + 20 * taken) AND l.on_full = 'wait'
       AND coalesce(cardinality(rota.marked_keys()), 0) < 100 OR of_key = ANY (rota.marked_keys()) THEN
        PERFORM rota.mark_key(of_key, counter.place, counter.released,
            CASE WHEN s.blocked_by IS NULL THEN ready[1:coalesce(sure, cardinality(ready))] END);
    END IF;
    -- The others are made ready together. Of a rate the moment counts, and what does not wait looks at who does.
    IF ready <> '{}' AND (l.kind = 'rate' OR l.on_full <> 'wait') THEN
        touched := rota.make_ready(ready, clock - (SELECT t.clock_offset FROM rota.settings t));
        ready := '{}';
    END IF;
    admitted := taken;
    IF l.on_full <> 'wait' AND room - used < 1 THEN
        admitted := admitted + rota.settle_full(l, of_key);
    ELSIF seen < asked AND l.kind = 'sequence' AND EXISTS (SELECT FROM rota.open_runs o
        WHERE o.held_by = 'limit' AND o.limit_key = of_key) AND s.blocked_by IS NULL THEN
        is_held := true;
    END IF;
END $$;

-- Blocks of the tables of limits that the transaction has read so far. Inlined.
-- Called by: admit_key, admit_runs.
CREATE FUNCTION rota.blocks_of_limits() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT pg_stat_get_xact_blocks_fetched('rota.open_runs'::regclass)
         + pg_stat_get_xact_blocks_fetched('rota.limit_slots'::regclass)
         + pg_stat_get_xact_blocks_fetched('rota.limit_releases'::regclass)
$$;

-- The runs that are next for a key. A sequence goes strictly by age, and waits for the row of its first if somebody
-- holds it.
-- Called by: admit_key.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.line_of(l rota.limits, of_key text, most integer, only_run bigint, is_marked boolean)
RETURNS TABLE (id bigint, missing text[], payload jsonb) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_sort = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    head  bigint := only_run;
    marks bigint[] := CASE WHEN is_marked THEN (rota.key_marks(of_key))[3:12]::bigint[] END;
BEGIN
    IF l.kind <> 'sequence' AND marks IS NOT NULL THEN
        RETURN QUERY SELECT o.* FROM generate_series(0, 9) AS g (priority) CROSS JOIN LATERAL (
            SELECT o.id, rota.missing_keys(o.limit_keys, o.slots),
                CASE WHEN l.cost IS NOT NULL OR cardinality(o.limit_keys) > 1
                    THEN coalesce(o.payload, rota.large_payload(o.id)) END
            FROM rota.open_runs o WHERE o.held_by = 'limit' AND o.limit_key = of_key
              AND o.priority = g.priority::smallint AND o.seq > marks[g.priority + 1]
            ORDER BY o.seq LIMIT most FOR UPDATE SKIP LOCKED) o LIMIT most;
        RETURN;
    ELSIF l.kind <> 'sequence' THEN
        RETURN QUERY SELECT o.id, CASE WHEN cardinality(o.limit_keys) = 1 THEN o.limit_keys
            ELSE rota.missing_keys(o.limit_keys, o.slots) END,
                CASE WHEN l.cost IS NOT NULL OR cardinality(o.limit_keys) > 1
                    THEN coalesce(o.payload, rota.large_payload(o.id)) END
            FROM rota.open_runs o WHERE o.held_by = 'limit' AND o.limit_key = of_key
            ORDER BY o.priority, o.seq LIMIT most FOR UPDATE SKIP LOCKED;
        RETURN;
    END IF;
    IF head IS NULL THEN
        SELECT h.id INTO head FROM generate_series(0, 9) AS p (priority)
        CROSS JOIN LATERAL (SELECT o.id, o.seq FROM rota.open_runs o
                            WHERE o.held_by = 'limit' AND o.limit_key = of_key AND o.priority = p.priority::smallint
                            ORDER BY o.seq LIMIT 1) h
        ORDER BY h.seq LIMIT 1;
    END IF;
    RETURN QUERY SELECT o.id, rota.missing_keys(o.limit_keys, o.slots),
            coalesce(o.payload, rota.large_payload(o.id))
        FROM rota.open_runs o WHERE o.id = head AND o.held_by = 'limit' AND o.limit_key = of_key FOR UPDATE SKIP LOCKED;
END $$;

-- Locks the counter of a key, with what was given back taken off; nothing where somebody else holds it. `place` is
-- where its row is now: as it is locked, it stays there until the caller changes it.
-- Called by: admit_key, adopt_runs, take_others.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.take_slots(l rota.limits, of_key text, is_marked boolean, OUT taken rota.limit_slots,
    OUT place tid, OUT released bigint)
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
DECLARE
    marks   constant text[] := CASE WHEN rota.marked_keys() IS NOT NULL THEN rota.key_marks(of_key) END;
    counted constant bigint := coalesce(CASE WHEN is_marked THEN marks[2]::bigint END, 0);
    slot    record;
    freed  integer;
    failed bigint;
    ended  bigint[];
BEGIN
    IF marks IS NOT NULL THEN
        -- Not if that is an old version of the row.
        SELECT s AS counter, s.ctid AS place INTO slot FROM rota.limit_slots s
        WHERE s.ctid = marks[1]::tid AND s.tenant = l.tenant AND s.key = of_key FOR UPDATE SKIP LOCKED;
        place := slot.place;
    END IF;
    IF place IS NULL THEN
        SELECT s AS counter, s.ctid AS place INTO slot FROM rota.limit_slots s
        WHERE s.tenant = l.tenant AND s.key = of_key FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            -- Somebody holds it: an INSERT would wait for the end of a transaction that deletes it.
            IF EXISTS (SELECT FROM rota.limit_slots s WHERE s.tenant = l.tenant AND s.key = of_key) THEN
                RETURN;
            END IF;
            INSERT INTO rota.limit_slots AS s (tenant, key) VALUES (l.tenant, of_key) ON CONFLICT DO NOTHING
            RETURNING s AS counter, s.ctid AS place INTO slot;
            IF NOT FOUND THEN
                RETURN;
            END IF;
        END IF;
        place := slot.place;
    END IF;
    taken := slot.counter;
    IF EXISTS (SELECT FROM rota.limit_releases r WHERE r.key = of_key AND r.id > counted) THEN
        WITH gone AS (
            DELETE FROM rota.limit_releases r
            WHERE r.ctid = ANY (ARRAY(SELECT f.ctid FROM rota.limit_releases f
                WHERE f.key = of_key AND f.id > counted FOR UPDATE SKIP LOCKED))
            RETURNING r.amount, r.run_id, r.ended_as, r.id
        )
        SELECT sum(amount), max(id), max(run_id) FILTER (WHERE ended_as = 'failed'),
            array_agg(run_id) FILTER (WHERE ended_as <> 'failed')
        INTO freed, released, failed, ended FROM gone;
        taken.in_use := taken.in_use - coalesce(freed, 0);
        taken.blocked_by := CASE WHEN l.next_after = 'success' AND failed IS NOT NULL THEN failed
                                 WHEN taken.blocked_by = ANY (ended) OR l.next_after IS DISTINCT FROM 'success'
                                     THEN NULL
                                 ELSE taken.blocked_by END;
        UPDATE rota.limit_slots s SET in_use = taken.in_use, blocked_by = taken.blocked_by
        WHERE s.ctid = take_slots.place RETURNING s.ctid INTO place;
    END IF;
END $$;

-- Takes one place in the counter, which the caller has locked.
-- Called by: take_others.
CREATE FUNCTION rota.use_slot(l rota.limits, s rota.limit_slots, place tid, clock timestamptz, cost integer)
RETURNS void LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
BEGIN
    IF l.kind = 'rate' THEN
        s := rota.spend_tokens(l, s, clock, cost);
        UPDATE rota.limit_slots u SET spent = s.spent, spent_at = s.spent_at, tokens = s.tokens,
            tokens_at = s.tokens_at, wait_until = NULL,
            admitted = u.admitted + 1, used_at = clock_timestamp()
        WHERE u.ctid = use_slot.place;
    ELSE
        UPDATE rota.limit_slots u SET in_use = u.in_use + 1, admitted = u.admitted + 1, used_at = clock_timestamp()
        WHERE u.ctid = use_slot.place;
    END IF;
END $$;

-- Takes the other keys of a run that needs more than the one it waits for: all or nothing, and what is full is where
-- it waits from now on. Returns whether it has them all: NULL where somebody holds one of the counters.
-- Called by: admit_key.
CREATE FUNCTION rota.take_others(of_run bigint, payload jsonb, others text[], clock timestamptz) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
DECLARE
    one   text;
    l     rota.limits;
    s     rota.limit_slots;
    counter record;
BEGIN
    FOREACH one IN ARRAY others LOOP
        l := rota.limit_of(one);
        CONTINUE WHEN l.id IS NULL;
        s := (rota.take_slots(l, one, false)).taken;
        IF s.key IS NULL THEN
            RETURN NULL;
        ELSIF NOT rota.has_room(l, s, clock, of_run, rota.cost_of(l, payload)) THEN
            -- With a place of its own there, behind nobody's marks.
            UPDATE rota.open_runs o SET limit_key = one WHERE o.id = of_run;
            PERFORM set_config('rota' || '.walk_at', '', false) WHERE rota.key_marks(one) IS NOT NULL;
            RETURN false;
        END IF;
    END LOOP;
    FOREACH one IN ARRAY others LOOP
        l := rota.limit_of(one);
        CONTINUE WHEN l.id IS NULL;
        counter := rota.take_slots(l, one, false);
        PERFORM rota.use_slot(l, counter.taken, counter.place, clock, rota.cost_of(l, payload));
    END LOOP;
    RETURN true;
END $$;

-- Makes runs ready that have what they need. Returns the queues that have more to claim; whoever isolates suspects is
-- called here.
-- Called by: admit_key, admit_runs, forget_key.
CREATE FUNCTION rota.make_ready(ids bigint[], at timestamptz DEFAULT clock_timestamp()) RETURNS text[]
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    touched text[];
    holds   text[];
BEGIN
    WITH readied AS (
        UPDATE rota.open_runs o
        SET held_by = rota.hold_of(true, NULL, o.suspicion), held_at = NULL, limit_key = NULL, seq = r.seq,
            enqueued_at = make_ready.at,
            slots = CASE WHEN cardinality(o.limit_keys) = 1
                THEN CASE WHEN o.limit_keys[1] NOT LIKE 'r%' THEN o.limit_keys END
                         ELSE nullif(ARRAY(SELECT k FROM unnest(o.limit_keys) k WHERE k NOT LIKE 'r%'), '{}') END
        FROM (SELECT u.id, nextval('rota.run_ids') AS seq FROM unnest(ids) AS u (id)) r
        WHERE o.id = ANY (ARRAY[r.id])
        RETURNING o.queue, o.held_by
    )
    SELECT array_agg(DISTINCT queue) FILTER (WHERE held_by IS NULL), array_agg(DISTINCT held_by)
    INTO touched, holds FROM readied;
    PERFORM rota.wake_for(NULL, holds);
    RETURN touched;
END $$;

-- What one start of a run costs a rate: the number at the limit's path in the payload, at least 1 and at most what
-- the limit has; 1 without a path.
-- Called by: admit_key, rate_wait, take_others.
CREATE FUNCTION rota.cost_of(l rota.limits, payload jsonb) RETURNS integer LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT CASE WHEN l.kind <> 'rate' OR l.cost IS NULL
        OR jsonb_typeof(payload #> string_to_array(l.cost, '.')) IS DISTINCT FROM 'number' THEN 1
                ELSE least(greatest(ceil((payload #>> string_to_array(l.cost, '.'))::numeric), 1), greatest(l.cap, 1),
                    coalesce(l.burst, l.cap, 1))::integer END
$$;

-- How many tokens a rate has now, and when there will be `wanted`. Never more than cap in any period: what was spent
-- counts for a whole period after the latest moment at which it may have been (it is kept by 128ths of the period, each
-- under its end). A burst bounds what is spent at one moment, and refills evenly.
-- Called by: admit_key, has_room, rate_wait.
CREATE FUNCTION rota.tokens_of(l rota.limits, s rota.limit_slots, clock timestamptz, wanted integer, OUT room integer,
    OUT ready_at timestamptz)
LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    period interval := make_interval(secs => l.period_seconds);
    free   integer := l.cap;
    level  double precision;
    lack   integer;
    burst  integer := CASE WHEN l.burst IS NOT NULL THEN least(l.burst, l.cap) END;
BEGIN
    wanted := least(greatest(wanted, 1), greatest(l.cap, 1));
    IF burst IS NOT NULL THEN
        wanted := least(wanted, burst);
    END IF;
    FOR i IN 1 .. cardinality(s.spent) LOOP
        -- A clock that was set back by more than a period has spent nothing.
        IF s.spent_at[i] + period > clock AND s.spent_at[i] <= clock + 2 * period THEN
            free := free - s.spent[i];
        END IF;
    END LOOP;
    ready_at := clock;
    lack := wanted - free;
    FOR i IN 1 .. cardinality(s.spent) LOOP
        EXIT WHEN lack <= 0;
        IF s.spent_at[i] + period > clock THEN
            lack := lack - s.spent[i];
            ready_at := s.spent_at[i] + period;
        END IF;
    END LOOP;
    IF burst IS NOT NULL THEN
        level := least(burst, coalesce(s.tokens + greatest(0, extract(epoch FROM clock - s.tokens_at)) * l.cap /
            l.period_seconds, burst));
        IF level < wanted AND l.cap > 0 THEN
            ready_at := greatest(ready_at, clock + make_interval(secs => (wanted - level) * l.period_seconds / l.cap));
        END IF;
        free := least(free, floor(level + 1e-6)::integer);
    END IF;
    IF l.cap = 0 THEN
        ready_at := 'infinity';
    END IF;
    room := greatest(free, 0);
END $$;

-- Whether a key has room for one more run of this cost.
-- Called by: take_others.
CREATE FUNCTION rota.has_room(l rota.limits, s rota.limit_slots, clock timestamptz, of_run bigint, cost integer)
RETURNS boolean LANGUAGE sql STABLE SET jit = off AS $$
    SELECT CASE l.kind WHEN 'rate' THEN (rota.tokens_of(l, s, clock, cost)).room >= cost
                       ELSE s.in_use < l.cap AND coalesce(s.blocked_by = of_run, true) END
$$;

-- When the next of those who wait for a rate may go; NULL: nobody waits.
-- Called by: admit_key.
CREATE FUNCTION rota.rate_wait(l rota.limits, s rota.limit_slots, of_key text, clock timestamptz, ready bigint[],
    is_marked boolean)
RETURNS timestamptz LANGUAGE sql STABLE SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_sort = off SET jit = off AS $$
    SELECT (rota.tokens_of(l, s, clock, rota.cost_of(l, coalesce(n.payload, rota.large_payload(n.id))))).ready_at
    FROM (SELECT o.id, o.payload FROM generate_series(0, 9) AS g (priority) CROSS JOIN LATERAL (
              SELECT o.id, o.payload FROM rota.open_runs o
              WHERE o.held_by = 'limit' AND o.limit_key = of_key AND o.priority = g.priority::smallint
                AND o.seq > coalesce(CASE WHEN is_marked
                    THEN ((rota.key_marks(of_key))[3:12])[g.priority + 1]::bigint END, 0)
                AND o.id <> ALL (ready)
              ORDER BY o.seq LIMIT 1) o LIMIT 1) n
$$;

-- Takes so many tokens of a rate. What was spent is kept in steps of 1/128 of the period, so that the list stays
-- short.
-- Called by: admit_key, use_slot.
CREATE FUNCTION rota.spend_tokens(l rota.limits, s rota.limit_slots, clock timestamptz, amount integer)
RETURNS rota.limit_slots LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    step   double precision := l.period_seconds / 128;
    until  timestamptz := to_timestamp((floor(extract(epoch FROM clock) / step) + 1) * step);
    burst  integer := CASE WHEN l.burst IS NOT NULL THEN least(l.burst, l.cap) END;
    last   integer;
BEGIN
    SELECT coalesce(array_agg(u.n ORDER BY u.at), '{}'), coalesce(array_agg(u.at ORDER BY u.at), '{}') INTO s.spent,
        s.spent_at
    FROM unnest(s.spent, s.spent_at) AS u (n, at)
    WHERE u.at + make_interval(secs => l.period_seconds) > clock
      AND u.at <= clock + make_interval(secs => 2 * l.period_seconds);
    last := cardinality(s.spent);
    -- to_timestamp rounds: not below the moment itself.
    until := greatest(until, clock);
    IF last > 0 AND s.spent_at[last] >= clock THEN
        s.spent[last] := s.spent[last] + amount;
    ELSE
        s.spent := s.spent || amount;
        s.spent_at := s.spent_at || until;
    END IF;
    IF burst IS NOT NULL THEN
        s.tokens := greatest(0, least(burst, coalesce(s.tokens + greatest(0, extract(epoch FROM clock - s.tokens_at)) *
            l.cap / l.period_seconds, burst)) - amount);
        s.tokens_at := clock;
    ELSE
        s.tokens := NULL;
        s.tokens_at := NULL;
    END IF;
    RETURN s;
END $$;

-- Does what a limit says to runs that find it full, if they are not to wait. A run that has been at work before
-- always waits. What somebody holds is left for the next turn: a run, its entry in the ledger, a request to cancel it.
-- Called by: admit_key.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.settle_full(l rota.limits, of_key text) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET lock_timeout = '100ms' SET jit = off AS $$
DECLARE
    newest bigint;
    gone   bigint[];
    oldest bigint;
    noted  bigint[];   -- of those with an entry in the ledger: that nobody holds
    keep   integer := CASE l.on_full WHEN 'skip' THEN 0 WHEN 'replace' THEN 1 ELSE greatest(l.cap, 1) END;
    kept   integer;
BEGIN
    SELECT max(o.id) INTO newest FROM rota.open_runs o WHERE o.held_by = 'limit' AND o.limit_key = of_key;
    gone := ARRAY(SELECT o.id FROM rota.open_runs o
                  WHERE o.held_by = 'limit' AND o.limit_key = of_key AND o.attempt = 0
                    AND o.id NOT IN (SELECT n.id FROM rota.open_runs n
                        WHERE n.held_by = 'limit' AND n.limit_key = of_key AND n.attempt = 0
                                     ORDER BY n.id DESC LIMIT keep)
                  ORDER BY o.id LIMIT 1000 FOR UPDATE SKIP LOCKED);
    IF gone <> '{}' AND l.on_full = 'skip' THEN
        noted := ARRAY(SELECT o.id FROM rota.open_runs o JOIN rota.ledger g ON g.schedule_id = o.schedule_id
            AND g.nominal_at = o.scheduled_for AND g.run_id = o.id
            WHERE o.id = ANY (gone) AND o.schedule_id IS NOT NULL FOR NO KEY UPDATE OF g SKIP LOCKED);
        gone := ARRAY(SELECT o.id FROM rota.open_runs o WHERE o.id = ANY (gone) AND (o.id = ANY (noted)
            OR o.schedule_id IS NULL OR NOT EXISTS (SELECT FROM rota.ledger g WHERE g.schedule_id = o.schedule_id
                AND g.nominal_at = o.scheduled_for AND g.run_id = o.id)) ORDER BY o.id);
    END IF;
    IF gone <> '{}' THEN
        UPDATE rota.ledger g SET decision = 'skipped', reason = 'limit', run_id = NULL, enqueued_at = NULL,
            state = NULL,
            details = coalesce(g.details, '{}') || jsonb_build_object('limit', l.name, 'run', o.id)
        FROM rota.open_runs o
        WHERE o.id = ANY (noted) AND g.schedule_id = o.schedule_id AND g.nominal_at = o.scheduled_for
          AND g.run_id = o.id;
        PERFORM rota.end_waiting_runs(gone, 'cancelled',
            CASE WHEN l.on_full = 'skip' THEN format('skipped (limit %s)', l.name)
                                                              ELSE format('replaced by run %s (limit %s)', newest,
                                                                  l.name) END);
    END IF;
    IF l.on_full = 'cancel_running' THEN
        SELECT count(*) INTO kept FROM (SELECT FROM rota.open_runs o WHERE o.held_by = 'limit' AND o.limit_key = of_key
            LIMIT keep) w;
        -- As many of the oldest as there are runs that wait for their place, those that were asked before among them.
        FOR oldest IN
            SELECT h.id FROM (SELECT o.id FROM rota.open_runs o WHERE o.slots IS NOT NULL AND o.slots @> ARRAY[of_key]
                AND o.id <> newest ORDER BY o.id LIMIT kept) h
            WHERE NOT EXISTS (SELECT FROM rota.cancel_requests c JOIN rota.open_runs o ON o.id = c.run_id
                AND o.attempt = c.attempt WHERE c.run_id = h.id)
        LOOP
            BEGIN
                PERFORM rota.cancel_run(oldest, format('replaced by run %s (limit %s)', newest, l.name), 'rota');
            EXCEPTION WHEN lock_not_available THEN
                EXIT;   -- somebody is at it, and each would take as long
            END;
        END LOOP;
    END IF;
    RETURN cardinality(gone);
END $$;

-- Brings runs from before a limit under it: those that wait wait for it, those that run count. A thousand a call; see
-- begin_pass for those that commit late. What somebody holds is left for another pass. Returns how many it has looked
-- at; NULL where somebody holds the limit, or the settings.
-- Called by: admit_runs.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.adopt_runs(max_runs integer DEFAULT 1000) RETURNS integer LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    l       rota.limits;
    prefix  text;
    one     record;
    keys    text[];
    added   text;
    seen    integer := 0;
    ids     bigint[];
    last_id bigint;
    is_whole boolean := true;
    s       rota.limit_slots;
BEGIN
    SELECT * INTO l FROM rota.limits a WHERE a.adopted_id IS NOT NULL OR a.adopt_at <= clock_timestamp()
    ORDER BY a.adopted_id IS NULL, a.id LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN CASE WHEN EXISTS (SELECT FROM rota.limits a
            WHERE a.adopted_id IS NOT NULL OR a.adopt_at <= clock_timestamp()) THEN NULL ELSE 0 END;
    END IF;
    PERFORM FROM rota.settings FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT * INTO l.adopted_id, l.adopt_at, l.adopt_xid FROM rota.begin_pass(l.adopted_id, l.adopt_at, l.adopt_xid);
    prefix := left(l.kind, 1) || l.id;
    SELECT max(r.id), count(*), array_agg(r.id) FILTER (WHERE (l.jobs IS NULL OR r.job = ANY (l.jobs))
           AND (l.queue IS NULL OR l.queue = r.queue) AND (l.tenant = '' OR l.tenant = r.tenant)
           AND (l.schedule IS NULL OR l.schedule = r.schedule)
           AND split_part(r.limit_keys[1], ':', 1) IS DISTINCT FROM prefix
           AND (r.limit_keys IS NULL OR NOT EXISTS (SELECT FROM unnest(r.limit_keys) k
               WHERE split_part(k, ':', 1) = prefix)))
    INTO last_id, seen, ids
    FROM (SELECT o.id, o.job, o.queue, o.tenant, o.schedule, o.limit_keys FROM rota.open_runs o
        WHERE o.id > l.adopted_id ORDER BY o.id LIMIT max_runs) r;
    FOR one IN
        SELECT i.id AS wanted, o.* FROM unnest(ids) i (id)
        LEFT JOIN LATERAL (SELECT w.* FROM rota.open_runs w WHERE w.id = i.id FOR UPDATE SKIP LOCKED) o ON true
        ORDER BY i.id
    LOOP
        IF one.id IS NULL THEN
            is_whole := false;   -- somebody holds it, or it has just ended
            CONTINUE;
        END IF;
        keys := rota.limit_keys_of(one.job, one.queue, one.tenant, one.schedule,
            coalesce(one.payload, rota.large_payload(one.id)));
        added := (SELECT k FROM unnest(keys) k WHERE split_part(k, ':', 1) = prefix);
        CONTINUE WHEN added IS NULL;
        IF one.state = 'running' AND l.kind = 'rate' THEN
            -- What has started has started; its next attempt waits for its token.
            UPDATE rota.open_runs o SET limit_keys = coalesce(o.limit_keys, '{}') || added WHERE o.id = one.id;
        ELSIF one.state = 'running' THEN
            s := (rota.take_slots(l, added, false)).taken;
            IF s.key IS NULL THEN
                is_whole := false;
                CONTINUE;
            END IF;
            UPDATE rota.limit_slots u SET in_use = u.in_use + 1 WHERE u.tenant = s.tenant AND u.key = s.key;
            UPDATE rota.open_runs o SET limit_keys = coalesce(o.limit_keys, '{}') || added,
                slots = coalesce(o.slots, '{}') || added WHERE o.id = one.id;
        ELSE
            UPDATE rota.open_runs o
            SET limit_keys = keys, limit_key = (rota.missing_keys(keys, o.slots))[1],
                held_by = rota.hold_of(o.state = 'queued', rota.missing_keys(keys, o.slots), o.suspicion, o.held_by)
            WHERE o.id = one.id;
        END IF;
    END LOOP;
    IF NOT is_whole AND l.adopt_at = 'infinity' THEN
        l.adopt_at := clock_timestamp();
    END IF;
    UPDATE rota.limits a SET adopted_id = CASE WHEN seen >= max_runs THEN last_id END, adopt_xid = l.adopt_xid,
        adopt_at = CASE WHEN seen < max_runs THEN rota.next_pass(l.adopt_at) ELSE l.adopt_at END
    WHERE a.tenant = l.tenant AND a.name = l.name;
    UPDATE rota.settings t SET is_adopting = n.is_adopting
    FROM (SELECT EXISTS (SELECT FROM rota.limits a WHERE a.adopt_at IS NOT NULL
        AND (a.adopted_id IS NULL OR a.adopt_xid IS NOT NULL)) AS is_adopting) n
    WHERE t.is_adopting <> n.is_adopting;
    RETURN greatest(seen, 1);
END $$;

-- A limit is gone: whoever waits for one of its keys, waits for the rest only.
-- Called by: admit_key.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.forget_key(of_key text, max_runs integer, OUT admitted integer, OUT touched text[])
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    ready bigint[];
BEGIN
    DELETE FROM rota.limit_releases r WHERE r.ctid = ANY (ARRAY(SELECT f.ctid FROM rota.limit_releases f
        WHERE f.key = of_key FOR UPDATE SKIP LOCKED));
    DELETE FROM rota.limit_slots s WHERE s.ctid = ANY (ARRAY(SELECT f.ctid FROM rota.limit_slots f WHERE f.key = of_key
        FOR UPDATE SKIP LOCKED));
    WITH freed AS (
        UPDATE rota.open_runs o
        SET limit_keys = nullif(array_remove(o.limit_keys, of_key), '{}'),
            slots = nullif(array_remove(o.slots, of_key), '{}'),
            limit_key = (rota.missing_keys(array_remove(o.limit_keys, of_key), o.slots))[1],
            held_by = rota.hold_of(true, rota.missing_keys(array_remove(o.limit_keys, of_key), o.slots), o.suspicion)
        WHERE o.ctid = ANY (ARRAY(SELECT w.ctid FROM rota.open_runs w WHERE w.held_by = 'limit' AND w.limit_key = of_key
                                  ORDER BY w.priority, w.seq LIMIT max_runs FOR UPDATE SKIP LOCKED))
        RETURNING o.id, o.limit_key, o.priority, o.seq
    )
    SELECT coalesce(array_agg(id ORDER BY priority, seq) FILTER (WHERE limit_key IS NULL), '{}'), count(*) INTO ready,
        admitted FROM freed;
    touched := rota.make_ready(ready);
END $$;

-- Counters that differ from the runs. That is always a mistake: it is corrected and reported. Everything is read at
-- one moment, because whatever releases a slot records it in the same transaction.
-- Called by: mend_limits.
CREATE FUNCTION rota.limit_differences() RETURNS TABLE (tenant text, key text, in_use integer, held integer)
LANGUAGE sql STABLE SET jit = off AS $$
    SELECT coalesce(s.tenant, ''), coalesce(s.key, h.key), coalesce(s.in_use, 0), coalesce(h.n, 0) + coalesce(r.n, 0)
    FROM rota.limit_slots s
    FULL JOIN (SELECT k AS key, count(*)::integer AS n FROM rota.open_runs o, unnest(o.slots) k
        WHERE o.slots IS NOT NULL GROUP BY k) h ON h.key = s.key
    LEFT JOIN (SELECT f.key, sum(f.amount)::integer AS n FROM rota.limit_releases f GROUP BY f.key) r
        ON r.key = coalesce(s.key, h.key)
    WHERE coalesce(s.in_use, 0) <> coalesce(h.n, 0) + coalesce(r.n, 0)
      AND EXISTS (SELECT FROM rota.limit_of(coalesce(s.key, h.key)) l WHERE l.id IS NOT NULL)
$$;

-- Sets counters of limits that differ from the runs to what the runs say, and notes each mistake in the audit;
-- returns how many. What somebody holds is left for the next time.
-- Called by: postgres/upkeep.py.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.mend_limits() RETURNS integer LANGUAGE plpgsql VOLATILE SET lock_timeout = '5s'
SET jit = off AS $$
DECLARE
    odd    record;
    truth  integer;
    mended integer := 0;
BEGIN
    FOR odd IN SELECT d.* FROM rota.limit_differences() d ORDER BY d.key LIMIT 100 LOOP
        INSERT INTO rota.limit_slots (tenant, key) SELECT (rota.limit_of(odd.key)).tenant, odd.key
        WHERE NOT EXISTS (SELECT FROM rota.limit_slots s WHERE s.key = odd.key) ON CONFLICT DO NOTHING;
        PERFORM FROM rota.limit_slots s WHERE s.key = odd.key FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        -- Anew, under the lock: nobody admits now, and whoever gives back counts the same in either way.
        truth := (SELECT d.held FROM rota.limit_differences() d WHERE d.key = odd.key);
        CONTINUE WHEN truth IS NULL;
        UPDATE rota.limit_slots s SET in_use = truth WHERE s.key = odd.key;
        PERFORM rota.write_audit('rota', 'limit.mended', 'limit', coalesce((rota.limit_of(odd.key)).name, odd.key),
            jsonb_build_object('key', odd.key, 'in_use', odd.in_use),
            jsonb_build_object('key', odd.key, 'in_use', truth),
            'its counter differed from the runs', odd.tenant);
        mended := mended + 1;
    END LOOP;
    IF mended > 0 THEN
        INSERT INTO rota.count_changes (name, amount) VALUES ('limits_mended', mended);
        PERFORM rota.call_workers('limits');
    END IF;
    -- Counters that nobody has used for an hour.
    DELETE FROM rota.limit_slots s WHERE s.ctid = ANY (ARRAY(
        SELECT u.ctid FROM rota.limit_slots u LEFT JOIN LATERAL rota.limit_of(u.key) l ON true
        WHERE u.in_use = 0 AND u.blocked_by IS NULL
          AND u.used_at < clock_timestamp() - make_interval(secs => greatest(3600, 2 * coalesce(l.period_seconds, 0)))
          AND NOT EXISTS (SELECT FROM rota.limit_releases r WHERE r.key = u.key)
        LIMIT 1000 FOR UPDATE OF u SKIP LOCKED));
    RETURN mended;
END $$;
