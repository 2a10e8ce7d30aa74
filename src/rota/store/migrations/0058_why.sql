-- Why something does not run, or did what it did. The facts are found here, each noun by a function of its own; rota.reasons has the
-- words. Every look is bounded: by an index, or by a number of rows.

-- Who disabled it, when and why, by the audit; of the last changes only.
CREATE FUNCTION rota.last_audit(of_type text, of_id text, of_tenant text, of_actions text[], OUT at timestamptz, OUT actor text, OUT reason text)
LANGUAGE sql STABLE SET enable_seqscan = off SET jit = off AS $$
    SELECT a.at, a.actor, a.reason
    FROM (SELECT * FROM rota.audit l WHERE l.object_type = of_type AND l.object_id = of_id ORDER BY l.id DESC LIMIT 200) a
    WHERE a.action = ANY (of_actions) AND a.tenant = of_tenant ORDER BY a.id DESC LIMIT 1
$$;

CREATE FUNCTION rota.why_job_off(of_job text) RETURNS SETOF rota.finding LANGUAGE sql STABLE SET jit = off AS $$
    SELECT 'job_deleted', j.deleted_from_code_at, NULL::timestamptz, NULL, jsonb_build_object('job', j.name)
    FROM rota.jobs j WHERE j.name = of_job AND j.deleted_from_code_at IS NOT NULL
    UNION ALL
    SELECT 'job_disabled', coalesce(a.at, j.updated_at), NULL, a.actor,
           jsonb_build_object('job', j.name, 'by', rota.by_words(a.actor), 'because', rota.because_words(a.reason))
    FROM rota.jobs j LEFT JOIN LATERAL rota.last_audit('job', j.name, '', '{job.disabled}') a ON true
    WHERE j.name = of_job AND NOT j.is_enabled
$$;

CREATE FUNCTION rota.why_queue_paused(of_queue text) RETURNS SETOF rota.finding LANGUAGE sql STABLE SET jit = off AS $$
    SELECT 'queue_paused', q.paused_at, q.paused_until, q.paused_by,
           jsonb_build_object('queue', q.name, 'by', rota.by_words(q.paused_by), 'because', rota.because_words(q.pause_reason),
               'then', CASE WHEN q.paused_until IS NULL THEN 'Nothing of the queue starts until somebody resumes it; what runs, runs on.'
                            ELSE 'The queue goes on by itself then; what runs, runs on.' END)
    FROM rota.queues q WHERE q.name = of_queue AND rota.queue_is_paused(q)
$$;

-- The live workers, and which of them could take a run of the job from the queue; NULL: any job, any queue.
CREATE FUNCTION rota.why_fleet(of_queue text, of_job text) RETURNS TABLE (
    id bigint, name text, queues text[], concurrency integer, serves boolean, knows boolean, trouble text,
    drained_at timestamptz, drained_by text, drain_reason text
) LANGUAGE sql STABLE SET jit = off AS $$
    SELECT w.id, w.name, w.queues, w.concurrency, of_queue IS NULL OR w.queues = '{}' OR of_queue = ANY (w.queues), of_job IS NULL OR of_job = ANY (w.jobs),
           CASE WHEN w.is_stuck THEN coalesce(w.trouble, 'its event loop stands still') ELSE w.trouble END,
           w.drain_requested_at, w.drain_requested_by, w.drain_reason
    FROM rota.workers w WHERE w.state = 'live' AND w.lease_expires_at > clock_timestamp()
$$;

-- Why no worker takes a run of the job from the queue. is_later: its time has not come, so only what will still be so then.
CREATE FUNCTION rota.why_workers(of_queue text, of_job text, is_later boolean DEFAULT false) RETURNS SETOF rota.finding
LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    fleet record;
BEGIN
    SELECT count(*) AS live, count(*) FILTER (WHERE f.serves) AS serving, count(*) FILTER (WHERE f.knows) AS knowing,
           count(*) FILTER (WHERE f.serves AND f.knows) AS able,
           count(*) FILTER (WHERE f.serves AND f.knows AND (f.trouble IS NOT NULL OR f.drained_at IS NOT NULL)) AS unfit
    INTO fleet FROM rota.why_fleet(of_queue, of_job) f;
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

