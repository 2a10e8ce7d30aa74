-- Tenants share a queue. Each claim goes round the tenants that have work in it, by weight, so that the first run of one waits for a
-- few runs of another and never for its whole backlog. Within a tenant the order is strict, as before; with no tenants the claim is
-- as before (docs/decisions/0039-fair-sharing.md).

-- How much of a queue is a tenant's beside others that have work in it.
CREATE FUNCTION rota.tenant_weight(of_tenant text) RETURNS double precision LANGUAGE sql STABLE SET jit = off AS $$
    SELECT coalesce((SELECT t.weight FROM rota.tenants t WHERE t.name = of_tenant), 1)::double precision
$$;

-- The tenants that have work in a queue: one index probe for each. Of very many each call names some, and the next one goes on where
-- it ended; the place is kept by the session.
CREATE FUNCTION rota.busy_tenants(of_queue text, most integer DEFAULT 100) RETURNS SETOF text LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    place constant text := 'rota' || '.turn_' || md5(of_queue);
    nobody constant text := '';
    start  text := coalesce(current_setting(place, true), nobody);
    last   text := start;
    found  text;
    n      integer := 0;
BEGIN
    -- '' is a tenant too: it comes when the round begins anew.
    FOR turn IN 1..2 LOOP
        LOOP
            SELECT o.tenant INTO found FROM rota.open_runs o
            WHERE o.is_ready AND o.worker IS NULL AND o.queue = of_queue AND o.tenant > last ORDER BY o.tenant LIMIT 1;
            EXIT WHEN found IS NULL OR n = most OR (turn = 2 AND found > start);
            RETURN NEXT found;
            n := n + 1;
            last := found;
        END LOOP;
        EXIT WHEN n = most OR turn = 2;
        IF EXISTS (SELECT FROM rota.open_runs o WHERE o.is_ready AND o.worker IS NULL AND o.queue = of_queue AND o.tenant = nobody) THEN
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

-- Takes up to `most` runs of a queue, from each tenant its share: by weight of those that have work. What one does not use goes to the
-- others. Who comes first is drawn by weight too: a claim of a single run is a share as well.
CREATE FUNCTION rota.pick_shared(of_queue text, most integer, known_jobs text[]) RETURNS SETOF tid LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    names   text[];
    weights double precision[];
    taken   integer[];
    rest    integer := most;
    portion integer;
    total   double precision;
    share   integer;
    got     tid[];
BEGIN
    SELECT array_agg(t.name ORDER BY t.turn), array_agg(t.weight ORDER BY t.turn), array_agg(0) INTO names, weights, taken
    FROM (SELECT b.name, w.weight, -ln(1 - random()) / w.weight AS turn
          FROM rota.busy_tenants(of_queue) AS b (name) CROSS JOIN LATERAL (SELECT rota.tenant_weight(b.name) AS weight) w
          WHERE NOT EXISTS (SELECT FROM rota.tenants p WHERE p.name = b.name AND rota.tenant_is_paused(p))) t;
    WHILE rest > 0 LOOP
        SELECT sum(w) INTO total FROM unnest(weights) w;
        EXIT WHEN coalesce(total, 0) = 0;
        portion := rest;
        FOR i IN 1..cardinality(names) LOOP
            CONTINUE WHEN weights[i] = 0;
            share := least(rest, ceil(portion * weights[i] / total)::integer);
            -- What this transaction has taken before is passed over: its own locks do not hide it.
            got := ARRAY(SELECT o.ctid FROM rota.open_runs o
                         WHERE o.is_ready AND o.worker IS NULL AND o.queue = of_queue AND o.tenant = names[i] AND o.job = ANY (known_jobs)
                         ORDER BY o.priority, o.seq OFFSET taken[i] LIMIT share FOR UPDATE SKIP LOCKED);
            RETURN QUERY SELECT unnest(got);
            rest := rest - cardinality(got);
            taken[i] := taken[i] + cardinality(got);
            IF cardinality(got) < share THEN
                weights[i] := 0;
            END IF;
            EXIT WHEN rest = 0;
        END LOOP;
    END LOOP;
END $$;

