-- How a worker gets runs: `claim_runs`, by priority and age inside a queue, shared among tenants by `pick_shared`. A
-- run whose worker was lost with it is a suspect, and is claimed alone by `claim_suspect`. `hand_back_runs` gives
-- back what was claimed and not started.

-- Claims up to max_runs for a worker, and starts its batch of before. Strict priority, then age, inside a queue;
-- queues in the given order, none gets more than its quota. Where tenants share these queues, pick_shared takes from
-- each; runs of one tenant alone, `lane` ('' is nobody's), are taken here. hints holds for each queue ten places
-- (priorities 0 to 9) up to which this worker has looked at the lane: it is for speed only, and steps over the dead
-- index entries of what was claimed before; lanes of tenants that share have theirs in the session (pick_shared), and
-- without hints nobody's are used. batch NULL: the runs start with their claim; else they count as started
-- when start_batch names it in a later call. One look at worker, jobs and clock serves all. Locks rows with SKIP
-- LOCKED, so that claims never wait for one another.
-- RO006: the worker is not live.
-- Called by: sql/runs/claim.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.claim_runs(
    for_worker bigint, max_runs integer, from_queues text[], quota integer, known_jobs text[],
    hints bigint[], batch bigint DEFAULT NULL, start_batch bigint DEFAULT NULL, lane text DEFAULT ''
) RETURNS TABLE (
    id bigint, seq bigint, attempt integer, attempts_used smallint, max_attempts smallint, priority smallint,
    queue text, job text, payload jsonb, validated_by integer, timeout_seconds real, is_expired boolean,
    is_suspect boolean, enqueued_at timestamptz, claimed_at timestamptz, rest jsonb, tenant text
) LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off AS $$
#variable_conflict use_column
DECLARE
    seen record;
BEGIN
    SELECT statement_timestamp() + s.clock_offset AS clock,
           CASE WHEN s.is_adopting THEN rota.adopting_limits() END AS adopting,
           EXISTS (SELECT FROM rota.workers w
                   WHERE w.id = for_worker AND w.state = 'live' AND w.lease_expires_at > clock_timestamp()) AS is_live,
           EXISTS (SELECT FROM rota.jobs j WHERE NOT j.is_enabled) AS has_disabled,
           -- Whether other tenants have work here: two ranges of the index; the lane '' needs only the second. Where
           -- they had so much that this session has marks of them, only a claim without hints looks.
           CASE WHEN hints <> '{}' AND current_setting('rota' || '.marked', true) = for_worker::text THEN true
           ELSE lane > '' AND (EXISTS (SELECT FROM rota.open_runs o WHERE o.is_ready AND o.queue = ANY (from_queues)
                   AND o.tenant < lane)
               OR EXISTS (SELECT FROM rota.tenants p WHERE p.name = lane AND rota.tenant_is_paused(p)))
           OR EXISTS (SELECT FROM rota.open_runs o WHERE o.is_ready AND o.queue = ANY (from_queues)
               AND o.tenant > lane) END AS is_shared
    INTO seen FROM rota.settings s;
    IF NOT seen.is_live THEN
        PERFORM rota.check_worker(for_worker);
    ELSIF seen.has_disabled THEN
        known_jobs := rota.enabled_jobs(known_jobs);
    END IF;
    IF start_batch IS NOT NULL THEN
        INSERT INTO rota.batch_starts (worker, batch) VALUES (for_worker, start_batch);
    END IF;
    IF max_runs <= 0 THEN
        RETURN;
    ELSIF NOT seen.is_shared AND hints = '{}' AND current_setting('rota' || '.marked', true) = for_worker::text THEN
        PERFORM set_config('rota' || '.marked', '', false);
    END IF;
    RETURN QUERY
    WITH picked AS MATERIALIZED (
        (SELECT r.tid
         FROM unnest(CASE WHEN NOT seen.is_shared THEN from_queues END) WITH ORDINALITY AS q (name, n)
         CROSS JOIN LATERAL (
             SELECT o.tid
             FROM generate_series(0, 9) AS p (priority)
             CROSS JOIN LATERAL (
                 SELECT o.ctid AS tid FROM rota.open_runs o
                 WHERE o.is_ready AND o.worker IS NULL AND o.queue = q.name AND o.tenant = lane
                   AND o.priority = p.priority::smallint
                   AND o.seq > coalesce(hints[(q.n - 1) * 10 + p.priority + 1], 0)
                   -- Among many jobs by a hash, once for the claim: an array is searched from its beginning.
                   AND CASE WHEN max_runs < 10 OR cardinality(known_jobs) < 50 THEN o.job = ANY (known_jobs)
                       ELSE (o.job IN (SELECT unnest(known_jobs))) IS TRUE END
                   AND (seen.adopting IS NULL OR split_part(o.limit_keys[1], ':', 1) = ALL (seen.adopting)
                       OR NOT rota.lacks_limit(o.job, o.queue, o.tenant, o.schedule, o.limit_keys))
                   AND (o.refused_by IS NULL OR NOT o.refused_by && (SELECT w.intakes FROM rota.workers w
                       WHERE w.id = for_worker))
                 ORDER BY o.seq LIMIT quota FOR UPDATE SKIP LOCKED
             ) o
             LIMIT quota
         ) r
         WHERE NOT EXISTS (SELECT FROM rota.queues s
                           WHERE s.name = q.name AND s.is_paused
                             AND (s.paused_until IS NULL OR s.paused_until > seen.clock))
         LIMIT max_runs)
        UNION ALL
        (SELECT r.tid
         FROM unnest(CASE WHEN seen.is_shared THEN from_queues END) AS q (name)
         CROSS JOIN LATERAL rota.pick_shared(q.name, quota, known_jobs, for_worker,
             seen.adopting, hints <> '{}') AS r (tid)
         WHERE NOT EXISTS (SELECT FROM rota.queues s
                           WHERE s.name = q.name AND s.is_paused
                             AND (s.paused_until IS NULL OR s.paused_until > seen.clock))
         LIMIT max_runs)
    )
    UPDATE rota.open_runs o
    SET state = 'running', worker = for_worker, attempt = o.attempt + 1, started_at = seen.clock,
        claim_batch = claim_runs.batch
    WHERE o.ctid = ANY (ARRAY(SELECT tid FROM picked))
    RETURNING o.id, o.seq, o.attempt, o.attempts_used, o.max_attempts, o.priority, o.queue, o.job,
        coalesce(o.payload, rota.large_payload(o.id)),
        o.validated_by, o.timeout_seconds, o.expires_at <= seen.clock, o.suspicion > 0, o.enqueued_at, seen.clock,
        -- What only some runs carry is one value, NULL for the others.
        CASE WHEN num_nonnulls(o.key, o.tags, o.metadata, o.backoff, o.triggered_by, o.schedule) > 0 THEN
            jsonb_build_object('key', o.key, 'tags', o.tags, 'metadata', o.metadata, 'backoff', o.backoff,
                'triggered_by', o.triggered_by, 'schedule', o.schedule, 'scheduled_for', o.scheduled_for,
                'run_at', o.run_at) END,
        o.tenant;
END $$;

-- These jobs without those that are disabled: one probe while there are none.
-- Called by: claim_runs, claim_suspect.
CREATE FUNCTION rota.enabled_jobs(names text[]) RETURNS text[] LANGUAGE plpgsql STABLE SET jit = off AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM rota.jobs j WHERE NOT j.is_enabled) THEN
        RETURN names;
    END IF;
    RETURN ARRAY(SELECT n FROM unnest(names) n
        WHERE NOT EXISTS (SELECT FROM rota.jobs j WHERE j.name = n AND NOT j.is_enabled));