-- Those that could, but fail or drain.
CREATE FUNCTION rota.why_unfit(of_queue text, of_job text) RETURNS SETOF rota.finding LANGUAGE sql STABLE SET jit = off AS $$
    WITH able AS MATERIALIZED (
        SELECT f.*, count(*) OVER () AS of_all FROM rota.why_fleet(of_queue, of_job) f WHERE f.serves AND f.knows
    )
    SELECT 'workers_failing', NULL::timestamptz, NULL::timestamptz, NULL, jsonb_build_object(
               'worker', min(a.id), 'some', rota.share_words(count(*), max(a.of_all), 'worker'),
               'troubles', string_agg(format('%s (%s): %s', a.id, rota.short_words(a.name), rota.short_words(a.trouble)), '; ' ORDER BY a.id) FILTER (WHERE a.n <= 3))
    FROM (SELECT *, row_number() OVER (ORDER BY id) AS n FROM able WHERE trouble IS NOT NULL) a HAVING count(*) > 0
    UNION ALL
    SELECT 'workers_draining', min(a.drained_at), NULL, min(a.drained_by), jsonb_build_object(
               'worker', min(a.id), 'some', rota.share_words(count(*), max(a.of_all), 'worker'),
               'by', rota.by_words(min(a.drained_by)), 'because', rota.because_words(min(a.drain_reason)))
    FROM able a WHERE a.drained_at IS NOT NULL AND a.trouble IS NULL HAVING count(*) > 0
$$;

-- Whether all of their slots are taken, since when and by what.
CREATE FUNCTION rota.why_busy(of_queue text, of_job text) RETURNS SETOF rota.finding LANGUAGE sql STABLE SET jit = off AS $$
    WITH fit AS MATERIALIZED (
        SELECT f.* FROM rota.why_fleet(of_queue, of_job) f WHERE f.serves AND f.knows AND f.trouble IS NULL AND f.drained_at IS NULL
    ), held AS MATERIALIZED (
        SELECT r.id, r.job, r.worker, r.started_at FROM rota.running_runs() r WHERE r.worker IN (SELECT id FROM fit)
    ), loads AS (
        SELECT count(*) AS workers, sum(f.concurrency)::bigint AS slots, count(*) FILTER (WHERE coalesce(h.runs, 0) < f.concurrency) AS free
        FROM fit f LEFT JOIN (SELECT worker, count(*) AS runs FROM held GROUP BY worker) h ON h.worker = f.id
    ), by_job AS (
        SELECT string_agg(CASE WHEN n <= 3 THEN job || CASE WHEN runs > 1 THEN ' (' || rota.number_words(runs) || ')' ELSE '' END
                               WHEN n = 4 THEN 'others' END, ', ' ORDER BY n) AS jobs
        FROM (SELECT job, count(*) AS runs, row_number() OVER (ORDER BY count(*) DESC, job) AS n FROM held GROUP BY job) j
    )
    SELECT 'slots_busy', (SELECT max(h.started_at) FROM held h), NULL::timestamptz, NULL, jsonb_build_object(
               'slots', CASE l.slots WHEN 1 THEN '1 slot' ELSE rota.plural_words(l.slots, 'slot') END, 'able', rota.plural_words(l.workers, 'worker'), 'jobs', b.jobs,
               'longest', o.id, 'longest_job', o.job, 'duration', rota.duration_words(rota.seconds_between(o.started_at, rota.now())))
    FROM loads l CROSS JOIN by_job b CROSS JOIN (SELECT * FROM held ORDER BY started_at, id LIMIT 1) o
    WHERE l.free = 0
$$;

-- Attempts that end in a queue, a second, over the last ten minutes; NULL: none did.
CREATE FUNCTION rota.pace_of(of_queue text) RETURNS double precision LANGUAGE sql STABLE SET jit = off AS $$
    SELECT sum(m.attempts)::double precision / greatest(extract(epoch FROM rota.now() - min(m.minute)), 30)
    FROM rota.rollup_minutes m
    WHERE m.minute >= date_trunc('minute', rota.now()) - interval '10 minutes' AND m.queue = of_queue AND m.outcome <> 'snoozed'
$$;

