-- Schedules, jobs and queues; and rota.why, which asks about any of them or about a run.

-- What was decided about its last time; and, if that ran, the last of the five before that did not.
CREATE FUNCTION rota.why_decision(s rota.schedules) RETURNS SETOF rota.finding LANGUAGE sql STABLE SET enable_seqscan = off SET jit = off AS $$
    WITH late AS MATERIALIZED (
        SELECT r.*, r.decision IN ('ran', 'caught_up') AS has_run, row_number() OVER (ORDER BY r.nominal_at DESC) AS n
        FROM (SELECT * FROM rota.ledger l WHERE l.schedule_id = s.id ORDER BY l.nominal_at DESC LIMIT 6) r
    )
    SELECT 'schedule_ran', l.nominal_at, NULL::timestamptz, NULL, jsonb_build_object('run', l.run_id, 'ended', l.state)
    FROM late l WHERE l.n = 1 AND l.has_run AND l.success IS NOT NULL AND (l.success OR s.failures_in_a_row = 0)
    UNION ALL
    (SELECT coalesce(r.code, 'not_run'), l.nominal_at, NULL, NULL, jsonb_build_object('schedule', s.name, 'job', s.job,
                'calendar', coalesce(s.calendar, 'its calendar'), 'decision', l.decision, 'reason', l.reason,
                'which', CASE l.n WHEN 1 THEN 'Its last time' ELSE 'An earlier time' END,
                -- An earlier one weighs less than how the last one went.
                'lighter', CASE l.n WHEN 1 THEN 0 ELSE 20 END,
                'times', CASE WHEN l.count > 1 THEN format(', with %s more before it', rota.number_words(l.count - 1)) ELSE '' END,
                'unmet', rota.short_words(coalesce(u.names, 'others')), 'unmet_first', coalesce(l.details -> 'unmet' ->> 0, s.name))
     FROM late l
     LEFT JOIN rota.reasons r ON r.code = l.decision || '_' || replace(l.reason, 'policy ', '')
     CROSS JOIN LATERAL (SELECT string_agg(w.word, ', ') AS names
                         FROM jsonb_array_elements_text(CASE jsonb_typeof(l.details -> 'unmet') WHEN 'array' THEN l.details -> 'unmet' ELSE '[]' END) AS w (word)) u
     WHERE NOT l.has_run ORDER BY l.n LIMIT 1)
$$;

CREATE FUNCTION rota.why_schedule(s rota.schedules) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE SET enable_seqscan = off SET jit = off AS $$
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
            CASE live WHEN 0 THEN 'none is running' WHEN 1 THEN 'one is live, and does not schedule' ELSE rota.number_words(live) || ' are live, and none of them schedules' END))::rota.finding;
    ELSE
        RETURN NEXT ROW(CASE WHEN s.moved_to IS NULL THEN 'waits_for_next' ELSE 'rescheduled' END, NULL, s.next_run_at, NULL, facts)::rota.finding;
    END IF;
END $$;

-- What waits and runs, by queue and job, as read_depths says, but never counted anew: of many runs as it was counted last.
CREATE FUNCTION rota.kept_depths() RETURNS SETOF rota.depths LANGUAGE plpgsql STABLE SET jit = off AS $$
BEGIN
    IF rota.has_many_open_runs() THEN
        RETURN QUERY SELECT d.* FROM rota.depths d;
    ELSE
        RETURN QUERY SELECT (jsonb_populate_record(NULL::rota.depths, to_jsonb(c))).* FROM rota.count_open_runs() c;
    END IF;
END $$;

-- What waits of a job or in a queue, and how quickly it goes in the lane.
CREATE FUNCTION rota.why_depths(depths rota.depths[], of_queue text, of_job text, lane text) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    pace  double precision;
    seen  record;
    facts jsonb := jsonb_build_object('of', CASE WHEN of_job IS NULL THEN '--queue ' || rota.shell_word(of_queue) ELSE '--job ' || rota.shell_word(of_job) END,
                                      'queue', lane, 'job', of_job);
