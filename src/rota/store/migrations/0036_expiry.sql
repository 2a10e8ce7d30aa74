-- A waiting run is over at its expires_at, for every reader at once, whoever writes it down later: the view and the counts see it so,
-- and whoever changes something about it writes it down first. And what a job that an operator disabled does with events.

-- By the time for whoever writes it down, by the id for lists. A run that does not expire is in neither.
CREATE INDEX open_runs_expiring ON rota.open_runs (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX open_runs_expiring_id ON rota.open_runs (id) WHERE expires_at IS NOT NULL;

CREATE FUNCTION rota.is_over(state text, expires_at timestamptz) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT expires_at IS NOT NULL AND state <> 'running' AND expires_at <= rota.now()
$$;

-- As before (0019), but what has expired ends as that, and when it did, whoever ends it for whatever reason. In an earlier week there
-- may be no partition, and making one locks the history until the caller commits: then it ends now.
CREATE OR REPLACE FUNCTION rota.end_waiting_runs(ids bigint[], new_state text, reason text, failure_type text DEFAULT NULL, failure text DEFAULT NULL)
RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock timestamptz := rota.now();
    week  timestamptz := date_trunc('week', clock AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
BEGIN
    PERFORM rota.ensure_partitions(clock, clock)
    WHERE to_regclass('rota.ended_runs_standard_' || to_char(date_trunc('week', clock AT TIME ZONE 'UTC'), 'YYYYMMDD')) IS NULL;
    RETURN QUERY
    WITH gone AS (
        DELETE FROM rota.open_runs o WHERE o.id = ANY (ids) AND o.state <> 'running'
        RETURNING o.*, coalesce(o.expires_at <= clock, false) AS is_expired
    ), ended AS (
        SELECT g.*, CASE WHEN is_expired AND least(greatest(expires_at, created_at), clock) >= week
                         THEN least(greatest(expires_at, created_at), clock) ELSE clock END AS ended_at,
               CASE WHEN is_expired THEN 'cancelled' ELSE new_state END AS ended_as
        FROM gone g
    ), moved AS (
        INSERT INTO rota.ended_runs (id, created_at, run_at, finished_at, attempt, attempts_used,
            max_attempts, priority, is_redelivery, state, queue, job, tenant, payload, expires_at,
            timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id, message,
            error_type, error, end_reason, keep_class)
        SELECT id, created_at, run_at, ended_at, attempt, attempts_used,
            max_attempts, priority, is_suspect, ended_as, queue, job, tenant, payload, expires_at,
            timeout_seconds, key, key_seconds, backoff, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id, message,
            CASE WHEN NOT is_expired THEN failure_type END, coalesce(CASE WHEN NOT is_expired THEN failure END, last_error),
            CASE WHEN is_expired THEN 'expired' ELSE reason END, rota.keep_class_of(job, ended_as)
        FROM ended ORDER BY schedule_id
    ), freed AS (
        DELETE FROM rota.keys k
        USING (SELECT tenant, job, key, id FROM ended WHERE key IS NOT NULL AND key_seconds IS NULL ORDER BY tenant, job, key COLLATE "C") e
        WHERE k.tenant = e.tenant AND k.job = e.job AND k.key = e.key AND k.run_id = e.id
    ), kept AS (
        UPDATE rota.keys k SET expires_at = rota.after(e.ended_at, e.key_seconds)
        FROM (SELECT tenant, job, key, id, key_seconds, ended_at FROM ended WHERE key_seconds IS NOT NULL ORDER BY tenant, job, key COLLATE "C") e
        WHERE k.tenant = e.tenant AND k.job = e.job AND k.key = e.key AND k.run_id = e.id
    )
    SELECT id FROM ended;
END $$;

-- Writes down what has expired, the first first.
CREATE FUNCTION rota.expire_runs(max_runs integer) RETURNS integer LANGUAGE sql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    SELECT count(*)::integer FROM rota.end_waiting_runs(ARRAY(
        SELECT o.id FROM rota.open_runs o WHERE o.expires_at <= rota.now() AND o.state <> 'running'
        ORDER BY o.expires_at LIMIT max_runs FOR UPDATE SKIP LOCKED), 'cancelled', 'expired')
$$;

-- Before somebody acts on a run: it may be over. Answers whether it was.
CREATE FUNCTION rota.settle_expired(run_id bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    held record;
BEGIN
    SELECT o.state, o.expires_at INTO held FROM rota.open_runs o WHERE o.id = settle_expired.run_id;
    RETURN FOUND AND rota.is_over(held.state, held.expires_at)
        AND EXISTS (SELECT FROM rota.end_waiting_runs(ARRAY[settle_expired.run_id], 'cancelled', 'expired'));
END $$;

-- As before (0021), but a run that is over holds its key no longer than one that ended.
CREATE OR REPLACE FUNCTION rota.take_key(for_tenant text, for_job text, wanted text, taker bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    holder record;
BEGIN
    IF wanted = '' OR length(wanted) > 400 THEN
        RAISE EXCEPTION 'the key of job "%" needs 1 to 400 characters', for_job USING ERRCODE = 'RO002';
    END IF;
    LOOP
        INSERT INTO rota.keys (tenant, job, key, run_id) VALUES (for_tenant, for_job, wanted, taker)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN taker;
        END IF;
        SELECT k.run_id, k.expires_at INTO holder FROM rota.keys k
        WHERE k.tenant = for_tenant AND k.job = for_job AND k.key = wanted;
        IF holder.expires_at <= rota.now() THEN
            DELETE FROM rota.keys k
            WHERE k.tenant = for_tenant AND k.job = for_job AND k.key = wanted AND k.run_id = holder.run_id;
        ELSIF holder.run_id IS NOT NULL AND NOT rota.settle_expired(holder.run_id) THEN
            PERFORM nextval('rota.duplicates');
            RETURN holder.run_id;
        END IF;
    END LOOP;
END $$;

-- For lists, which say by is_ended that they want nothing of what waits: a CASE about the state excludes no table, and a condition in a
-- branch of a union keeps it from being read in an order.
CREATE VIEW rota.run_rows AS
SELECT id, job, queue, CASE WHEN expires_at IS NULL OR state = 'running' OR expires_at > (SELECT rota.now()) THEN state ELSE 'cancelled' END AS state,
       priority, payload, run_at, attempt, max_attempts, key, tenant,
       coalesce(tags, '{}') AS tags, coalesce(metadata, '{}') AS metadata, schedule, scheduled_for,
       coalesce(triggered_by, '{"type": "code"}') AS triggered_by, worker, last_error, message,
       NULL::jsonb AS result, created_at, started_at,
       CASE WHEN expires_at IS NULL OR state = 'running' OR expires_at > (SELECT rota.now()) THEN NULL ELSE greatest(expires_at, created_at) END AS finished_at,
       NULL::real AS duration_ms, expires_at, CASE WHEN expires_at IS NULL OR state = 'running' OR expires_at > (SELECT rota.now()) THEN NULL ELSE 'expired' END AS end_reason,
       attempts_used, progress, CASE WHEN expires_at IS NULL OR state = 'running' OR expires_at > (SELECT rota.now()) THEN held_by END AS held_by, CASE WHEN expires_at IS NULL OR state = 'running' OR expires_at > (SELECT rota.now()) THEN enqueued_at END AS enqueued_at,
       false AS is_ended
FROM rota.open_runs
UNION ALL
SELECT id, job, queue, state, priority, payload, run_at, attempt, max_attempts, key, tenant,
       coalesce(tags, '{}'), coalesce(metadata, '{}'), schedule, scheduled_for,
       coalesce(triggered_by, '{"type": "code"}'), worker, error, message,
       result, created_at, started_at, finished_at, duration_ms, expires_at, end_reason, attempts_used, progress, NULL, NULL, true
FROM rota.ended_runs;
CREATE OR REPLACE VIEW rota.runs AS
SELECT id, job, queue, state, priority, payload, run_at, attempt, max_attempts, key, tenant, tags, metadata, schedule, scheduled_for,
       triggered_by, worker, last_error, message, result, created_at, started_at, finished_at, duration_ms, expires_at, end_reason,
       attempts_used, progress, held_by, enqueued_at
FROM rota.run_rows;

-- Counts. What is over is apart, in a column of its own: it does not wait, and is not counted among what has ended yet.
ALTER TABLE rota.depths ADD COLUMN expired bigint NOT NULL DEFAULT 0;

CREATE FUNCTION rota.count_open_runs() RETURNS TABLE (
    queue text, job text, blocked bigint, scheduled bigint, queued bigint, held bigint, running bigint, expired bigint, oldest_at timestamptz
) LANGUAGE sql STABLE AS $$
    SELECT o.queue, o.job, count(*) FILTER (WHERE o.state = 'blocked'), count(*) FILTER (WHERE o.state = 'scheduled'),
           count(*) FILTER (WHERE o.state = 'queued'), count(*) FILTER (WHERE o.state = 'queued' AND o.held_by IS NOT NULL),
           count(*) FILTER (WHERE o.state = 'running'), count(*) FILTER (WHERE o.state = 'expired'),
           min(o.enqueued_at) FILTER (WHERE o.state = 'queued' AND o.held_by IS NULL)
    FROM (SELECT w.queue, w.job, w.held_by, w.enqueued_at,
                 CASE WHEN w.expires_at IS NULL OR w.state = 'running' OR w.expires_at > (SELECT rota.now()) THEN w.state ELSE 'expired' END AS state
          FROM rota.open_runs w) o
    GROUP BY o.queue, o.job
$$;

CREATE OR REPLACE FUNCTION rota.count_depths(max_age_seconds double precision) RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    began timestamptz := clock_timestamp();
BEGIN
    IF NOT EXISTS (SELECT FROM rota.depth_marks m
                   WHERE m.counted_at <= began - make_interval(secs => greatest(max_age_seconds, least(m.took_ms / 20, 300)))
                      OR m.counted_at > began + interval '1 minute')
       OR NOT rota.try_lock('depths') THEN
        RETURN false;
    END IF;
    WITH counted AS MATERIALIZED (
        SELECT * FROM rota.count_open_runs()
    ), gone AS (
        DELETE FROM rota.depths d WHERE NOT EXISTS (SELECT FROM counted c WHERE c.queue = d.queue AND c.job = d.job)
    )
    INSERT INTO rota.depths AS d (queue, job, blocked, scheduled, queued, held, running, expired, oldest_at)
    SELECT c.queue, c.job, c.blocked, c.scheduled, c.queued, c.held, c.running, c.expired, c.oldest_at FROM counted c
    ON CONFLICT (queue, job) DO UPDATE SET
        blocked = excluded.blocked, scheduled = excluded.scheduled, queued = excluded.queued, held = excluded.held,
        running = excluded.running, expired = excluded.expired, oldest_at = excluded.oldest_at
    WHERE (d.blocked, d.scheduled, d.queued, d.held, d.running, d.expired, d.oldest_at) IS DISTINCT FROM
          (excluded.blocked, excluded.scheduled, excluded.queued, excluded.held, excluded.running, excluded.expired, excluded.oldest_at);
    UPDATE rota.depth_marks SET counted_at = began, took_ms = extract(epoch FROM clock_timestamp() - began) * 1000;
    RETURN true;
END $$;

DROP FUNCTION rota.read_depths();
CREATE FUNCTION rota.read_depths() RETURNS TABLE (
    queue text, job text, blocked bigint, scheduled bigint, queued bigint, held bigint, running bigint, expired bigint,
    oldest_at timestamptz, counted_at timestamptz
) LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
BEGIN
    IF rota.has_many_open_runs() THEN
        PERFORM rota.count_depths(2);
        RETURN QUERY
        SELECT d.queue, d.job, d.blocked, d.scheduled, d.queued, d.held, d.running, d.expired, d.oldest_at, m.counted_at
        FROM rota.depths d CROSS JOIN rota.depth_marks m;
    ELSE
        RETURN QUERY SELECT c.*, clock_timestamp() FROM rota.count_open_runs() c;
    END IF;
END $$;

-- As before (0017), but a run that is over does not keep its job.
CREATE OR REPLACE FUNCTION rota.keep_job() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found bigint;
BEGIN
    IF OLD.is_system THEN
        RAISE EXCEPTION 'job "%" belongs to Rota and cannot be deleted', OLD.name USING ERRCODE = 'RO005', HINT = 'Disable it instead.';
    END IF;
    SELECT count(*) INTO found FROM rota.schedules s WHERE s.job = OLD.name;
    IF found > 0 THEN
        RAISE EXCEPTION 'job "%" has schedules: %', OLD.name, found
            USING ERRCODE = 'RO005', HINT = 'Delete its schedules first, or with it: delete_job(…, cascade => true).';
    END IF;
    SELECT count(*) INTO found FROM rota.open_runs o
    WHERE o.job = OLD.name AND NOT rota.is_over(o.state, o.expires_at)
      AND current_setting('rota' || '.deleting_job', true) IS DISTINCT FROM OLD.name;
    IF found > 0 THEN
        RAISE EXCEPTION 'job "%" has runs that have not ended: %', OLD.name, found
            USING ERRCODE = 'RO005', HINT = 'Let them end, or cancel them with it: delete_job(…, cancel_open => true).';
    END IF;
    RETURN OLD;
END $$;

-- Whoever acts on a run writes down first that it is over. As they are defined now, with one line more.
DO $$
DECLARE
    acting record;
BEGIN
    FOR acting IN SELECT * FROM (VALUES
        ('rota.cancel_run(bigint,text,text)', 'PERFORM rota.settle_expired(cancel_run.run_id);'),
        ('rota.retry_run(bigint,jsonb,interval,text,text)', 'PERFORM rota.settle_expired(retry_run.run_id);'),
        ('rota.delete_run(bigint,text,text)', 'PERFORM rota.settle_expired(delete_run.run_id); place := rota.find_ended(delete_run.run_id);')
    ) AS f (name, line) LOOP
        EXECUTE regexp_replace(pg_get_functiondef(acting.name::regprocedure), '\nBEGIN\n', E'\nBEGIN\n    ' || acting.line || E'\n');
    END LOOP;
END $$;

-- One run of each job that is bound to the event, in the caller's transaction; of one that an operator disabled it waits, as an enqueue
-- does. What the code no longer has is bound to nothing. A key makes it happen once for each of them, for as long as enqueue's.
DROP FUNCTION rota.emit(text, jsonb, text, text, jsonb);
CREATE FUNCTION rota.emit(
    event text, payload jsonb DEFAULT '{}', tenant text DEFAULT '', key text DEFAULT NULL, metadata jsonb DEFAULT NULL,
    key_seconds double precision DEFAULT NULL
) RETURNS TABLE (job text, run_id bigint, is_duplicate boolean) LANGUAGE plpgsql VOLATILE SET jit = off AS $$
#variable_conflict use_column
BEGIN
    PERFORM rota.check_event(emit.event);
    IF emit.payload IS NULL OR jsonb_typeof(emit.payload) <> 'object' THEN
        RAISE EXCEPTION 'the payload of event "%" must be a JSON object, not %', emit.event, coalesce(jsonb_typeof(emit.payload), 'NULL')
            USING ERRCODE = 'RO002', HINT = 'Write for example {"order_id": 7}.';
    ELSIF emit.key_seconds IS NOT NULL AND emit.key IS NULL THEN
        RAISE EXCEPTION 'key_seconds of event "%" says what becomes of a key, but there is no key', emit.event USING ERRCODE = 'RO002';
    END IF;
    RETURN QUERY
    SELECT b.name, r.run_id, r.is_duplicate
    FROM (SELECT j.name FROM rota.jobs j
          WHERE j.events @> ARRAY[emit.event] AND j.deleted_from_code_at IS NULL
          ORDER BY j.name OFFSET 0) b
    CROSS JOIN LATERAL rota.enqueue_run(job => b.name, payload => emit.payload, key => emit.key, key_seconds => emit.key_seconds,
        tenant => emit.tenant, metadata => emit.metadata, triggered_by => jsonb_strip_nulls(jsonb_build_object('type', 'event', 'event', emit.event,
            'actor', nullif(current_setting('rota' || '.actor', true), '')))) r;
END $$;