END $$;

-- Takes up to `most` runs of a queue, from each tenant its share: by weight of those that have work. What one does not
-- use goes to the others. Who comes first is drawn by weight too: a claim of a single run is a share as well. Of lanes
-- where that reads much the session keeps marks, which are what hints are for the lane of one: up to where this worker
-- has taken, by priority. Dead entries before them are stepped over; is_marked: whether to.
-- Called by: claim_runs.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.pick_shared(of_queue text, most integer, known_jobs text[], for_worker bigint,
    adopting text[], is_marked boolean)
RETURNS SETOF tid LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    names   text[];
    weights double precision[];
    taken   integer[];
    rest    integer := most;
    portion integer;
    total   double precision;
    share   integer;
    got     tid[];
    found   tid[] := '{}';
    moving  text[] := '{}';   -- lanes whose marks begin, or move, with this claim
    n       integer;
    lanes   constant text := 'rota' || '.lanes_' || for_worker || '_' || md5(of_queue);
    marked  text[] := nullif(current_setting(lanes, true), '')::text[];
    marks   bigint[];
    -- blocks of the table that the transaction has read so far: what a lane costs, whatever else the machine does
    before  bigint := pg_stat_get_xact_blocks_fetched('rota.open_runs'::regclass);
    read    bigint;
    is_slow boolean;          -- to find the tenants has read much: lanes without work, and without marks, are to blame
