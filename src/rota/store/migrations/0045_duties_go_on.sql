-- The same for what else runs in the background: what somebody holds is passed over, and done the next time.

-- As before (0039). What is due and held by somebody is looked at again in a moment, not at once.
CREATE OR REPLACE FUNCTION rota.promote_runs(max_runs integer, OUT promoted integer, OUT next_due_seconds double precision)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    clock   timestamptz := rota.now();
    touched text[];
BEGIN
    -- Places are given in the order of the due times, not in that of the rows on their pages.
    WITH due AS MATERIALIZED (
        SELECT o.ctid AS tid FROM rota.open_runs o WHERE o.is_future AND o.run_at <= clock
        ORDER BY o.run_at LIMIT max_runs FOR UPDATE SKIP LOCKED
    ), placed AS MATERIALIZED (
        SELECT tid, nextval('rota.run_ids') AS seq FROM due
    ), moved AS (
        UPDATE rota.open_runs o
        SET state = 'queued', seq = p.seq, enqueued_at = clock_timestamp()
        FROM placed p WHERE o.ctid = p.tid
        RETURNING o.queue
    )
    SELECT count(*), array_agg(DISTINCT queue) INTO promoted, touched FROM moved;
    IF promoted > 0 THEN
        PERFORM rota.wake(touched);
    END IF;
    SELECT extract(epoch FROM o.run_at - clock) INTO next_due_seconds
    FROM rota.open_runs o WHERE o.is_future AND o.run_at > clock AND o.run_at < 'infinity' ORDER BY o.run_at LIMIT 1;
    IF promoted < max_runs AND EXISTS (SELECT FROM rota.open_runs o WHERE o.is_future AND o.run_at <= clock) THEN
        next_due_seconds := least(next_due_seconds, 0.25);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION rota.settle_cancels() RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    late record;
BEGIN
    FOR late IN
        SELECT c.run_id, o.state, o.worker, o.attempt, 'cancelled by ' || c.requested_by || coalesce(': ' || c.reason, '') AS why
        FROM rota.cancel_requests c JOIN rota.open_runs o ON o.id = c.run_id
        WHERE o.state <> 'running' OR o.attempt > c.attempt
        FOR UPDATE OF c, o SKIP LOCKED
    LOOP
        IF late.state = 'running' THEN
            UPDATE rota.cancel_requests SET worker = late.worker, attempt = late.attempt WHERE run_id = late.run_id;
            PERFORM pg_notify('rota', 'cancel ' || late.worker);
        ELSE
            PERFORM rota.end_waiting_runs(ARRAY[late.run_id], 'cancelled', late.why);
        END IF;
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION rota.sweep(max_rows integer) RETURNS integer LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    removed integer;
    n       integer;