-- As before, of the runs that have no tenant. Where there are tenants they share.
CREATE OR REPLACE FUNCTION rota.claim_runs(
    for_worker bigint, max_runs integer, from_queues text[], quota integer, known_jobs text[],
    hints bigint[], batch bigint DEFAULT NULL, start_batch bigint DEFAULT NULL
) RETURNS TABLE (
    id bigint, seq bigint, attempt integer, attempts_used smallint, max_attempts smallint, priority smallint,
    queue text, job text, payload jsonb, validated_by integer, timeout_seconds real, is_expired boolean,
    is_suspect boolean, enqueued_at timestamptz, claimed_at timestamptz, rest jsonb
) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    -- A parameter: a constant would let the planner walk over the runs of all tenants, by an index of those.
    nobody text := '';
    seen   record;
BEGIN
    SELECT statement_timestamp() + s.clock_offset AS clock,
           EXISTS (SELECT FROM rota.workers w
                   WHERE w.id = for_worker AND w.state = 'live' AND w.lease_expires_at > clock_timestamp()) AS is_live,
           EXISTS (SELECT FROM rota.jobs j WHERE NOT j.is_enabled) AS has_disabled,
           EXISTS (SELECT FROM rota.open_runs o WHERE o.is_ready AND o.queue = ANY (from_queues) AND o.tenant > nobody) AS is_shared
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
                 WHERE o.is_ready AND o.worker IS NULL AND o.queue = q.name AND o.tenant = nobody AND o.priority = p.priority::smallint
                   AND o.seq > coalesce(hints[(q.n - 1) * 10 + p.priority + 1], 0) AND o.job = ANY (known_jobs)
                 ORDER BY o.seq LIMIT quota FOR UPDATE SKIP LOCKED
             ) o
             LIMIT quota
         ) r
         WHERE NOT EXISTS (SELECT FROM rota.queues s
                           WHERE s.name = q.name AND s.is_paused AND (s.paused_until IS NULL OR s.paused_until > seen.clock))
         LIMIT max_runs)
        UNION ALL
        (SELECT r.tid
         FROM unnest(CASE WHEN seen.is_shared THEN from_queues END) AS q (name)
         CROSS JOIN LATERAL rota.pick_shared(q.name, quota, known_jobs) AS r (tid)
         WHERE NOT EXISTS (SELECT FROM rota.queues s
                           WHERE s.name = q.name AND s.is_paused AND (s.paused_until IS NULL OR s.paused_until > seen.clock))
         LIMIT max_runs)
    )
    UPDATE rota.open_runs o
    SET state = 'running', worker = for_worker, attempt = o.attempt + 1, started_at = seen.clock, claim_batch = claim_runs.batch
    WHERE o.ctid = ANY (ARRAY(SELECT tid FROM picked))
    RETURNING o.id, o.seq, o.attempt, o.attempts_used, o.max_attempts, o.priority, o.queue, o.job, o.payload, o.validated_by,
        o.timeout_seconds, o.expires_at <= seen.clock, o.is_suspect, o.enqueued_at, seen.clock,
        -- What only some runs carry is one value, NULL for the others.
        CASE WHEN o.tenant <> '' OR num_nonnulls(o.key, o.tags, o.metadata, o.backoff, o.triggered_by, o.schedule) > 0 THEN
            jsonb_build_object('tenant', o.tenant, 'key', o.key, 'tags', o.tags, 'metadata', o.metadata, 'backoff', o.backoff,
                'triggered_by', o.triggered_by, 'schedule', o.schedule, 'scheduled_for', o.scheduled_for, 'run_at', o.run_at) END;
END $$;


-- The tenants that have something waiting or running in a queue.
CREATE FUNCTION rota.lane_tenants(of_queue text, most integer DEFAULT 1000) RETURNS SETOF text LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
    WITH RECURSIVE found (tenant) AS (
        (SELECT o.tenant FROM rota.open_runs o WHERE o.is_ready AND o.queue = of_queue ORDER BY o.tenant LIMIT 1)
        UNION ALL
        SELECT (SELECT o.tenant FROM rota.open_runs o WHERE o.is_ready AND o.queue = of_queue AND o.tenant > f.tenant ORDER BY o.tenant LIMIT 1)
        FROM found f WHERE f.tenant IS NOT NULL
    )
    SELECT tenant FROM found WHERE tenant IS NOT NULL LIMIT most