BEGIN
    SELECT array_agg(t.name ORDER BY t.turn), array_agg(t.weight ORDER BY t.turn), array_agg(0) INTO names, weights,
        taken
    FROM (SELECT b.name, w.weight, -ln(1 - random()) / w.weight AS turn
          FROM rota.busy_tenants(of_queue, for_worker, CASE WHEN is_marked THEN marked END) AS b (name)
          CROSS JOIN LATERAL (SELECT rota.tenant_weight(b.name) AS weight) w
          WHERE NOT EXISTS (SELECT FROM rota.tenants p WHERE p.name = b.name AND rota.tenant_is_paused(p))) t;
    read := pg_stat_get_xact_blocks_fetched('rota.open_runs'::regclass);
    is_slow := read - before > 1000 + 20 * cardinality(names);
    before := read;
    WHILE rest > 0 LOOP
        SELECT sum(w) INTO total FROM unnest(weights) w;
        EXIT WHEN coalesce(total, 0) = 0;
        portion := rest;
        FOR i IN 1..cardinality(names) LOOP
            CONTINUE WHEN weights[i] = 0;
            share := least(rest, ceil(portion * weights[i] / total)::integer);
            -- What this transaction has taken before is passed over: its own locks do not hide it.
            IF is_marked AND names[i] = ANY (marked) THEN
                marks := rota.marks_of(for_worker, of_queue, names[i]);
                got := ARRAY(
                    SELECT o.tid FROM generate_series(0, 9) AS g (priority)
                    CROSS JOIN LATERAL (
                        SELECT o.ctid AS tid FROM rota.open_runs o
                        WHERE o.is_ready AND o.worker IS NULL AND o.queue = of_queue AND o.tenant = names[i]
                          AND o.priority = g.priority::smallint AND o.seq > marks[g.priority + 1]
                          AND o.job = ANY (known_jobs)
                          AND (o.refused_by IS NULL OR NOT o.refused_by && (SELECT w.intakes FROM rota.workers w
                              WHERE w.id = for_worker))
                          AND (adopting IS NULL OR split_part(o.limit_keys[1], ':', 1) = ALL (adopting)
                              OR NOT rota.lacks_limit(o.job, o.queue, o.tenant, o.schedule, o.limit_keys))
                        ORDER BY o.seq LIMIT taken[i] + share FOR UPDATE SKIP LOCKED) o
                    OFFSET taken[i] LIMIT share);
            ELSE
                got := ARRAY(
                    SELECT o.ctid FROM rota.open_runs o
                    WHERE o.is_ready AND o.worker IS NULL AND o.queue = of_queue AND o.tenant = names[i]
                      AND o.job = ANY (known_jobs)
                      AND (o.refused_by IS NULL OR NOT o.refused_by && (SELECT w.intakes FROM rota.workers w
                          WHERE w.id = for_worker))
                      AND (adopting IS NULL OR split_part(o.limit_keys[1], ':', 1) = ALL (adopting)
                          OR NOT rota.lacks_limit(o.job, o.queue, o.tenant, o.schedule, o.limit_keys))
                    ORDER BY o.priority, o.seq OFFSET taken[i] LIMIT share FOR UPDATE SKIP LOCKED);
            END IF;
            n := cardinality(got);
            RETURN QUERY SELECT unnest(got);
            rest := rest - n;
            taken[i] := taken[i] + n;
            IF n < share THEN
                weights[i] := 0;
            END IF;
            -- Marks cost a little, so that they are begun where a lane, or the search for the tenants, reads much for
            -- what is found; then they follow after some hundred runs, in whatever portions.
            read := pg_stat_get_xact_blocks_fetched('rota.open_runs'::regclass);
            IF n > 0 AND (names[i] = ANY (marked) AND random() < n / 200.0
                OR coalesce(cardinality(marked), 0) + cardinality(moving) < 100
                    AND (is_slow OR read - before > 200 + 20 * n)) THEN
                moving := moving || names[i];
            END IF;
            before := read;
            found := found || got;
            EXIT WHEN rest = 0;
        END LOOP;
    END LOOP;
    -- Not before: a lane may be visited again for what others leave, and steps over what it has given by number then.
    IF moving <> '{}' THEN
        PERFORM rota.mark_lane(for_worker, of_queue, m.tenant, m.grades, m.places)
        FROM (SELECT o.tenant, array_agg(o.priority) AS grades, array_agg(o.seq) AS places
              FROM rota.open_runs o WHERE o.ctid = ANY (found) AND o.tenant = ANY (moving) GROUP BY 1) m;
        marked := ARRAY(SELECT DISTINCT unnest(marked || moving));
        PERFORM set_config(lanes, marked::text, false), set_config('rota' || '.marked', for_worker::text, false);
    END IF;
