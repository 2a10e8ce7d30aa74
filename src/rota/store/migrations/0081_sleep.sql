-- Sleep, for databases that are paid by activity: a worker that has nothing to do signs off, lets go of its connections, and comes
-- back under a new number. Its row says until when it sleeps at most.
ALTER TABLE rota.workers ADD COLUMN asleep_until timestamptz;
COMMENT ON COLUMN rota.workers.asleep_until IS 'it signed off to sleep, and comes back at this time at the latest; NULL: it does not sleep';
SELECT rota.guard_values('rota.workers', false);

-- One that was killed in its sleep does not come back: it counts as asleep for no longer than a minute after its time.
CREATE FUNCTION rota.is_asleep(w rota.workers) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT w.state = 'gone' AND w.asleep_until > clock_timestamp() - interval '1 minute'
$$;

-- For how long nothing will come that the database knows of; 0: there is something to do, or somebody does something and may be lost
-- with it. Of each queue only its front is read: what a worker could take it has taken.
CREATE FUNCTION rota.quiet_seconds(for_worker bigint, most_seconds double precision, is_ticking boolean) RETURNS double precision
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    clock timestamptz := rota.now();
    known text[] := (SELECT w.jobs FROM rota.workers w WHERE w.id = for_worker);
    lane  text;
BEGIN
    IF EXISTS (SELECT FROM rota.running_runs()) OR EXISTS (SELECT FROM rota.open_runs o WHERE o.held_by = 'suspect')
       OR EXISTS (SELECT FROM rota.bulk_actions b WHERE b.state = 'running') THEN
        RETURN 0;
    END IF;
    LOOP
        SELECT o.queue INTO lane FROM rota.open_runs o WHERE o.is_ready AND (lane IS NULL OR o.queue > lane) ORDER BY o.queue LIMIT 1;
        EXIT WHEN NOT FOUND;
        IF NOT EXISTS (SELECT FROM rota.queues q WHERE q.name = lane AND rota.queue_is_paused(q)) AND EXISTS (
               SELECT FROM (SELECT o.job FROM rota.open_runs o WHERE o.is_ready AND o.queue = lane ORDER BY o.priority, o.seq LIMIT 1000) f
               JOIN rota.jobs j ON j.name = f.job AND j.is_enabled WHERE f.job = ANY (known)) THEN
            RETURN 0;
        END IF;
    END LOOP;
    RETURN greatest(0, least(most_seconds,
        (SELECT extract(epoch FROM o.run_at - clock) FROM rota.open_runs o WHERE o.is_future AND o.run_at < 'infinity' ORDER BY o.run_at LIMIT 1),
        (SELECT extract(epoch FROM min(q.paused_until) - clock) FROM rota.queues q WHERE q.is_paused AND q.paused_until < 'infinity'),
        CASE WHEN is_ticking THEN rota.next_schedule_seconds() END));
END $$;

-- Signs off, and answers for how long it may sleep.
CREATE FUNCTION rota.fall_asleep(for_worker bigint, most_seconds double precision, is_ticking boolean) RETURNS double precision
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    seconds double precision := rota.quiet_seconds(for_worker, most_seconds, is_ticking);
BEGIN
    UPDATE rota.workers w SET state = 'gone', is_waiting = false, ended_at = clock_timestamp(),
        asleep_until = clock_timestamp() + make_interval(secs => seconds)
    WHERE w.id = for_worker AND w.state IN ('live', 'stopping');
    RETURN CASE WHEN FOUND THEN seconds ELSE 0 END;
END $$;

-- As before (0027). What a worker has that sleeps is not gone from the code.
CREATE OR REPLACE FUNCTION rota.kept_jobs(of_application text) RETURNS SETOF text LANGUAGE sql STABLE SET jit = off AS $$
    SELECT unnest(w.jobs) FROM rota.workers w
    WHERE w.application = of_application AND (
        coalesce(w.ended_at, w.lease_expires_at) > clock_timestamp() - interval '1 minute' OR rota.is_asleep(w)
        OR w.id = (SELECT max(s.id) FROM rota.workers s WHERE s.application = of_application AND s.is_start))
$$;