$$;

-- As before, with lanes by tenant.
CREATE OR REPLACE FUNCTION rota.running_runs() RETURNS SETOF rota.open_runs LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
BEGIN
    IF NOT rota.has_many_open_runs() THEN
        RETURN QUERY SELECT o.* FROM rota.open_runs o WHERE o.state = 'running';
        RETURN;
    END IF;
    RETURN QUERY
    SELECT f.* FROM (SELECT DISTINCT d.queue FROM rota.depths d WHERE d.running > 0) AS q
    CROSS JOIN LATERAL rota.lane_tenants(q.queue) AS t (tenant)
    CROSS JOIN generate_series(0, 9) AS p (priority)
    CROSS JOIN LATERAL (SELECT o.* FROM rota.open_runs o
                        WHERE o.is_ready AND o.queue = q.queue AND o.tenant = t.tenant AND o.priority = p.priority
                        ORDER BY o.seq LIMIT 1000) AS f
    WHERE f.state = 'running';
END $$;

-- The place of a run in its line, which is that of its tenant: exact up to ten thousand, which is as far as anybody looks. Others who
-- have work in the queue take turns with it, so its pace is its share of the queue's.
CREATE OR REPLACE FUNCTION rota.why_line(o rota.open_runs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    most constant integer := 10000;
    idle   text[] := ARRAY(SELECT j.name FROM rota.jobs j WHERE NOT j.is_enabled);
    line   record;
    others record;
    pace   double precision;
BEGIN
    SELECT count(*) FILTER (WHERE a.worker IS NULL AND a.job <> ALL (idle)) AS ahead, count(*) > most AS is_long INTO line
    FROM (SELECT b.worker, b.job FROM rota.open_runs b
          WHERE b.is_ready AND b.queue = o.queue AND b.tenant = o.tenant AND (b.priority, b.seq) < (o.priority, o.seq)
          ORDER BY b.priority, b.seq LIMIT most + 1) a;
    SELECT count(*) AS tenants, rota.tenant_weight(o.tenant) / (rota.tenant_weight(o.tenant) + coalesce(sum(rota.tenant_weight(t.tenant)), 0)) AS share
    INTO others FROM rota.lane_tenants(o.queue) AS t (tenant) WHERE t.tenant <> o.tenant;
    IF line.ahead = 0 AND NOT line.is_long THEN
        RETURN NEXT ROW(CASE WHEN others.tenants > 0 THEN 'next_of_tenant' ELSE 'next_in_line' END, o.enqueued_at, NULL, NULL,
            jsonb_build_object('queue', o.queue, 'others', rota.plural_words(others.tenants, 'other tenant')))::rota.finding;
        RETURN;
    END IF;
    pace := CASE WHEN NOT line.is_long THEN rota.pace_of(o.queue) * others.share END;
    RETURN NEXT ROW('in_line', o.enqueued_at, rota.now() + make_interval(secs => line.ahead / pace), NULL, jsonb_build_object('queue', o.queue,
        'ahead', CASE WHEN line.is_long THEN 'More than ' || rota.plural_words(line.ahead, 'run') || ' wait' WHEN line.ahead = 1 THEN '1 run waits'
                      ELSE rota.plural_words(line.ahead, 'run') || ' wait' END,
        'place', line.ahead + 1, 'is_exact', NOT line.is_long,
        'then', CASE WHEN others.tenants > 0 THEN format('It takes turns with %s, by weight. ', rota.plural_words(others.tenants, 'other tenant')) ELSE '' END ||
                CASE WHEN pace IS NULL THEN 'Strictly by priority, then by age; when it starts cannot be told, as nothing of the queue has ended lately.'
                     ELSE format('At the pace of the last minutes, %s a minute, it starts about then.', trim_scale(round((pace * 60)::numeric, CASE WHEN pace < 1 THEN 1 ELSE 0 END))) END))::rota.finding;
END $$;

INSERT INTO rota.reasons (place, code, sentence, next_step, command) VALUES
(53, 'next_of_tenant', 'It is the next of its tenant in queue {queue}, shared with {others}.', 'Tenants take turns by weight: a worker with a free slot takes it within a few runs.', 'rota queues show {queue}');