END $$;

-- Up to where this worker has taken runs of a lane, by priority; nothing where the session does not know.
-- Called by: has_more, mark_lane, pick_shared.
CREATE FUNCTION rota.marks_of(for_worker bigint, of_queue text, of_tenant text) RETURNS bigint[] LANGUAGE sql STABLE
SET jit = off AS $$
    SELECT coalesce(nullif(current_setting('rota' || '.lane_' || for_worker || '_'
        || md5(of_queue || chr(31) || of_tenant), true), '')::bigint[], array_fill(0::bigint, ARRAY[10]))
$$;

-- Moves the marks of a lane to the last of these places of each priority.
-- Called by: pick_shared.
CREATE FUNCTION rota.mark_lane(for_worker bigint, of_queue text, of_tenant text, grades smallint[], places bigint[])
RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    marks bigint[] := rota.marks_of(for_worker, of_queue, of_tenant);
BEGIN
    FOR i IN 1..cardinality(grades) LOOP
        marks[grades[i] + 1] := greatest(marks[grades[i] + 1], places[i]);
    END LOOP;
    PERFORM set_config('rota' || '.lane_' || for_worker || '_' || md5(of_queue || chr(31) || of_tenant), marks::text,
        false);
END $$;

-- Whether a lane has work behind the marks of this worker. Priorities without a mark are asked together.
-- Called by: busy_tenants.
CREATE FUNCTION rota.has_more(for_worker bigint, of_queue text, of_tenant text) RETURNS boolean LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET jit = off AS $$
DECLARE
    marks bigint[] := rota.marks_of(for_worker, of_queue, of_tenant);
    low   integer := -1;
BEGIN
    FOR p IN 0..10 LOOP
        CONTINUE WHEN marks[p + 1] = 0;
        IF p > low + 1 AND EXISTS (SELECT FROM rota.open_runs o
               WHERE o.is_ready AND o.worker IS NULL AND o.queue = of_queue AND o.tenant = of_tenant
                 AND o.priority > low AND o.priority < p)
           OR EXISTS (SELECT FROM rota.open_runs o
               WHERE o.is_ready AND o.worker IS NULL AND o.queue = of_queue AND o.tenant = of_tenant
                 AND o.priority = p AND o.seq > marks[p + 1]) THEN
            RETURN true;
        END IF;
        low := p;
    END LOOP;
    RETURN false;
END $$;

-- The tenants that have work in a queue: one index probe for each. Of very many each call names some, and the next one
-- goes on where it ended; the place is kept by the session. Lanes that have marks (`marked`) are asked behind those,
-- and the index is walked between them.
-- Called by: pick_shared.
CREATE FUNCTION rota.busy_tenants(of_queue text, for_worker bigint, marked text[], most integer DEFAULT 100)
RETURNS SETOF text
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    place constant text := 'rota' || '.turn_' || md5(of_queue);
    nobody constant text := '';
    start  text := coalesce(current_setting(place, true), nobody);
    last   text := start;
    found  text;
    beyond text;   -- the next lane with marks
    is_new boolean;
    n      integer := 0;
