-- What operators do to workers, what the audit is asked, and long work in portions.

CREATE INDEX audit_at ON rota.audit (at);
CREATE INDEX audit_actor ON rota.audit (actor, id);

-- Draining: a worker is told to claim and tick no more, to finish what it runs, and then to wait or to end.
-- The state stays live, because the release before knows no other word for a worker that renews its lease.

ALTER TABLE rota.workers
    ADD COLUMN drain_requested_at timestamptz,           -- real clock; NULL: it claims
    ADD COLUMN drain_requested_by text,
    ADD COLUMN drain_reason       text,
    ADD COLUMN drain_seen_at      timestamptz,           -- since when the worker knows
    ADD COLUMN is_to_stop         boolean NOT NULL DEFAULT false;

-- The row of a worker that can be told something.
CREATE FUNCTION rota.lock_live_worker(of_worker bigint) RETURNS rota.workers LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    found rota.workers;
BEGIN
    SELECT * INTO found FROM rota.workers w WHERE w.id = of_worker FOR NO KEY UPDATE;
    IF found.id IS NULL THEN
        RAISE EXCEPTION 'there is no worker %', of_worker USING ERRCODE = 'RO010';
    ELSIF found.state <> 'live' THEN
        RAISE EXCEPTION 'worker % is %', of_worker, found.state USING ERRCODE = 'RO005';
    END IF;
    RETURN found;
END $$;