BEGIN
    SELECT coalesce(sum(d.queued), 0)::bigint AS queued, coalesce(sum(d.held), 0)::bigint AS held, coalesce(sum(d.scheduled), 0)::bigint AS later,
           coalesce(sum(d.running), 0)::bigint AS running, min(d.oldest_at) AS oldest_at
    INTO seen FROM unnest(depths) d;
    IF seen.queued > 0 THEN
        pace := rota.pace_of(lane);
        RETURN NEXT ROW('runs_wait', NULL, CASE WHEN of_job IS NULL THEN rota.now() + make_interval(secs => seen.queued / pace) END, NULL, facts || jsonb_build_object(
            'waiting', CASE seen.queued WHEN 1 THEN '1 run waits' ELSE rota.plural_words(seen.queued, 'run') || ' wait' END, 'count', seen.queued,
            'duration', coalesce(rota.duration_words(rota.seconds_between(seen.oldest_at, clock_timestamp())), 'held ones'),
            'then', CASE WHEN pace IS NULL THEN 'Nothing of the queue has ended in the last ten minutes.'
                         ELSE format('In the last ten minutes %s a minute have ended in queue %s%s.', trim_scale(round((pace * 60)::numeric, CASE WHEN pace < 1 THEN 1 ELSE 0 END)), lane,
                                     CASE WHEN of_job IS NULL THEN '; at that pace what waits now is done then' ELSE '' END) END))::rota.finding;
        RETURN QUERY SELECT 'runs_held', NULL::timestamptz, NULL::timestamptz, NULL, facts || jsonb_build_object(
            'held', rota.number_words(seen.held), 'are', CASE seen.held WHEN 1 THEN 'is' ELSE 'are' END) WHERE seen.held > 0;
    ELSIF seen.running > 0 THEN
        RETURN NEXT ROW('at_work', NULL, NULL, NULL, facts || jsonb_build_object('running', CASE seen.running WHEN 1 THEN '1 run is' ELSE rota.plural_words(seen.running, 'run') || ' are' END))::rota.finding;
    ELSIF seen.later > 0 THEN
        RETURN NEXT ROW('runs_for_later', NULL, NULL, NULL, facts || jsonb_build_object('its', CASE seen.later WHEN 1 THEN 'its' ELSE 'their' END,
            'later', CASE seen.later WHEN 1 THEN '1 run waits' ELSE rota.plural_words(seen.later, 'run') || ' wait' END))::rota.finding;
    ELSE
        RETURN NEXT ROW('idle', NULL, NULL, NULL, facts)::rota.finding;
    END IF;
END $$;