BEGIN
    -- '' is a tenant too: it comes when the round begins anew.
    FOR turn IN 1..2 LOOP
        is_new := true;
        LOOP
            IF marked IS NOT NULL AND (is_new OR last = beyond) THEN
                beyond := (SELECT min(m COLLATE "C") FROM unnest(marked) m WHERE m COLLATE "C" > last);
                is_new := false;
            END IF;
            IF beyond IS NULL THEN
                SELECT o.tenant INTO found FROM rota.open_runs o
                WHERE o.is_ready AND o.worker IS NULL AND o.queue = of_queue AND o.tenant > last
                ORDER BY o.tenant LIMIT 1;
            ELSE
                SELECT o.tenant INTO found FROM rota.open_runs o
                WHERE o.is_ready AND o.worker IS NULL AND o.queue = of_queue AND o.tenant > last AND o.tenant < beyond
                ORDER BY o.tenant LIMIT 1;
                IF found IS NULL AND NOT rota.has_more(for_worker, of_queue, beyond) THEN
                    EXIT WHEN turn = 2 AND beyond > start;
                    last := beyond;
                    CONTINUE;
                END IF;
                found := coalesce(found, beyond);
            END IF;
            EXIT WHEN found IS NULL OR n = most OR (turn = 2 AND found > start);
            RETURN NEXT found;
            n := n + 1;
            last := found;
        END LOOP;
        EXIT WHEN n = most OR turn = 2;
        IF nobody = ANY (marked) AND rota.has_more(for_worker, of_queue, nobody)
           OR (nobody = ANY (marked)) IS NOT TRUE AND EXISTS (SELECT FROM rota.open_runs o
               WHERE o.is_ready AND o.worker IS NULL AND o.queue = of_queue AND o.tenant = nobody) THEN
            RETURN NEXT nobody;
            n := n + 1;
        END IF;
        EXIT WHEN start = '' OR n = most;
        last := '';
    END LOOP;
    IF n = most OR start <> '' THEN
        PERFORM set_config(place, CASE WHEN n = most THEN last ELSE '' END, false);
    END IF;
END $$;

-- The tenants that have something waiting or running in a queue.
-- Called by: running_runs, why_line.
CREATE FUNCTION rota.lane_tenants(of_queue text, most integer DEFAULT 1000) RETURNS SETOF text
LANGUAGE sql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
    WITH RECURSIVE found (tenant) AS (
        (SELECT o.tenant FROM rota.open_runs o WHERE o.is_ready AND o.queue = of_queue ORDER BY o.tenant LIMIT 1)
        UNION ALL
        SELECT (SELECT o.tenant FROM rota.open_runs o WHERE o.is_ready AND o.queue = of_queue AND o.tenant > f.tenant
            ORDER BY o.tenant LIMIT 1)
        FROM found f WHERE f.tenant IS NOT NULL
    )
    SELECT tenant FROM found WHERE tenant IS NOT NULL LIMIT most
$$;

-- How much of a queue is a tenant's beside others that have work in it.
-- Called by: pick_shared, sql/tenants/shares.sql, why_line.
CREATE FUNCTION rota.tenant_weight(of_tenant text) RETURNS double precision LANGUAGE sql STABLE SET jit = off AS $$
    SELECT coalesce((SELECT t.weight FROM rota.tenants t WHERE t.name = of_tenant), 1)::double precision
$$;

-- The queues that hold work: one index probe for each, however many rows wait in them.
-- Called by: audit_job, hold_runs_of, sql/queues/busy.sql.
CREATE FUNCTION rota.busy_queues() RETURNS SETOF text LANGUAGE sql STABLE SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
    WITH RECURSIVE found AS (
        (SELECT queue FROM rota.open_runs WHERE is_ready AND worker IS NULL ORDER BY queue LIMIT 1)
        UNION ALL
        SELECT (SELECT o.queue FROM rota.open_runs o
                WHERE o.is_ready AND o.worker IS NULL AND o.queue > f.queue ORDER BY o.queue LIMIT 1)
        FROM found f WHERE f.queue IS NOT NULL
    )
    SELECT queue FROM found WHERE queue IS NOT NULL
