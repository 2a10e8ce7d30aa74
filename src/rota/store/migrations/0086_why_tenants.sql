-- Why a run or a schedule of a tenant that is paused does not start.
INSERT INTO rota.reasons (place, code, sentence, next_step, command) VALUES
(22, 'tenant_paused', 'Tenant {tenant} is paused{by}{because}.', '{then}', 'rota tenants resume {tenant}');

CREATE FUNCTION rota.why_tenant_paused(of_tenant text) RETURNS SETOF rota.finding LANGUAGE sql STABLE SET jit = off AS $$
    SELECT 'tenant_paused', t.paused_at, t.paused_until, t.paused_by,
           jsonb_build_object('tenant', t.name, 'by', rota.by_words(t.paused_by), 'because', rota.because_words(t.pause_reason),
               'then', CASE WHEN t.paused_until IS NULL THEN 'Its runs are held until somebody resumes it; what runs, runs on.'
                            ELSE 'Its runs are held; it goes on by itself then.' END)
    FROM rota.tenants t WHERE t.name = of_tenant AND rota.tenant_is_paused(t)
$$;

-- As before (0058), and what a pause of the tenant holds.
CREATE OR REPLACE FUNCTION rota.why_held(o rota.open_runs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE SET enable_seqscan = off SET jit = off AS $$
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
    ELSIF o.held_by = 'tenant' AND EXISTS (SELECT FROM rota.tenants t WHERE t.name = o.tenant AND rota.tenant_is_paused(t)) THEN
        RETURN;  -- said of the tenant
    ELSIF o.held_by = 'no_worker' AND NOT EXISTS (SELECT FROM rota.why_fleet(NULL, o.job) f WHERE f.knows) THEN
        RETURN;  -- said of the workers
    ELSE
        RETURN NEXT ROW('held', o.held_at, NULL, NULL, facts || jsonb_build_object('held_by',
            CASE o.held_by WHEN 'no_worker' THEN 'no worker knew its job until a moment ago'
                WHEN 'tenant' THEN format('tenant %s was paused until a moment ago', rota.short_words(o.tenant)) ELSE o.held_by END))::rota.finding;
    END IF;
END $$;

-- As before (0058), and the pause of the tenant.
CREATE OR REPLACE FUNCTION rota.why_open_run(o rota.open_runs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE SET jit = off AS $$
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
        RETURN QUERY SELECT * FROM rota.why_tenant_paused(o.tenant) WHERE o.tenant <> '';
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

-- As before (0059), and the pause of the tenant.
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
        RETURN QUERY SELECT * FROM rota.why_tenant_paused(s.tenant) WHERE s.tenant <> '';
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