CREATE FUNCTION rota.why_job(j rota.jobs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    bad  record;
    off  record;
BEGIN
    RETURN QUERY SELECT * FROM rota.why_job_off(j.name);
    RETURN QUERY SELECT * FROM rota.why_queue_paused(j.queue);
    RETURN QUERY SELECT * FROM rota.why_workers(j.queue, j.name);
    RETURN QUERY SELECT * FROM rota.why_depths(ARRAY(SELECT d FROM rota.kept_depths() d WHERE d.job = j.name), NULL, j.name, j.queue);
    SELECT sum(m.attempts) FILTER (WHERE m.outcome IN ('failed', 'timed_out', 'lost'))::bigint AS failures, sum(m.attempts)::bigint AS attempts INTO bad
    FROM rota.rollup_minutes m WHERE m.job = j.name AND m.minute >= date_trunc('minute', rota.now() - interval '5 minutes');
    RETURN QUERY
    SELECT 'job_failing', NULL::timestamptz, NULL::timestamptz, NULL, jsonb_build_object('job', j.name, 'failures', rota.number_words(bad.failures),
               'attempts', rota.plural_words(bad.attempts, 'attempt'), 'error', coalesce(rota.because_words(w.last_error), '') || '.')
    FROM (SELECT 1) one LEFT JOIN LATERAL (SELECT e.last_error FROM rota.waiting_errors(500) e WHERE e.job = j.name LIMIT 1) w ON true WHERE bad.failures > 0;
    SELECT count(*) FILTER (WHERE x.is_off) AS off, count(*) AS schedules, min(x.name) FILTER (WHERE x.is_off) AS first,
           string_agg(x.name, ', ' ORDER BY x.name) FILTER (WHERE x.is_off AND x.n <= 3) AS names INTO off
    FROM (SELECT s.name, s.is_off, row_number() OVER (PARTITION BY s.is_off ORDER BY s.name) AS n FROM (
              SELECT t.name, NOT t.is_enabled OR t.parked_at IS NOT NULL OR coalesce(t.paused_until > rota.now(), t.paused_at IS NOT NULL) AS is_off
              FROM rota.schedules t WHERE t.job = j.name AND t.finished_at IS NULL) s) x;
    RETURN QUERY SELECT 'schedules_off', NULL::timestamptz, NULL::timestamptz, NULL, jsonb_build_object('schedule', off.first, 'some', rota.share_words(off.off, off.schedules, 'schedule'),
        'names', off.names || CASE WHEN off.off > 3 THEN ' …' ELSE '' END) WHERE off.off > 0;
    RETURN QUERY
    SELECT 'last_end', e.finished_at, NULL::timestamptz, NULL, jsonb_build_object('run', e.id,
               'ended', e.state || CASE WHEN e.state = 'failed' THEN rota.because_words(concat_ws(': ', e.error_type, e.error)) ELSE '' END)
    FROM (SELECT r.* FROM rota.ended_runs r WHERE r.job = j.name AND r.finished_at > rota.now() - interval '35 days' ORDER BY r.finished_at DESC LIMIT 1) e;
END $$;

CREATE FUNCTION rota.why_queue(of_queue text) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    depths rota.depths[] := ARRAY(SELECT d FROM rota.kept_depths() d WHERE d.queue = of_queue);
    known  text[] := ARRAY(SELECT DISTINCT unnest(w.jobs) FROM rota.workers w WHERE w.state = 'live' AND w.lease_expires_at > clock_timestamp());
BEGIN
    RETURN QUERY SELECT * FROM rota.why_queue_paused(of_queue);
    RETURN QUERY SELECT * FROM rota.why_workers(of_queue, NULL);
    RETURN QUERY SELECT * FROM rota.why_depths(depths, of_queue, NULL, of_queue);
    RETURN QUERY
    WITH waiting AS MATERIALIZED (
        SELECT d.job, d.queued, j.is_enabled, d.job = ANY (known) AS is_known,
               row_number() OVER (PARTITION BY j.is_enabled ORDER BY d.queued DESC, d.job) AS n
        FROM unnest(depths) d JOIN rota.jobs j ON j.name = d.job WHERE d.queued > 0
    )
    SELECT 'jobs_disabled', NULL::timestamptz, NULL::timestamptz, NULL, jsonb_build_object('job', min(w.job) FILTER (WHERE w.n = 1),
               'waiting', rota.plural_words(sum(w.queued)::bigint, 'run'), 'belong', CASE sum(w.queued) WHEN 1 THEN 'belongs' ELSE 'belong' END,
               'jobs', string_agg(w.job, ', ' ORDER BY w.n) FILTER (WHERE w.n <= 3))
    FROM waiting w WHERE NOT w.is_enabled HAVING count(*) > 0
    UNION ALL
    SELECT 'jobs_unknown', NULL, NULL, NULL, jsonb_build_object('job', min(w.job),
               'waiting', rota.plural_words(sum(w.queued)::bigint, 'run'), 'belong', CASE sum(w.queued) WHEN 1 THEN 'belongs' ELSE 'belong' END,
               'jobs', rota.short_words(string_agg(w.job, ', ' ORDER BY w.job)))
    FROM waiting w WHERE NOT w.is_known AND known <> '{}' HAVING count(*) > 0;
END $$;

-- What a word may mean, the first first: a number is a run; a name is a schedule, then a job, then a queue.
CREATE FUNCTION rota.why_kinds(subject text, tenant text) RETURNS text[] LANGUAGE sql STABLE SET enable_seqscan = off SET jit = off AS $$
    SELECT array_remove(ARRAY[
        CASE WHEN subject ~ '^[0-9]{1,18}$' THEN 'run' END,
        CASE WHEN EXISTS (SELECT FROM rota.schedules s WHERE s.tenant = why_kinds.tenant AND s.name = subject) THEN 'schedule' END,
        CASE WHEN EXISTS (SELECT FROM rota.jobs j WHERE j.name = subject) THEN 'job' END,
        CASE WHEN EXISTS (SELECT FROM rota.queues q WHERE q.name = subject) OR EXISTS (SELECT FROM rota.jobs j WHERE j.queue = subject)
               OR EXISTS (SELECT FROM rota.open_runs o WHERE o.is_ready AND o.queue = subject) OR EXISTS (SELECT FROM rota.depths d WHERE d.queue = subject)
             THEN 'queue' END], NULL)
$$;

CREATE FUNCTION rota.why_findings(subject text, kind text, tenant text) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    j rota.jobs;
BEGIN
    CASE why_findings.kind
    WHEN 'run' THEN
        RETURN QUERY SELECT * FROM rota.why_run(subject::bigint);
    WHEN 'schedule' THEN
        RETURN QUERY SELECT * FROM rota.why_schedule(rota.find_schedule(subject, why_findings.tenant));
    WHEN 'job' THEN
        SELECT * INTO j FROM rota.jobs r WHERE r.name = subject;
        RETURN QUERY SELECT * FROM rota.why_job(j);
    ELSE
        RETURN QUERY SELECT * FROM rota.why_queue(subject);
    END CASE;
END $$;

-- Why something does not run, or did what it did: the reasons in order, each with what happens next and the command that would change
-- it. Without a kind, the subject is the first that why_kinds finds; also has the others. Errors: RO001 no such job, RO002 no such kind,
-- RO004 no such run, RO007 no such schedule, RO013 no such queue, or nothing of that name.
CREATE FUNCTION rota.why(subject text, kind text DEFAULT NULL, tenant text DEFAULT '') RETURNS TABLE (
    place bigint, code text, sentence text, since timestamptz, until timestamptz, by_whom text, next_step text, command text, facts jsonb,
    is_past boolean, kind_found text, name text, also text[]
) LANGUAGE plpgsql STABLE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    word   text := btrim(why.subject);
    kinds  text[] := rota.why_kinds(word, why.tenant);
    chosen text := coalesce(why.kind, kinds[1]);
    -- Of the facts what a program may want; the rest are parts of sentences.
    told   constant text[] := '{run,job,queue,schedule,worker,other,longest,key,calendar,attempt,place,is_exact,count,state}';
BEGIN
    IF chosen NOT IN ('run', 'schedule', 'job', 'queue') THEN
        RAISE EXCEPTION 'there is no kind "%": run, schedule, job or queue', chosen USING ERRCODE = 'RO002';
    ELSIF chosen IS NULL THEN
        RAISE EXCEPTION 'no schedule, job or queue is named "%"', word USING ERRCODE = 'RO013',
            HINT = 'A run is asked about by its number; a schedule of a tenant with the tenant.';
    ELSIF chosen <> ALL (kinds) THEN
        CASE chosen
        WHEN 'run' THEN RAISE EXCEPTION 'there is no run %', word USING ERRCODE = 'RO004';
        WHEN 'schedule' THEN PERFORM rota.find_schedule(word, why.tenant);
        WHEN 'job' THEN PERFORM rota.unknown_job(word);
        ELSE RAISE EXCEPTION 'no job, run or operator has named a queue "%"', word USING ERRCODE = 'RO013';
        END CASE;
    END IF;
    RETURN QUERY
    SELECT row_number() OVER (ORDER BY o.place, f.n), f.code, rota.fill_words(r.sentence, x.facts), f.since, f.until, f.by_whom,
           rota.fill_words(r.next_step, x.facts), rota.fill_words(r.command, x.facts, true),
           (SELECT coalesce(jsonb_object_agg(t.key, t.value), '{}') FROM jsonb_each(f.facts) t WHERE t.key = ANY (told) AND t.value <> 'null'), r.is_past, chosen, word, array_remove(kinds, chosen)
    FROM rota.why_findings(word, chosen, why.tenant) WITH ORDINALITY AS f (code, since, until, by_whom, facts, n)
    JOIN rota.reasons r ON r.code = f.code
    CROSS JOIN LATERAL (SELECT f.facts || CASE WHEN why.tenant = '' THEN '{}' ELSE jsonb_build_object('of_tenant', '--tenant ' || rota.shell_word(why.tenant) || ' ') END AS facts) x
    CROSS JOIN LATERAL (SELECT r.place + coalesce((f.facts ->> 'lighter')::integer, 0) AS place) o
    ORDER BY o.place, f.n;
END $$;