$$;

-- The run that a worker isolates at this moment.
-- Called by: claim_suspect, mark_lost_workers, may_isolate_inline, sql/runs/strays.sql,
-- sql/workers/declare_lost.sql, sql/workers/list.sql, why_held.
CREATE FUNCTION rota.isolating_of(w rota.workers) RETURNS bigint LANGUAGE sql STABLE SET jit = off AS $$
    SELECT o.id FROM rota.open_runs o WHERE o.id = w.isolating_run AND o.attempt = w.isolating_attempt
        AND o.worker = w.id
$$;

-- Whether a run is the one that its worker isolates.
-- Called by: sql/runs/isolation.sql, why_running.
CREATE FUNCTION rota.is_isolated(o rota.open_runs) RETURNS boolean LANGUAGE sql STABLE SET jit = off AS $$
    SELECT EXISTS (SELECT FROM rota.workers w WHERE w.id = o.worker AND w.isolating_run = o.id
        AND w.isolating_attempt = o.attempt)
$$;

-- Whether a suspect may be isolated in its worker's own process: nobody else does so. Of two that ask at once one is
-- told to ask again.
-- Called by: claim_suspect.
-- Locks: "isolation" if it is free.
CREATE FUNCTION rota.may_isolate_inline(for_worker bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE
SET jit = off AS $$
BEGIN
    RETURN rota.try_lock('isolation') AND NOT EXISTS (
        SELECT FROM rota.workers w
        WHERE w.is_isolating_inline AND w.id <> for_worker AND w.state IN ('live', 'stopping')
          AND rota.isolating_of(w) IS NOT NULL);
END $$;

-- One suspect for a worker that isolates none. inline_jobs are those that this worker can only run in its own
-- process. Asked again before the attempt has ended, it returns the same run: the first answer may have been lost.
-- Called by: sql/runs/claim_suspect.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.claim_suspect(for_worker bigint, from_queues text[], known_jobs text[],
    inline_jobs text[] DEFAULT '{}')
RETURNS TABLE (
    id bigint, seq bigint, attempt integer, attempts_used smallint, max_attempts smallint, priority smallint,
    queue text, job text, payload jsonb, validated_by integer, timeout_seconds real, is_expired boolean,
    is_suspect boolean, enqueued_at timestamptz, claimed_at timestamptz, rest jsonb, tenant text
) LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock  timestamptz := rota.now();
    chosen bigint;
BEGIN
    PERFORM rota.check_worker(for_worker);
    -- Again where the attempt that it isolated ended between the two looks: the next one is to be claimed then.
    LOOP
        SELECT rota.isolating_of(w) INTO chosen FROM rota.workers w WHERE w.id = for_worker;
        IF chosen IS NULL THEN
            known_jobs := rota.enabled_jobs(known_jobs);
            IF EXISTS (SELECT FROM rota.open_runs o WHERE o.held_by = 'suspect' AND o.job = ANY (inline_jobs))
               AND NOT rota.may_isolate_inline(for_worker) THEN
                known_jobs := ARRAY(SELECT k FROM unnest(known_jobs) k WHERE k <> ALL (inline_jobs));
            END IF;
            UPDATE rota.open_runs o
            SET state = 'running', worker = for_worker, attempt = o.attempt + 1, started_at = clock, held_by = NULL
            WHERE o.id = (
                SELECT w.id FROM rota.open_runs w
                WHERE w.held_by = 'suspect' AND w.state = 'queued' AND w.job = ANY (known_jobs)
                  AND (from_queues = '{}' OR w.queue = ANY (from_queues))
                  AND (w.refused_by IS NULL OR NOT w.refused_by && (SELECT v.intakes FROM rota.workers v
                      WHERE v.id = for_worker))
                  AND NOT EXISTS (SELECT FROM rota.queues s WHERE s.name = w.queue AND rota.queue_is_paused(s))
                  AND NOT EXISTS (SELECT FROM rota.tenants t WHERE t.name = w.tenant AND rota.tenant_is_paused(t))
                ORDER BY w.priority, w.seq LIMIT 1 FOR UPDATE SKIP LOCKED)
            RETURNING o.id INTO chosen;
            IF chosen IS NULL THEN
                RETURN;
            END IF;
            UPDATE rota.workers w SET isolating_run = o.id, isolating_attempt = o.attempt,
                is_isolating_inline = o.job = ANY (inline_jobs)
            FROM rota.open_runs o WHERE o.id = chosen AND w.id = for_worker;
        END IF;
        RETURN QUERY
        SELECT o.id, o.seq, o.attempt, o.attempts_used, o.max_attempts, o.priority, o.queue, o.job,
            coalesce(o.payload, rota.large_payload(o.id)),
            o.validated_by, o.timeout_seconds, o.expires_at <= clock, o.suspicion > 0, o.enqueued_at, o.started_at,
            -- What only some runs carry is one value, NULL for the others.
            CASE WHEN num_nonnulls(o.key, o.tags, o.metadata, o.backoff, o.triggered_by, o.schedule) > 0 THEN
                jsonb_build_object('key', o.key, 'tags', o.tags, 'metadata', o.metadata, 'backoff', o.backoff,
                    'triggered_by', o.triggered_by, 'schedule', o.schedule, 'scheduled_for', o.scheduled_for,
                    'run_at', o.run_at) END,
            o.tenant
        FROM rota.open_runs o WHERE o.id = chosen;
        EXIT WHEN FOUND;
    END LOOP;
END $$;

-- Gives back what was claimed and not started: to its place in the line, with no attempt spent and with what limits
-- have given it. What was isolated waits to be isolated. Whoever waits is called. A run that somebody holds is kept as
-- `unstarted` (kept_ends), and given back when it is free.
-- Called by: rescue_runs, settle_kept_ends, sql/runs/hand_back.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.hand_back_runs(for_worker bigint, ids bigint[], attempts integer[]) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    done    bigint[];
    touched text[];
    holds   text[];
BEGIN
    WITH free AS MATERIALIZED (
        SELECT f.id FROM unnest(ids, attempts) AS h (id, attempt)
        CROSS JOIN LATERAL (SELECT o.id FROM rota.open_runs o
            WHERE o.id = ANY (ARRAY[h.id]) AND o.attempt = h.attempt AND o.worker = for_worker
            FOR UPDATE SKIP LOCKED) f
    ), back AS (
        UPDATE rota.open_runs o
        SET state = 'queued', worker = NULL, started_at = NULL, claim_batch = NULL,
            held_by = rota.hold_of(true, NULL, o.suspicion)
        FROM free f WHERE o.id = ANY (ARRAY[f.id])
        RETURNING o.id, o.queue, o.held_by
    ), kept AS (
        INSERT INTO rota.kept_ends (run_id, attempt, worker, attempt_state)
        SELECT h.id, h.attempt, for_worker, 'unstarted' FROM unnest(ids, attempts) AS h (id, attempt)
        WHERE h.id NOT IN (SELECT f.id FROM free f) AND EXISTS (SELECT FROM rota.open_runs o
            WHERE o.id = ANY (ARRAY[h.id]) AND o.attempt = h.attempt AND o.worker = for_worker)
        ON CONFLICT DO NOTHING
    )
    SELECT array_agg(id), array_agg(DISTINCT queue) FILTER (WHERE held_by IS NULL), array_agg(DISTINCT held_by)
    INTO done, touched, holds FROM back;
    PERFORM rota.wake_for(touched, holds);
    RETURN QUERY SELECT unnest(done);
    -- Somebody asked to cancel it while it was claimed: its next attempt would not know.
    PERFORM rota.end_waiting_runs(ARRAY[c.run_id], 'cancelled',
        'cancelled by ' || c.requested_by || coalesce(': ' || c.reason, ''))
    FROM unnest(ids, attempts) AS h (id, attempt)
    JOIN rota.cancel_requests c ON c.run_id = h.id AND c.attempt = h.attempt
    JOIN rota.open_runs o ON o.id = ANY (ARRAY[h.id]) AND o.attempt = h.attempt AND o.state = 'queued';
END $$;