-- It learns of it by a call, or with its next heartbeat at the latest. One that drains already can still be told to stop.
CREATE FUNCTION rota.drain_worker(worker bigint, stop boolean DEFAULT false, reason text DEFAULT NULL, actor text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    who text := coalesce(drain_worker.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    found rota.workers := rota.lock_live_worker(drain_worker.worker);
    was_draining boolean := found.drain_requested_at IS NOT NULL;
BEGIN
    IF was_draining AND (found.is_to_stop OR NOT drain_worker.stop) THEN
        RAISE EXCEPTION 'worker % is already draining', drain_worker.worker USING ERRCODE = 'RO005';
    END IF;
    -- Somebody else makes room for suspects; it takes none any more.
    UPDATE rota.workers w SET drain_requested_at = coalesce(w.drain_requested_at, clock_timestamp()), drain_requested_by = who,
        drain_reason = coalesce(drain_worker.reason, w.drain_reason), is_to_stop = drain_worker.stop, is_solo = false
    WHERE w.id = found.id;
    PERFORM rota.write_audit(who, 'worker.drained', 'worker', found.id::text,
        jsonb_build_object('is_draining', was_draining, 'is_to_stop', found.is_to_stop),
        jsonb_build_object('is_draining', true, 'is_to_stop', drain_worker.stop), drain_worker.reason);
    PERFORM pg_notify('rota', 'worker ' || found.id);
END $$;

CREATE FUNCTION rota.resume_worker(worker bigint, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    found rota.workers := rota.lock_live_worker(resume_worker.worker);
BEGIN
    IF found.drain_requested_at IS NULL THEN
        RAISE EXCEPTION 'worker % is not draining', resume_worker.worker USING ERRCODE = 'RO005';
    END IF;
    UPDATE rota.workers w SET drain_requested_at = NULL, drain_requested_by = NULL, drain_reason = NULL, drain_seen_at = NULL,
        is_to_stop = false
    WHERE w.id = found.id;
    PERFORM rota.write_audit(resume_worker.actor, 'worker.resumed', 'worker', found.id::text,
        jsonb_build_object('is_draining', true, 'is_to_stop', found.is_to_stop),
        jsonb_build_object('is_draining', false, 'is_to_stop', false), resume_worker.reason);
    PERFORM pg_notify('rota', 'worker ' || found.id);
END $$;

-- What waits and runs, by queue and job. Of few open runs the exact count; of many the kept one, so that looking
-- every second does not read a million rows. counted_at, by the real clock, says how old it is.
CREATE FUNCTION rota.has_many_open_runs() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT count(*) > 20000 FROM (SELECT FROM rota.open_runs LIMIT 20001) AS few
$$;

CREATE FUNCTION rota.read_depths() RETURNS TABLE (
    queue text, job text, blocked bigint, scheduled bigint, queued bigint, held bigint, running bigint,
    oldest_at timestamptz, counted_at timestamptz
) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    IF rota.has_many_open_runs() THEN
        PERFORM rota.count_depths(2);
        RETURN QUERY
        SELECT d.queue, d.job, d.blocked, d.scheduled, d.queued, d.held, d.running, d.oldest_at, m.counted_at
        FROM rota.depths d CROSS JOIN rota.depth_marks m;
    ELSE
        RETURN QUERY
        SELECT o.queue, o.job, count(*) FILTER (WHERE o.state = 'blocked'), count(*) FILTER (WHERE o.state = 'scheduled'),
               count(*) FILTER (WHERE o.state = 'queued'), count(*) FILTER (WHERE o.held_by IS NOT NULL),
               count(*) FILTER (WHERE o.state = 'running'),
               min(o.enqueued_at) FILTER (WHERE o.state = 'queued' AND o.held_by IS NULL), clock_timestamp()
        FROM rota.open_runs o GROUP BY o.queue, o.job;
    END IF;
END $$;

-- What runs. No index tells, because a claim touches none. Of many open runs only the front of each lane is read, where
-- claims take from: what runs far behind a thousand waiting ones of its lane is left out.
CREATE FUNCTION rota.running_runs() RETURNS SETOF rota.open_runs LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
BEGIN
    IF NOT rota.has_many_open_runs() THEN
        RETURN QUERY SELECT o.* FROM rota.open_runs o WHERE o.state = 'running';
        RETURN;
    END IF;
    RETURN QUERY
    SELECT f.* FROM (SELECT DISTINCT d.queue FROM rota.depths d WHERE d.running > 0) AS q
    CROSS JOIN generate_series(0, 9) AS p (priority)
    CROSS JOIN LATERAL (SELECT o.* FROM rota.open_runs o
                        WHERE o.is_ready AND o.queue = q.queue AND o.priority = p.priority ORDER BY o.seq LIMIT 1000) AS f
    WHERE f.state = 'running';
END $$;

-- Runs by worker: what was claimed ahead and has not started is apart.
CREATE FUNCTION rota.worker_loads() RETURNS TABLE (worker bigint, running bigint, claimed bigint) LANGUAGE sql STABLE AS $$
    SELECT r.worker, count(*) FILTER (WHERE coalesce(r.claim_batch, 0) <= coalesce(s.batch, 0)),
           count(*) FILTER (WHERE r.claim_batch > coalesce(s.batch, 0))
    FROM rota.running_runs() r
    LEFT JOIN (SELECT b.worker, max(b.batch) AS batch FROM rota.batch_starts b GROUP BY b.worker) s ON s.worker = r.worker
    GROUP BY r.worker
$$;

-- A long backfill in portions, all of one transaction: `backfill` names the one that a portion goes on with, `total` says to the
-- audit how many runs there will be, where the first portion is not all.
DROP FUNCTION rota.backfill_schedule(text, timestamptz[], timestamptz[], timestamptz[], timestamptz, timestamptz, integer, text, text, text);
CREATE FUNCTION rota.backfill_schedule(
    name text, times timestamptz[], since timestamptz[], starts timestamptz[], from_at timestamptz, until_at timestamptz,
    priority integer DEFAULT NULL, reason text DEFAULT NULL, tenant text DEFAULT '', actor text DEFAULT NULL,
    backfill bigint DEFAULT NULL, total integer DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    found rota.schedules := rota.find_schedule(backfill_schedule.name, backfill_schedule.tenant);
    who   text := coalesce(backfill_schedule.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    made  bigint := backfill_schedule.backfill;
    runs  bigint[];
BEGIN
    IF made IS NULL THEN
        INSERT INTO rota.backfills (schedule_id, from_at, until_at, created_by, reason)
        VALUES (found.id, backfill_schedule.from_at, backfill_schedule.until_at, who, backfill_schedule.reason) RETURNING id INTO made;
        PERFORM rota.write_audit(who, 'schedule.backfilled', 'schedule', found.name, NULL,
            jsonb_build_object('backfill', made, 'from', backfill_schedule.from_at, 'until', backfill_schedule.until_at,
                               'runs', coalesce(total, cardinality(times), 0)), backfill_schedule.reason, found.tenant);
    END IF;
    WITH wanted AS MATERIALIZED (
        SELECT t.nominal_at, t.since, t.start_at, r.run_id
        FROM unnest(times, backfill_schedule.since, starts) WITH ORDINALITY AS t (nominal_at, since, start_at, n)
        CROSS JOIN LATERAL rota.enqueue_run(
            job => found.job,
            payload => coalesce(found.payload, (SELECT j.default_payload FROM rota.jobs j WHERE j.name = found.job), '{}'),
            queue => found.queue, priority => coalesce(backfill_schedule.priority, found.priority::integer), run_at => t.start_at,
            tenant => found.tenant, max_attempts => found.max_attempts::integer,
            timeout_seconds => found.timeout_seconds::double precision, tags => found.run_tags, metadata => found.run_metadata,
            triggered_by => jsonb_build_object('type', 'backfill', 'actor', who, 'schedule', found.name, 'backfill', made, 'since', t.since)) r
        ORDER BY t.n
    ), noted AS (
        INSERT INTO rota.backfill_times (backfill_id, schedule_id, nominal_at, run_id)
        SELECT made, found.id, w.nominal_at, w.run_id FROM wanted w
    )
    SELECT array_agg(w.run_id ORDER BY w.nominal_at) INTO runs FROM wanted w;
    UPDATE rota.open_runs o SET schedule = found.name, scheduled_for = b.nominal_at
    FROM rota.backfill_times b WHERE b.backfill_id = made AND b.run_id = ANY (runs) AND o.id = b.run_id;
    RETURN jsonb_build_object('backfill_id', made, 'run_ids', to_jsonb(coalesce(runs, '{}')));
END $$;