BEGIN
    DELETE FROM rota.keys k WHERE k.ctid = ANY (ARRAY(
        SELECT e.ctid FROM rota.keys e WHERE e.expires_at <= rota.now() ORDER BY e.expires_at LIMIT max_rows FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS removed = ROW_COUNT;
    PERFORM rota.settle_cancels();
    DELETE FROM rota.cancel_requests r WHERE r.ctid = ANY (ARRAY(
        SELECT c.ctid FROM rota.cancel_requests c
        WHERE NOT EXISTS (SELECT FROM rota.open_runs o WHERE o.id = c.run_id AND o.attempt = c.attempt AND o.state = 'running')
          -- One whose run waits again is settled first, above.
          AND NOT EXISTS (SELECT FROM rota.open_runs o WHERE o.id = c.run_id AND (o.state <> 'running' OR o.attempt > c.attempt))
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    removed := removed + n;
    DELETE FROM rota.workers w WHERE w.ctid = ANY (ARRAY(
        SELECT o.ctid FROM rota.workers o
        WHERE o.state IN ('gone', 'lost') AND o.ended_at < clock_timestamp() - interval '7 days' FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    removed := removed + n;
    DELETE FROM rota.batch_starts s WHERE s.ctid = ANY (ARRAY(
        SELECT b.ctid FROM rota.batch_starts b
        WHERE NOT EXISTS (SELECT FROM rota.workers w WHERE w.id = b.worker
                          AND (w.ended_at IS NULL OR w.ended_at > clock_timestamp() - 20 * make_interval(secs => w.lease_seconds)))
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN removed + n;
END $$;

-- Whether a job and the schedules that it declares could be locked: then they are.
CREATE FUNCTION rota.lock_definition(job text) RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    locked integer;
BEGIN
    PERFORM FROM rota.jobs j WHERE j.name = lock_definition.job FOR UPDATE SKIP LOCKED;
    IF NOT FOUND AND EXISTS (SELECT FROM rota.jobs j WHERE j.name = lock_definition.job) THEN
        RETURN false;
    END IF;
    PERFORM FROM rota.schedules s WHERE s.job = lock_definition.job AND s.origin = 'definition' FOR UPDATE SKIP LOCKED;
    GET DIAGNOSTICS locked = ROW_COUNT;
    RETURN locked = (SELECT count(*) FROM rota.schedules s WHERE s.job = lock_definition.job AND s.origin = 'definition');
END $$;

-- As before (0027), but a job that somebody holds is left for the next time, and its build is not the newest until then: so its
-- workers register again. What somebody forces, waits.
CREATE OR REPLACE FUNCTION rota.register_jobs(
    of_application text, of_build text, definitions jsonb, for_worker bigint DEFAULT NULL, names text[] DEFAULT NULL, forced text[] DEFAULT '{}'
) RETURNS SETOF text LANGUAGE plpgsql VOLATILE SET lock_timeout = '5s' SET jit = off AS $$
DECLARE
    actor   text := current_setting('rota' || '.actor', true);
    is_told boolean := for_worker IS NULL AND names IS NOT NULL;
    changed text[] := ARRAY(SELECT rota.changed_jobs(of_application, definitions, forced));
    gone    text[] := ARRAY(SELECT rota.gone_jobs(of_application, names, is_told) WHERE names IS NOT NULL);
    held    text[];
BEGIN
    IF definitions = '[]' AND names IS NULL THEN
        RETURN;                                         -- no application: somebody who looks around
    END IF;
    IF changed = '{}' AND gone = '{}' AND EXISTS (
        SELECT FROM rota.builds b WHERE b.application = of_application AND b.build = of_build AND (b.has_worked OR for_worker IS NULL)
        AND b.number = (SELECT max(m.number) FROM rota.builds m WHERE m.application = of_application)) THEN
        RETURN;
    END IF;
    PERFORM rota.take_lock('definitions');
    PERFORM set_config('rota' || '.syncing', 'on', true),
            set_config('rota' || '.actor', coalesce(nullif(actor, ''), 'code:' || of_application), true);
    changed := ARRAY(SELECT rota.changed_jobs(of_application, definitions, forced));
    gone := ARRAY(SELECT rota.gone_jobs(of_application, names, is_told) WHERE names IS NOT NULL);
    held := ARRAY(SELECT c FROM unnest(changed || gone) c WHERE c <> ALL (forced) AND NOT rota.lock_definition(c));
    changed := ARRAY(SELECT c FROM unnest(changed) c WHERE c <> ALL (held));
    gone := ARRAY(SELECT c FROM unnest(gone) c WHERE c <> ALL (held));
    IF is_told OR rota.may_speak(of_application, of_build, for_worker) THEN
        PERFORM rota.speak(of_application, of_build, for_worker) WHERE held = '{}';
        DELETE FROM rota.job_applications a WHERE a.application = of_application AND a.job = ANY (gone);
        UPDATE rota.jobs j SET deleted_from_code_at = rota.now()
        WHERE j.name = ANY (gone) AND NOT EXISTS (SELECT FROM rota.job_applications a WHERE a.job = j.name);
    ELSE
        gone := '{}';
        INSERT INTO rota.job_applications (job, application, hash)
        SELECT w.name, of_application, w.hash FROM rota.read_definitions(definitions) w JOIN rota.jobs j ON j.name = w.name
        WHERE for_worker IS NOT NULL AND w.name = ANY (changed) ORDER BY w.name COLLATE "C"
        ON CONFLICT (job, application) DO NOTHING;
        changed := ARRAY(SELECT c FROM unnest(changed) c LEFT JOIN rota.jobs j ON j.name = c
                         WHERE j.name IS NULL OR (for_worker IS NOT NULL AND j.deleted_from_code_at IS NOT NULL));
    END IF;
    PERFORM rota.write_definitions(of_application, definitions, changed, forced);
    PERFORM set_config('rota' || '.syncing', '', true), set_config('rota' || '.actor', coalesce(actor, ''), true);
    IF held <> '{}' THEN
        RAISE WARNING 'the definitions of % are held by an open transaction, and written when it has ended', array_to_string(held, ', ');
    END IF;
    RETURN QUERY SELECT unnest(changed || gone);
END $$;

-- As before (0017). One that somebody holds is answered without a run: it is still owed.
CREATE OR REPLACE FUNCTION rota.run_inits(for_worker bigint, of_release text) RETURNS TABLE (schedule text, run_id bigint) LANGUAGE plpgsql VOLATILE
SET lock_timeout = '5s' SET jit = off AS $$
#variable_conflict use_column
DECLARE
    clock   timestamptz := rota.now();
    starter rota.workers;
BEGIN
    SELECT * INTO starter FROM rota.workers w WHERE w.id = for_worker;
    IF NOT EXISTS (SELECT FROM rota.schedules s WHERE s.init IS NOT NULL) THEN
        RETURN;
    END IF;
    PERFORM rota.note_skipped_inits(for_worker, of_release);
    RETURN QUERY
    WITH due AS MATERIALIZED (
        SELECT s.*, j.queue AS job_queue, j.priority AS job_priority, j.max_attempts AS job_attempts, j.default_payload, m.marker
        FROM rota.schedules s JOIN rota.jobs j ON j.name = s.job
        CROSS JOIN LATERAL (SELECT CASE s.init WHEN 'once' THEN 'once' WHEN 'release' THEN 'release ' || of_release
            ELSE 'start ' || (SELECT f.number FROM rota.fleets f WHERE f.application = j.application) END AS marker) m
        WHERE s.init IS NOT NULL AND s.is_ticking AND coalesce(s.paused_until <= clock, s.paused_at IS NULL) AND NOT s.is_shadow AND m.marker IS NOT NULL
          AND j.is_enabled AND j.deleted_from_code_at IS NULL
          AND j.application IN ('', starter.application) AND (j.code IS NULL OR j.name = ANY (starter.jobs))
          AND coalesce(s.start_at <= clock, true) AND coalesce(s.end_at >= clock, true) AND coalesce(s.run_count < s.max_runs, true)
    ), free AS MATERIALIZED (
        SELECT s.id FROM rota.schedules s WHERE s.id IN (SELECT d.id FROM due d) FOR NO KEY UPDATE SKIP LOCKED
    ), taken AS (
        INSERT INTO rota.init_runs AS i (schedule_id, marker, run_id)
        SELECT d.id, d.marker, nextval('rota.run_ids') FROM due d JOIN free f ON f.id = d.id ORDER BY d.id
        ON CONFLICT (schedule_id, marker) DO UPDATE SET run_id = excluded.run_id, state = 'queued', enqueued_at = excluded.enqueued_at
        WHERE i.marker = 'once' AND i.state IN ('failed', 'cancelled') AND NOT EXISTS (SELECT FROM rota.open_runs o WHERE o.id = i.run_id)
        RETURNING i.schedule_id, i.marker, i.run_id
    ), counted AS (
        UPDATE rota.schedules s SET run_count = s.run_count + 1, last_enqueued_at = clock, version = s.version + 1
        FROM taken t WHERE s.id = t.schedule_id
    ), noted AS (
        INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, decision, tenant, schedule, details, claimed_at, decided_at, decided_by,
            enqueued_at, run_id, state)
        SELECT d.id, clock, clock, 'ran', d.tenant, d.name, jsonb_build_object('init', t.marker), clock, clock, for_worker, clock, t.run_id, 'queued'
        FROM taken t JOIN due d ON d.id = t.schedule_id ORDER BY d.id
    ), enqueued AS (
        INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, state, queue, job, tenant, payload, priority, max_attempts,
            timeout_seconds, tags, metadata, triggered_by, schedule, scheduled_for, schedule_id)
        SELECT t.run_id, t.run_id, clock, clock_timestamp(), clock, 'queued', coalesce(d.queue, d.job_queue), d.job, d.tenant,
            coalesce(d.payload, d.default_payload, '{}'), coalesce(d.priority, d.job_priority), coalesce(d.max_attempts, d.job_attempts),
            d.timeout_seconds, d.run_tags, d.run_metadata,
            jsonb_build_object('type', 'scheduler', 'schedule', d.name, 'init', t.marker, 'since', d.last_success_for), d.name, clock, d.id
        FROM taken t JOIN due d ON d.id = t.schedule_id ORDER BY d.id
        RETURNING schedule, id, queue
    )
    SELECT e.schedule, e.id FROM enqueued e
    UNION ALL
    SELECT d.name, NULL FROM due d WHERE d.id NOT IN (SELECT f.id FROM free f)
       AND NOT EXISTS (SELECT FROM rota.init_runs i WHERE i.schedule_id = d.id AND i.marker = d.marker AND i.state NOT IN ('failed', 'cancelled'));
    PERFORM rota.wake(ARRAY(SELECT DISTINCT o.queue FROM rota.init_runs i JOIN rota.open_runs o ON o.id = i.run_id WHERE i.enqueued_at = clock));
END $$;

-- Whatever else one of them may have to wait for: not for ever, and with an error that says so.
ALTER FUNCTION rota.count_ended_runs() SET lock_timeout = '5s';
ALTER FUNCTION rota.count_depths(double precision) SET lock_timeout = '5s';
ALTER FUNCTION rota.park_unknown_runs(integer) SET lock_timeout = '5s';
ALTER FUNCTION rota.free_known_runs(integer) SET lock_timeout = '5s';
ALTER FUNCTION rota.fail_unknown_runs(double precision, integer) SET lock_timeout = '5s';
ALTER FUNCTION rota.expire_runs(integer) SET lock_timeout = '5s';
ALTER FUNCTION rota.sweep(integer) SET lock_timeout = '5s';
ALTER FUNCTION rota.fold_rollups(integer) SET lock_timeout = '5s';
ALTER FUNCTION rota.fold_counts() SET lock_timeout = '5s';
ALTER FUNCTION rota.settle_schedule_ends(integer) SET lock_timeout = '5s';
ALTER FUNCTION rota.promote_runs(integer) SET lock_timeout = '5s';
ALTER FUNCTION rota.mark_lost_workers() SET lock_timeout = '5s';
ALTER FUNCTION rota.rescue_runs(integer, boolean) SET lock_timeout = '5s';