-- As before (0043). A run whose job only workers know that sleep waits for them, and is not one that nobody knows.
CREATE OR REPLACE FUNCTION rota.park_unknown_runs(max_runs integer) RETURNS integer LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET lock_timeout = '5s' SET jit = off AS $$
DECLARE
    known   text[] := ARRAY(SELECT DISTINCT unnest(w.jobs) FROM rota.workers w WHERE w.state = 'live' OR rota.is_asleep(w));
    unknown text[] := ARRAY(SELECT DISTINCT d.job FROM rota.depths d WHERE d.queued > d.held AND d.job <> ALL (known));
    parked   integer;
    suspects integer;
BEGIN
    UPDATE rota.open_runs o SET held_by = 'no_worker', held_at = rota.now()
    WHERE o.ctid = ANY (ARRAY(SELECT q.ctid FROM rota.open_runs q WHERE q.held_by = 'suspect' AND q.job <> ALL (known)
                              LIMIT max_runs FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS suspects = ROW_COUNT;
    -- The lock of those who count, as this corrects their counts: else every worker would look again.
    IF unknown = '{}' OR NOT rota.try_lock('depths') THEN
        RETURN suspects;
    END IF;
    UPDATE rota.open_runs o SET held_by = 'no_worker', held_at = rota.now()
    WHERE o.ctid = ANY (ARRAY(SELECT q.ctid FROM rota.open_runs q
                              WHERE q.is_ready AND q.worker IS NULL AND q.job = ANY (unknown)
                              LIMIT max_runs FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS parked = ROW_COUNT;
    IF parked < max_runs THEN
        -- No more are left until the next count says so.
        UPDATE rota.depths d SET held = d.queued WHERE d.job = ANY (unknown) AND d.queued > d.held;
    END IF;
    RETURN parked + suspects;
END $$;

-- As before (0022), and says of one that sleeps that it does.
CREATE OR REPLACE FUNCTION rota.lock_live_worker(of_worker bigint) RETURNS rota.workers LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found rota.workers;
BEGIN
    SELECT * INTO found FROM rota.workers w WHERE w.id = of_worker FOR NO KEY UPDATE;
    IF found.id IS NULL THEN
        RAISE EXCEPTION 'there is no worker %', of_worker USING ERRCODE = 'RO010';
    ELSIF found.state <> 'live' THEN
        RAISE EXCEPTION 'worker % is %', of_worker, CASE WHEN rota.is_asleep(found) THEN 'asleep, and comes back under another number' ELSE found.state END
            USING ERRCODE = 'RO005';
    END IF;
    RETURN found;
END $$;

INSERT INTO rota.reasons (place, code, sentence, next_step, command) VALUES
(30, 'workers_asleep', 'Whoever could take it is asleep, with no connection to the database: {workers}.',
 'It is found when one of them wakes; SIGUSR1 to process {pid} on {host} wakes one at once.', 'rota workers list --state asleep');

-- The workers that could take a run of the job from the queue if they did not sleep.
CREATE FUNCTION rota.why_asleep(of_queue text, of_job text) RETURNS SETOF rota.finding LANGUAGE sql STABLE SET jit = off AS $$
    SELECT 'workers_asleep', min(a.ended_at), min(a.asleep_until), NULL, jsonb_build_object(
               'pid', (array_agg(a.pid ORDER BY a.n))[1], 'host', (array_agg(rota.short_words(a.host) ORDER BY a.n))[1],
               'workers', string_agg(CASE WHEN a.n <= 3 THEN format('%s (%s)', a.id, rota.short_words(a.name)) WHEN a.n = 4 THEN 'others' END, ', ' ORDER BY a.n))
    FROM (SELECT w.*, row_number() OVER (ORDER BY w.asleep_until, w.id) AS n FROM rota.workers w
          WHERE rota.is_asleep(w) AND (of_queue IS NULL OR w.queues = '{}' OR of_queue = ANY (w.queues)) AND (of_job IS NULL OR of_job = ANY (w.jobs))) a
    HAVING count(*) > 0
$$;

-- As before (0058). Where nobody is awake that could, it is those who sleep; they wake for what is to come later.
CREATE OR REPLACE FUNCTION rota.why_workers(of_queue text, of_job text, is_later boolean DEFAULT false) RETURNS SETOF rota.finding
LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    fleet record;
BEGIN
    SELECT count(*) AS live, count(*) FILTER (WHERE f.serves) AS serving, count(*) FILTER (WHERE f.knows) AS knowing,
           count(*) FILTER (WHERE f.serves AND f.knows) AS able,
           count(*) FILTER (WHERE f.serves AND f.knows AND (f.trouble IS NOT NULL OR f.drained_at IS NOT NULL)) AS unfit
    INTO fleet FROM rota.why_fleet(of_queue, of_job) f;
    IF fleet.able = 0 AND EXISTS (SELECT FROM rota.why_asleep(of_queue, of_job)) THEN
        RETURN QUERY SELECT * FROM rota.why_asleep(of_queue, of_job) WHERE NOT is_later;
        RETURN;
    END IF;
    IF fleet.live = 0 THEN
        RETURN QUERY
        SELECT 'no_worker', l.at, NULL::timestamptz, NULL, jsonb_build_object('last', CASE WHEN l.id IS NULL THEN '' ELSE format(': the last one, %s (%s), %s', l.id, rota.short_words(l.name),
                   CASE l.state WHEN 'gone' THEN 'was stopped' WHEN 'stopping' THEN 'is stopping' ELSE 'was lost' END) END)
        FROM (SELECT 1) one LEFT JOIN LATERAL (
            SELECT w.*, coalesce(w.ended_at, w.lease_expires_at) AS at FROM rota.workers w
            ORDER BY coalesce(w.ended_at, w.lease_expires_at) DESC LIMIT 1) l ON true;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT 'queue_unserved', NULL::timestamptz, NULL::timestamptz, NULL, jsonb_build_object('queue', of_queue,
               'workers', CASE fleet.live WHEN 1 THEN 'one there is' ELSE rota.plural_words(fleet.live, 'live worker') END, 's', CASE fleet.live WHEN 1 THEN 's' ELSE '' END,
               'queues', (SELECT string_agg(DISTINCT q, ', ') FROM rota.why_fleet(of_queue, of_job) f, unnest(f.queues) q WHERE q <> 'rota' || '.system'))
    WHERE fleet.serving = 0
    UNION ALL
    SELECT 'job_unknown', NULL, NULL, NULL, jsonb_build_object('job', of_job, 'workers', CASE fleet.live WHEN 1 THEN 'there is one' ELSE 'there are ' || rota.number_words(fleet.live) END)
    WHERE fleet.knowing = 0
    UNION ALL
    SELECT 'worker_mismatch', NULL, NULL, NULL, jsonb_build_object('job', of_job, 'queue', of_queue)
    WHERE fleet.able = 0 AND fleet.serving > 0 AND fleet.knowing > 0;
    IF is_later OR fleet.able = 0 THEN
        RETURN;
    END IF;
    IF fleet.unfit > 0 THEN
        RETURN QUERY SELECT * FROM rota.why_unfit(of_queue, of_job);
    END IF;
    IF fleet.unfit < fleet.able THEN
        RETURN QUERY SELECT * FROM rota.why_busy(of_queue, of_job);
    END IF;
END $$;

-- As before (0059). A schedule that is written while all sleep waits until one wakes.
CREATE OR REPLACE FUNCTION rota.why_schedule(s rota.schedules) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE SET enable_seqscan = off SET jit = off AS $$
DECLARE
    clock     timestamptz := rota.now();
    is_paused boolean := coalesce(s.paused_until > clock, s.paused_at IS NOT NULL);
    is_on     boolean := s.is_enabled AND s.finished_at IS NULL AND s.parked_at IS NULL AND NOT is_paused;
    lane      text := coalesce(s.queue, (SELECT j.queue FROM rota.jobs j WHERE j.name = s.job));
    facts     jsonb := jsonb_build_object('schedule', s.name, 'job', s.job);
    told      record;
    live      bigint;
    run       record;
BEGIN
    IF NOT s.is_enabled THEN
        SELECT * INTO told FROM rota.last_audit('schedule', s.name, s.tenant, '{schedule.disabled,schedule.updated}');
        RETURN NEXT ROW('schedule_disabled', coalesce(told.at, s.updated_at), NULL, coalesce(told.actor, s.updated_by),
            facts || jsonb_build_object('by', rota.by_words(coalesce(told.actor, s.updated_by))))::rota.finding;
    END IF;
    IF s.finished_at IS NOT NULL THEN
        RETURN NEXT ROW('schedule_finished', s.finished_at, NULL, NULL, facts || jsonb_build_object('why', CASE
            WHEN s.init IS NOT NULL THEN 'it has run once' WHEN s.run_at IS NOT NULL THEN 'its single time has passed'
            WHEN s.run_count >= s.max_runs THEN format('it has run %s, as often as it may', rota.plural_words(s.run_count, 'time'))
            WHEN s.end_at <= clock THEN 'its end has passed' ELSE 'no time of it is left' END))::rota.finding;
    END IF;
    IF s.parked_at IS NOT NULL THEN
        RETURN NEXT ROW('schedule_parked', s.parked_at, s.retry_at, NULL, facts || jsonb_build_object('error', rota.short_words(coalesce(s.error, 'no reason was given')) || '.'))::rota.finding;
    END IF;
    IF is_paused THEN
        RETURN NEXT ROW('schedule_paused', s.paused_at, s.paused_until, s.paused_by, facts || jsonb_build_object(
            'by', rota.by_words(s.paused_by), 'because', rota.because_words(s.pause_reason),
            'then', CASE WHEN s.paused_until IS NULL THEN 'Its times are skipped and recorded until somebody resumes it.'
                         ELSE 'Its times are skipped and recorded; it goes on by itself then.' END))::rota.finding;
    END IF;
    -- Apart from their order, else they are looked for among all by their ids.
    SELECT o.id, o.state, o.created_at INTO run FROM (SELECT * FROM rota.open_runs w WHERE w.schedule_id = s.id LIMIT 1000) o ORDER BY o.id DESC LIMIT 1;
    IF run.id IS NOT NULL THEN
        RETURN NEXT ROW('run_open', run.created_at, NULL, NULL, facts || jsonb_build_object('run', run.id, 'state', run.state))::rota.finding;
    END IF;
    IF is_on OR run.id IS NOT NULL THEN
        RETURN QUERY SELECT * FROM rota.why_job_off(s.job);
        RETURN QUERY SELECT * FROM rota.why_queue_paused(lane);
        RETURN QUERY SELECT * FROM rota.why_workers(lane, s.job, run.state IS DISTINCT FROM 'queued');
    END IF;
    RETURN QUERY SELECT * FROM rota.why_decision(s);
    IF s.failures_in_a_row > 0 THEN
        SELECT r.error, r.run_id INTO told FROM (SELECT * FROM rota.ledger l WHERE l.schedule_id = s.id ORDER BY l.nominal_at DESC LIMIT 20) r
        WHERE r.success IS FALSE ORDER BY r.nominal_at DESC LIMIT 1;
        RETURN NEXT ROW('schedule_failing', s.last_run_at, NULL, NULL, facts || jsonb_build_object('run', told.run_id,
            'failures', CASE s.failures_in_a_row WHEN 1 THEN 'run' ELSE rota.plural_words(s.failures_in_a_row, 'run') END,
            'error', rota.because_words(told.error) || '.', 'then', CASE WHEN s.pause_after_failures IS NULL THEN 'It goes on with its next time.'
                ELSE format('It is paused after %s in a row.', s.pause_after_failures) END))::rota.finding;
    END IF;
    IF NOT is_on THEN
        RETURN;
    ELSIF s.is_shadow THEN
        RETURN NEXT ROW('shadow', NULL, NULL, NULL, facts)::rota.finding;
    END IF;
    IF s.init IS NOT NULL THEN
        RETURN NEXT ROW('waits_for_start', s.last_enqueued_at, NULL, NULL, facts || jsonb_build_object('which', CASE s.init
            WHEN 'once' THEN ', until it has succeeded once' WHEN 'release' THEN ', once for each release' ELSE ', once for each start of the fleet' END))::rota.finding;
    ELSIF s.next_run_at IS NULL THEN
        RETURN NEXT ROW('schedule_pending', s.updated_at, NULL, NULL, facts)::rota.finding;
    ELSIF s.next_run_at <= clock - interval '30 seconds' THEN
        SELECT count(*) INTO live FROM rota.why_fleet(NULL, NULL);
        RETURN NEXT ROW('no_tick', s.next_run_at, NULL, NULL, facts || jsonb_build_object('workers',
            CASE live WHEN 0 THEN CASE WHEN EXISTS (SELECT FROM rota.why_asleep(NULL, NULL)) THEN 'all are asleep' ELSE 'none is running' END WHEN 1 THEN 'one is live, and does not schedule' ELSE rota.number_words(live) || ' are live, and none of them schedules' END))::rota.finding;
    ELSE
        RETURN NEXT ROW(CASE WHEN s.moved_to IS NULL THEN 'waits_for_next' ELSE 'rescheduled' END, NULL, s.next_run_at, NULL, facts)::rota.finding;
    END IF;
END $$;