-- The place of a run in its line: exact up to ten thousand, which is as far as anybody looks.
CREATE FUNCTION rota.why_line(o rota.open_runs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    most constant integer := 10000;
    idle text[] := ARRAY(SELECT j.name FROM rota.jobs j WHERE NOT j.is_enabled);
    line record;
    pace double precision;
BEGIN
    SELECT count(*) FILTER (WHERE a.worker IS NULL AND a.job <> ALL (idle)) AS ahead, count(*) > most AS is_long INTO line
    FROM (SELECT b.worker, b.job FROM rota.open_runs b
          WHERE b.is_ready AND b.queue = o.queue AND (b.priority, b.seq) < (o.priority, o.seq)
          ORDER BY b.priority, b.seq LIMIT most + 1) a;
    IF line.ahead = 0 AND NOT line.is_long THEN
        RETURN NEXT ROW('next_in_line', o.enqueued_at, NULL, NULL, jsonb_build_object('queue', o.queue))::rota.finding;
        RETURN;
    END IF;
    pace := CASE WHEN NOT line.is_long THEN rota.pace_of(o.queue) END;
    RETURN NEXT ROW('in_line', o.enqueued_at, rota.now() + make_interval(secs => line.ahead / pace), NULL, jsonb_build_object('queue', o.queue,
        'ahead', CASE WHEN line.is_long THEN 'More than ' || rota.plural_words(line.ahead, 'run') || ' wait' WHEN line.ahead = 1 THEN '1 run waits'
                      ELSE rota.plural_words(line.ahead, 'run') || ' wait' END,
        'place', line.ahead + 1, 'is_exact', NOT line.is_long,
        'then', CASE WHEN pace IS NULL THEN 'Strictly by priority, then by age; when it starts cannot be told, as nothing of the queue has ended lately.'
                     ELSE format('At the pace of the last minutes, %s a minute, it starts about then.', trim_scale(round((pace * 60)::numeric, CASE WHEN pace < 1 THEN 1 ELSE 0 END))) END))::rota.finding;
END $$;

-- The attempt before.
CREATE FUNCTION rota.why_last_attempt(o rota.open_runs) RETURNS TABLE (state text, attempt integer, worker bigint, name text, finished_at timestamptz, facts jsonb)
LANGUAGE sql STABLE SET enable_seqscan = off SET jit = off AS $$
    SELECT p.state, p.attempt, p.worker, coalesce(rota.short_words(w.name), 'unknown'), p.finished_at, jsonb_build_object(
               'run', o.id, 'queue', o.queue, 'attempt', p.attempt, 'worker', p.worker, 'worker_name', coalesce(rota.short_words(w.name), 'unknown'),
               'spent', o.attempts_used, 'allowed', rota.plural_words(o.max_attempts, 'attempt'),
               'ended', CASE p.state WHEN 'timed_out' THEN 'took too long' WHEN 'lost' THEN 'was lost with its worker' WHEN 'cancelled' THEN 'was cut off' ELSE p.state END,
               'error', CASE WHEN p.error IS NULL THEN '.' ELSE rota.because_words(concat_ws(': ', p.error_type, p.error)) || '.' END)
    FROM rota.past_attempts p LEFT JOIN rota.workers w ON w.id = p.worker
    WHERE p.run_id = o.id AND p.finished_at >= least(o.created_at, rota.created_after(o.id)) AND o.attempt > 0
    ORDER BY p.attempt DESC LIMIT 1
$$;

-- What an idempotency key of a run means now.
CREATE FUNCTION rota.why_key(of_run bigint, of_tenant text, of_job text, of_key text, is_ended boolean) RETURNS SETOF rota.finding
LANGUAGE sql STABLE SET jit = off AS $$
    SELECT CASE WHEN k.run_id = of_run THEN 'holds_key' ELSE 'key_held' END, NULL::timestamptz, nullif(k.expires_at, 'infinity'), NULL,
           jsonb_build_object('run', of_run, 'job', of_job, 'key', rota.short_words(of_key), 'other', k.run_id,
               'then', CASE WHEN NOT is_ended THEN 'The key is free when the run has ended, or so long after that as was asked for.'
                            WHEN k.expires_at = 'infinity' THEN 'The key is held for ever.' ELSE 'The key is free again then.' END)
    FROM rota.keys k
    WHERE k.tenant = of_tenant AND k.job = of_job AND k.key = of_key AND (k.expires_at IS NULL OR k.expires_at > rota.now())
      AND (k.run_id = of_run OR is_ended)
$$;

-- A first attempt that began more than a minute after its time; and what the audit knows of the time between.
CREATE FUNCTION rota.why_late(of_run bigint, of_queue text, of_job text, of_attempt integer, due timestamptz, began timestamptz)
RETURNS SETOF rota.finding LANGUAGE sql STABLE SET enable_seqscan = off SET jit = off AS $$
    WITH told AS MATERIALIZED (
        (SELECT a.* FROM rota.audit a WHERE a.object_type = 'queue' AND a.object_id = of_queue ORDER BY a.id DESC LIMIT 200)
        UNION ALL
        (SELECT a.* FROM rota.audit a WHERE a.object_type = 'job' AND a.object_id = of_job ORDER BY a.id DESC LIMIT 200)
    ), stops AS (
        SELECT s.*, rota.seconds_between(greatest(due, s.at), least(began, lead(s.at, 1, began) OVER (PARTITION BY s.object_type ORDER BY s.id))) AS lasted
        FROM told s WHERE s.action IN ('queue.paused', 'queue.resumed', 'job.disabled', 'job.enabled')
    )
    SELECT 'started_late', began, NULL::timestamptz, w.actor, jsonb_build_object('run', of_run, 'queue', of_queue, 'job', of_job,
               'late', rota.duration_words(rota.seconds_between(due, began)),
               'because', CASE WHEN w.id IS NULL THEN '' ELSE format('; %s %s for %s of that%s%s', CASE w.action WHEN 'queue.paused' THEN 'queue ' || of_queue ELSE 'job ' || of_job END,
                   CASE w.action WHEN 'queue.paused' THEN 'was paused' ELSE 'was disabled' END, rota.duration_words(w.lasted),
                   rota.by_words(w.actor), rota.because_words(w.reason)) END)
    FROM (SELECT 1) one LEFT JOIN LATERAL (
        SELECT * FROM stops s WHERE s.action IN ('queue.paused', 'job.disabled') AND s.lasted > 1 ORDER BY s.lasted DESC LIMIT 1) w ON true
    WHERE of_attempt = 1 AND rota.seconds_between(due, began) > 60
$$;

CREATE FUNCTION rota.why_running(o rota.open_runs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    host   rota.workers := (SELECT w FROM rota.workers w WHERE w.id = o.worker);
    ask    record;
    facts  jsonb;
    is_silent boolean := host.id IS NULL OR host.state NOT IN ('live', 'stopping') OR host.lease_expires_at <= clock_timestamp();
BEGIN
    facts := jsonb_build_object('run', o.id, 'job', o.job, 'worker', o.worker, 'worker_name', coalesce(rota.short_words(host.name), 'unknown'),
        'attempt', o.attempt, 'spent', o.attempts_used + 1, 'allowed', rota.plural_words(o.max_attempts, 'attempt'),
        'where', CASE WHEN host.is_isolating_inline THEN 'alone in its own process' ELSE 'in a process of its own' END,
        'then', CASE WHEN o.attempts_used + 1 >= o.max_attempts THEN 'It is the last attempt: if it fails, the run becomes a dead letter.'
                     ELSE format('If it fails, it is tried again: it may use %s, and %s used before.', rota.plural_words(o.max_attempts, 'attempt'),
                                 CASE o.attempts_used WHEN 0 THEN 'none was' WHEN 1 THEN '1 was' ELSE o.attempts_used || ' were' END) END
                || CASE WHEN o.timeout_seconds IS NULL THEN '' ELSE ' It may take until then.' END);
    FOR ask IN SELECT c.* FROM rota.cancel_requests c WHERE c.run_id = o.id AND c.attempt = o.attempt LOOP
        RETURN NEXT ROW('cancel_requested', ask.requested_at, NULL, ask.requested_by,
            facts || jsonb_build_object('by', rota.by_words(ask.requested_by), 'because', rota.because_words(ask.reason)))::rota.finding;
    END LOOP;
    IF is_silent THEN
        RETURN NEXT ROW('worker_silent', host.heartbeat_at, NULL, NULL, facts)::rota.finding;
        RETURN QUERY SELECT f.* FROM rota.why_workers(NULL, NULL, true) f;
    ELSIF o.claim_batch > coalesce((SELECT max(b.batch) FROM rota.batch_starts b WHERE b.worker = o.worker), 0) THEN
        RETURN NEXT ROW('claimed_ahead', o.started_at, NULL, NULL, facts)::rota.finding;
    ELSE
        RETURN NEXT ROW(CASE WHEN rota.is_isolated(o) THEN 'running_isolated' ELSE 'running' END, o.started_at,
            rota.after(o.started_at, o.timeout_seconds), NULL, facts)::rota.finding;
    END IF;
END $$;

-- What the run itself waits for.
CREATE FUNCTION rota.why_held(o rota.open_runs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE SET enable_seqscan = off SET jit = off AS $$
DECLARE
    facts jsonb := jsonb_build_object('run', o.id, 'queue', o.queue, 'schedule', o.schedule, 'held_by', o.held_by);
    busy  record;
    other bigint;
BEGIN
    IF o.state = 'blocked' THEN
        RETURN NEXT ROW('blocked', o.created_at, NULL, NULL, facts)::rota.finding;
    ELSIF o.held_by = 'suspect' THEN
        SELECT w.id, w.name, w.isolating_run INTO busy FROM rota.workers w
        WHERE w.state IN ('live', 'stopping') AND w.isolating_run IS NOT NULL AND rota.isolating_of(w) IS NOT NULL ORDER BY w.id LIMIT 1;
        RETURN NEXT ROW('suspect', o.enqueued_at, NULL, NULL, facts || jsonb_build_object('then',
            CASE WHEN busy.id IS NULL THEN 'A live worker takes it within seconds, alone, beside its normal work.'
                 ELSE format('Each worker isolates one run at a time; %s (%s) has run %s now.', busy.id, rota.short_words(busy.name), busy.isolating_run) END))::rota.finding;
    ELSIF o.held_by = 'overlap' THEN
        SELECT min(r.id) INTO other FROM (SELECT * FROM rota.open_runs w WHERE w.schedule_id = o.schedule_id LIMIT 1000) r
        WHERE r.held_by IS DISTINCT FROM 'overlap';
        RETURN NEXT ROW('overlap', o.created_at, NULL, NULL, facts || jsonb_build_object('other', coalesce(other, o.id)))::rota.finding;
    ELSIF o.held_by = 'no_worker' AND NOT EXISTS (SELECT FROM rota.why_fleet(NULL, o.job) f WHERE f.knows) THEN
        RETURN;  -- said of the workers
    ELSE
        RETURN NEXT ROW('held', o.held_at, NULL, NULL, facts || jsonb_build_object('held_by',
            CASE o.held_by WHEN 'no_worker' THEN 'no worker knew its job until a moment ago' ELSE o.held_by END))::rota.finding;
    END IF;
END $$;

CREATE FUNCTION rota.why_open_run(o rota.open_runs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    clock   timestamptz := rota.now();
    is_later boolean := o.state = 'scheduled' AND o.run_at > clock;
    last    record;
BEGIN
    IF o.expires_at <= clock AND NOT (o.state = 'running' AND o.started_at < o.expires_at) THEN
        RETURN NEXT ROW('run_expired', greatest(o.expires_at, o.created_at), NULL, NULL, jsonb_build_object('run', o.id))::rota.finding;
        RETURN;
    END IF;
    RETURN QUERY SELECT * FROM rota.why_key(o.id, o.tenant, o.job, o.key, false) WHERE o.key IS NOT NULL;
    SELECT * INTO last FROM rota.why_last_attempt(o);
    IF o.state = 'running' THEN
        RETURN QUERY SELECT * FROM rota.why_running(o);
        RETURN QUERY SELECT * FROM rota.why_late(o.id, o.queue, o.job, o.attempt, o.run_at, o.started_at);
    ELSE
        RETURN QUERY SELECT * FROM rota.why_job_off(o.job);
        RETURN QUERY SELECT * FROM rota.why_queue_paused(o.queue);
        RETURN QUERY
        SELECT f.code, CASE f.code WHEN 'job_unknown' THEN o.held_at ELSE f.since END, f.until, f.by_whom, f.facts
        FROM rota.why_workers(o.queue, o.job, is_later OR o.held_by IS NOT NULL OR o.state = 'blocked') f;
    END IF;
    IF o.state = 'scheduled' THEN
        RETURN NEXT ROW(CASE WHEN NOT is_later THEN 'not_promoted' WHEN last.state IS NULL THEN 'waits_for_time'
                             WHEN last.state = 'snoozed' THEN 'snoozed' ELSE 'waits_for_backoff' END,
            CASE WHEN is_later THEN coalesce(last.finished_at, o.created_at) ELSE o.run_at END, CASE WHEN is_later THEN o.run_at END, NULL,
            coalesce(last.facts, '{}') || jsonb_build_object('run', o.id, 'queue', o.queue))::rota.finding;
        RETURN;
    ELSIF o.held_by IS NOT NULL OR o.state = 'blocked' THEN
        RETURN QUERY SELECT * FROM rota.why_held(o);
    ELSIF o.state = 'queued' THEN
        RETURN QUERY SELECT * FROM rota.why_line(o);
    END IF;
    IF last.state IN ('failed', 'timed_out', 'lost') THEN
        RETURN NEXT ROW(CASE last.state WHEN 'lost' THEN 'worker_lost' ELSE 'attempt_failed' END, last.finished_at, NULL, NULL, last.facts)::rota.finding;
    END IF;
END $$;

CREATE FUNCTION rota.why_ended_run(e rota.ended_runs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    code text := CASE
        WHEN e.state = 'succeeded' THEN 'run_succeeded'
        WHEN e.end_reason = 'expired' THEN 'run_expired'
        WHEN e.state = 'cancelled' THEN 'run_cancelled'
        WHEN e.end_reason = 'attempts used up' THEN 'attempts_used_up'
        WHEN e.end_reason LIKE 'gave up on %' THEN 'gave_up'
        WHEN e.end_reason = 'unknown job' THEN 'job_never_known'
        ELSE 'run_failed' END;
    ask record;
BEGIN
    SELECT * INTO ask FROM rota.last_audit('run', e.id::text, e.tenant, '{run.cancelled}') WHERE code = 'run_cancelled';
    RETURN NEXT ROW(code, e.finished_at, NULL, ask.actor, jsonb_build_object('run', e.id, 'job', e.job, 'attempt', e.attempt,
        'took', coalesce(' after ' || rota.duration_words(e.duration_ms / 1000), ''),
        'used', CASE e.attempts_used WHEN 1 THEN 'Its only attempt is used up.' ELSE format('Its %s are used up.', rota.plural_words(e.attempts_used, 'attempt')) END,
        'error_type', coalesce(e.error_type, 'an error'), 'end', rota.short_words(coalesce(e.end_reason, e.state)),
        'error', CASE WHEN e.error IS NULL THEN '.' ELSE rota.because_words(concat_ws(': ', e.error_type, e.error)) || '.' END))::rota.finding;
    RETURN QUERY SELECT * FROM rota.why_late(e.id, e.queue, e.job, e.attempt, e.run_at, e.started_at);
    RETURN QUERY SELECT * FROM rota.why_key(e.id, e.tenant, e.job, e.key, true) WHERE e.key IS NOT NULL;
END $$;

CREATE FUNCTION rota.why_run(of_run bigint) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE SET enable_seqscan = off SET jit = off AS $$
DECLARE
    o     rota.open_runs;
    e     rota.ended_runs;
    place record;
BEGIN
    SELECT * INTO o FROM rota.open_runs r WHERE r.id = of_run;
    IF o.id IS NOT NULL THEN
        RETURN QUERY SELECT * FROM rota.why_open_run(o);
        RETURN;
    END IF;
    place := rota.find_ended(of_run);
    SELECT * INTO e FROM rota.ended_runs r WHERE r.id = of_run AND r.keep_class = place.keep_class AND r.finished_at = place.finished_at;
    IF e.id IS NULL THEN
        RAISE EXCEPTION 'there is no run %', of_run USING ERRCODE = 'RO004';
    END IF;
    RETURN QUERY SELECT * FROM rota.why_ended_run(e);
END $$;
