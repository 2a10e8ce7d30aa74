-- `why` explains why a run, a schedule, a job or a queue is not running. Each `why_…` function returns findings (a
-- code and facts); `reasons` holds the texts and their order. Why: docs/decisions/0026-why.md.

-- The texts of why, by code: kept here, so that every face says the same.
CREATE TABLE rota.reasons (
    code      text COLLATE "C" PRIMARY KEY,
    place     smallint NOT NULL,               -- the lowest comes first
    sentence  text NOT NULL,
    next_step text NOT NULL,                   -- what happens next, or what somebody should do
    is_past   boolean NOT NULL DEFAULT false,  -- an event at one time, not a condition that lasts
    command   text                             -- a command that would change it
);
COMMENT ON TABLE rota.reasons IS 'The texts of rota.why, by code.';

INSERT INTO rota.reasons (place, code, sentence, next_step, command, is_past) VALUES
(1, 'attempts_used_up', 'It failed{error} {used}', 'It is a dead letter: it stays failed until somebody retries it.',
    'rota runs retry {run}', true),
(1, 'gave_up', 'It failed with {error_type}, which its job does not retry{error}',
    'It is a dead letter: it stays failed until somebody retries it.', 'rota runs retry {run}', true),
(1, 'job_never_known', 'It failed because no live worker knew job {job} for too long (worker.unknown_job_seconds).',
    'Start a worker that declares the job, then retry the run.', 'rota runs retry {run}', true),
(1, 'run_cancelled', 'It was {end}.', 'It stays cancelled until somebody retries it.', 'rota runs retry {run}', true),
(1, 'run_dropped',
    'It was dropped: queue {queue} was full, and it was among the waiting runs with the lowest priority.',
    'It stays cancelled until somebody retries it; retry it when the queue has room.', 'rota runs retry {run}', true),
(1, 'run_expired', 'It expired: it had not started by its deadline.',
    'It stays cancelled until somebody retries it; a retried run has no deadline.', 'rota runs retry {run}', true),
(1, 'run_failed', 'It failed: {end}{error}', 'It stays failed until somebody retries it.', 'rota runs retry {run}',
    true),
(1, 'run_succeeded', 'It succeeded on attempt {attempt}{took}.', 'No action is needed.', NULL, true),
(5, 'cancel_requested', 'Cancellation was requested{by}{because}.',
    'Its worker passes the request on; the run ends when its handler stops.', 'rota runs show {run}', true),
(6, 'worker_silent', 'It was running on worker {worker} ({worker_name}), which no longer sends heartbeats.',
    'Another live worker rescues the run when the lease has expired.', 'rota workers show {worker}', false),
(7, 'claimed_ahead', 'Worker {worker} ({worker_name}) has claimed it in advance and starts it next.',
    'It starts after the runs that the worker claimed before it.', 'rota workers show {worker}', false),
(8, 'running_isolated',
    'Worker {worker} ({worker_name}) is running it isolated, {where}, because a worker was lost while running it.',
    '{then}', 'rota runs cancel {run}', false),
(9, 'running', 'Worker {worker} ({worker_name}) is running attempt {attempt}.', '{then}', 'rota runs cancel {run}',
    false),
(10, 'debounced', 'It waits for a quiet period: it has the latest of {events}, and each new event postpones it.',
    'It enters queue {queue} when no event has come for the debounce period of its job, and at the latest after the '
    'maximum wait.',
    'rota events list --job {job}', false),
(10, 'snoozed', 'Its handler snoozed it.',
    'It enters queue {queue} when the snooze ends; snoozing uses no attempt.',
    'rota runs cancel {run}', false),
(10, 'spread', 'It is delayed: {crowd} schedules were due at the same time, and {schedule} is number {number} of them.',
    'It enters queue {queue} after the delay; --burst-allowed exempts a schedule from such delays.',
    'rota schedules update {of_tenant}{schedule} --burst-allowed', false),
(10, 'waits_for_backoff',
    'Attempt {attempt} {ended}{error} It is waiting to be retried, with {spent} of {allowed} used.',
    'It enters queue {queue} when the backoff is over.', 'rota runs cancel {run}', false),
(10, 'waits_for_time', 'It is scheduled for later.', 'It enters queue {queue} when its time comes.',
    'rota runs cancel {run}', false),
(11, 'not_promoted', 'Its time has come, but no worker has promoted it yet.',
    'Any live worker promotes it within seconds.', 'rota workers list', false),
(12, 'schedule_disabled', 'Schedule {schedule} is disabled{by}.',
    'Its times are skipped until it is enabled; the ledger has them then.', 'rota schedules enable {of_tenant}{schedule}', false),
(13, 'schedule_finished', 'It is finished: {why}.', 'It does not run again unless an edit gives it another time.',
    'rota schedules show {of_tenant}{schedule}', true),
(14, 'schedule_parked', 'It is parked because it cannot be processed: {error}',
    'It is retried automatically, and at once if it is edited.', 'rota schedules show {of_tenant}{schedule}', false),
(15, 'schedule_paused', 'Schedule {schedule} is paused{by}{because}.', '{then}',
    'rota schedules resume {of_tenant}{schedule}', false),
(20, 'job_deleted', 'No code declares job {job} any more.', 'Deploy code that declares it, or cancel its waiting runs.',
    'rota runs cancel --job {job}', false),
(21, 'job_disabled', 'Job {job} is disabled{by}{because}.',
    'Its runs wait, and its schedules skip their times, until it is enabled.', 'rota jobs enable {job}', false),
(22, 'queue_paused', 'Queue {queue} is paused{by}{because}.', '{then}', 'rota queues resume {queue}', false),
(22, 'tenant_paused', 'Tenant {tenant} is paused{by}{because}.', '{then}', 'rota tenants resume {tenant}', false),
(25, 'no_tick', 'It is due, but no worker has processed it: {workers}.',
    'Start a worker without --no-scheduler, or resume one that is draining; it processes the schedule within seconds.',
    'rota worker', false),
(26, 'schedule_pending', 'Its next time has not been computed yet.',
    'The next tick of any worker computes it within seconds.', 'rota schedules show {of_tenant}{schedule}', false),
(30, 'no_worker', 'No worker is running{last}.',
    'Start a worker: until then, no run starts and no schedule is processed.', 'rota worker', false),
(30, 'workers_asleep', 'All suitable workers are asleep, without a connection to the database: {workers}.',
    'They find waiting runs when they wake; to wake one now, send SIGUSR1 to process {pid} on {host}.',
    'rota workers list --status asleep', false),
(31, 'queue_unserved', 'No live worker serves queue {queue}: the {workers} serve{s} {queues}.',
    'Start a worker for it, or add it to the queues of a worker.', 'rota worker --queues {queue}', false),
(32, 'job_unknown', 'No live worker knows job {job}: the {workers} other code.',
    'Start a worker whose application declares it. A run that waits longer than worker.unknown_job_seconds (default: '
    'a day) fails.',
    'rota workers list', false),
(33, 'worker_mismatch', 'No worker that knows job {job} serves queue {queue}.',
    'Add the queue to a worker that knows the job.', 'rota worker --queues {queue}', false),
(34, 'workers_failing', '{some} alive but failing: {troubles}.',
    'A failing worker may claim nothing until it recovers; its log has the details.', 'rota workers show {worker}',
    false),
(35, 'workers_draining', '{some} draining{by}{because}.',
    'A draining worker finishes its running attempts and claims nothing until it is resumed.',
    'rota workers resume {worker}', false),
(38, 'shadow', 'It is a shadow schedule: it records its decisions and enqueues nothing.',
    'Its times are recorded as skipped until shadow mode is turned off.',
    'rota schedules update --no-is-shadow {of_tenant}{schedule}', false),
(39, 'payload_refused', 'No live worker accepts its payload: {error}.',
    'Start workers of the release that enqueued it, or retry it with another payload. It fails when it has been held '
    'for worker.refused_payload_seconds (default: a day).', 'rota runs retry --help', false),
(39, 'payload_passed_on', 'It waits for a worker of another release: {error}.',
    'A live worker that has not refused its payload claims it next.', 'rota workers list', false),
(40, 'suspect', 'A worker was lost while running it, so it waits to be run isolated, in a separate process.', '{then}',
    'rota runs show {run}', false),
(41, 'overlap', 'It waits for run {other} of schedule {schedule}, which has not ended.',
    'It starts when that run has ended.', 'rota runs cancel {other}', false),
(42, 'blocked', 'It waits for other runs to end.', 'It enters queue {queue} when they have ended.',
    'rota runs show {run}', false),
(43, 'held', 'It is held: {held_by}.', 'It enters queue {queue} when the hold ends.', 'rota runs show {run}', false),
(44, 'limit_blocked', 'Limit {limit} is blocked{key}: run {other} failed, and the next run requires its success.',
    'Retry that run, or continue without it: rota limits unblock.', 'rota runs retry {other}', false),
(44, 'limit_full', 'Limit {limit} is full{key}: {in_use} of {cap} slots in use{holders}.', '{then}',
    'rota limits show {of_tenant}{limit}', false),
(44, 'limit_rate', 'Rate limit {limit} is used up{key}: {cap} per {period}.', '{then}',
    'rota limits show {of_tenant}{limit}', false),
(44, 'limit_room', 'It waits to be admitted by limit {limit}{key}, which has capacity.',
    'Any live worker admits it within a second.', 'rota workers list', false),
(44, 'limit_turn', 'It waits for its turn in limit {limit}{key}: {before}.', '{then}',
    'rota limits show {of_tenant}{limit}', false),
(45, 'missed_cap', '{which} was missed{times}: more times were missed than the catch-up limit allows.',
    'It continues with its next time.', 'rota schedules history {of_tenant}{schedule}', true),
(45, 'missed_disabled', '{which} was missed{times}: no worker had processed it when the schedule was disabled.',
    'Missed times can be backfilled.', 'rota schedules backfill --help', true),
(45, 'missed_paused', '{which} was missed{times}: no worker had processed it when the schedule was paused.',
    'Missed times can be backfilled.', 'rota schedules backfill --help', true),
(45, 'missed_none', '{which} was missed{times}: no worker processed it in time, and missed times are not caught up.',
    'It continues with its next time; --catch-up sets another policy.',
    'rota schedules update --catch-up latest {of_tenant}{schedule}', true),
(45, 'missed_window', '{which} was missed{times}: when a worker processed it, it was older than the catch-up window.',
    'It continues with its next time.', 'rota schedules update --catch-up-window none {of_tenant}{schedule}', true),
(45, 'skipped_calendar', '{which} was skipped{times}: calendar {calendar} was closed.',
    'It runs at its next time at which the calendar is open.', 'rota calendars show {calendar}', true),
(45, 'skipped_coalesced', '{which} was skipped{times}: a later missed time ran instead.',
    'It continues with its next time.', 'rota schedules history {of_tenant}{schedule}', true),
(45, 'skipped_disabled', '{which} was skipped{times}: the schedule was disabled.', 'Skipped times can be backfilled.',
    'rota schedules backfill --help', true),
(45, 'skipped_dst_gap', '{which} was skipped{times}: the clocks went forward, and it did not exist on that day.',
    'It runs at its next time; --gap run_after runs such a time after the gap.',
    'rota schedules update --gap run_after {of_tenant}{schedule}', true),
(45, 'skipped_job_deleted', '{which} was skipped{times}: no code declared job {job}.',
    'Skipped times can be backfilled.', 'rota schedules backfill --help', true),
(45, 'skipped_job_disabled', '{which} was skipped{times}: job {job} was disabled.',
    'Skipped times can be backfilled.', 'rota schedules backfill --help', true),
(45, 'skipped_limit', '{which} was skipped{times}: a limit was full.',
    'The next time runs if the limit has capacity by then; --on-full wait makes the limit hold runs instead.',
    'rota limits list', false),
(45, 'skipped_max_runs', '{which} was skipped{times}: the schedule had reached its maximum number of runs.',
    'It is finished unless the maximum is raised.', 'rota schedules update --max-runs none {of_tenant}{schedule}',
    true),
(45, 'skipped_overlap', '{which} was skipped{times}: the previous run had not ended.',
    'The next time runs if that run has ended by then; --overlap sets another policy.',
    'rota schedules update --overlap queue_one {of_tenant}{schedule}', true),
(45, 'skipped_paused', '{which} was skipped{times}: the schedule was paused.', 'Skipped times can be backfilled.',
    'rota schedules backfill --help', true),
(45, 'skipped_queue_full', '{which} was skipped{times}: its queue was full.',
    'The next time runs if the queue has room by then.', 'rota queues list', false),
(45, 'skipped_requirement', '{which} was skipped{times}: the schedule requires {unmet}, which had not succeeded.',
    'It runs at its next time if that has succeeded by then.', 'rota why {unmet_first}', true),
(45, 'skipped_shadow', '{which} was skipped{times}: it is a shadow schedule.',
    'A shadow schedule records its decisions and enqueues nothing.',
    'rota schedules update --no-is-shadow {of_tenant}{schedule}', true),
(45, 'superseded_edited', '{which} was superseded{times}: the schedule was edited.', 'It continues with its new times.',
    'rota schedules history {of_tenant}{schedule}', true),
(45, 'superseded_rescheduled', '{which} was superseded{times}: the schedule was rescheduled.',
    'The time that was set applies instead.', 'rota schedules history {of_tenant}{schedule}', true),
(46, 'not_run', '{which} was {decision}{times}: {reason}.', 'It continues with its next time.',
    'rota schedules history {of_tenant}{schedule}', true),
(47, 'run_open', 'Its run {run} has not ended: it is {state}.', 'Ask about that run to see what it waits for.',
    'rota why {run}', false),
(50, 'slots_busy', '{slots} busy with {jobs}; run {longest} of {longest_job} has taken the longest, {duration} so far.',
    'The next run starts when a slot becomes free; more workers or slots would help.', 'rota workers list', false),
(51, 'in_line', '{ahead} ahead of it in queue {queue}.', '{then}', 'rota queues show {queue}', false),
(52, 'next_in_line', 'It is next in queue {queue}.', 'The next worker with a free slot claims it.',
    'rota queues show {queue}', false),
(52, 'queue_full', 'Queue {queue} is full: {waiting}, and its cap is {max}.', '{then}', 'rota queues show {queue}',
    false),
(53, 'next_of_tenant', 'It is the next run of its tenant in queue {queue}, which {others}.',
    'Tenants take turns by weight: a worker with a free slot claims it within a few runs.', 'rota queues show {queue}',
    false),
(55, 'runs_wait', '{waiting}{oldest}.', '{then}', 'rota runs list --state queued {of}', false),
(56, 'runs_held',
    '{held} of them {are} held: by a limit, a paused tenant, an earlier run of the schedule, for isolation, or because '
    'no live worker knows the job or accepts the payload.',
    'Ask about one of these runs to see what holds it.', 'rota runs list --state queued {of}', false),
(57, 'jobs_disabled', '{waiting} {belong} to disabled jobs: {jobs}.',
    'They wait until their job is enabled, and delay no other run.', 'rota jobs enable {job}', false),
(58, 'jobs_unknown', '{waiting} {belong} to jobs that no live worker knows: {jobs}.',
    'Start a worker whose application declares them.', 'rota why --kind job {job}', false),
(60, 'worker_lost', 'Worker {worker} ({worker_name}) was lost during attempt {attempt}.',
    'The run was rescued, with {spent} of {allowed} used.', 'rota workers show {worker}', true),
(61, 'attempt_failed', 'Attempt {attempt} {ended}{error}', 'It is retried, with {spent} of {allowed} used so far.',
    'rota runs show {run}', true),
(62, 'job_failing', '{failures} of {attempts} failed in the last five minutes{error}',
    'Failed runs are retried while they have attempts left.', 'rota runs list --state failed --job {job}', false),
(62, 'schedule_failing', 'Its last {failures} failed{error}', '{then}',
    'rota runs list {of_tenant}--schedule {schedule} --state failed', true),
(63, 'schedule_ran', 'Its latest time ran: run {run} {ended}.', 'It continues with its next time.',
    'rota runs show {run}', true),
(63, 'started_late', 'It started {late} late{because}.', 'The cause of the delay is over.', NULL, true),
(70, 'holds_key', 'It holds key {key}: enqueueing job {job} with this key returns this run and creates no other.',
    '{then}', NULL, false),
(70, 'key_held', 'Its key {key} is held by run {other}, so it cannot be retried.',
    'Enqueueing with this key returns that run.', 'rota why {other}', false),
(79, 'rescheduled', 'Its next time was set by hand.',
    'It runs at the time that was set, then follows its timing again.',
    'rota schedules reschedule {of_tenant}{schedule} --at none', false),
(80, 'due', 'Its time has come.', 'The next tick of any worker processes it within seconds.', 'rota workers list', false),
(80, 'waits_for_next', 'Its next time has not come yet.', 'It runs at its next time.',
    'rota schedules trigger {of_tenant}{schedule}', false),
(80, 'waits_for_start', 'It runs when the application starts{which}.', 'The next such start enqueues a run.',
    'rota schedules trigger {of_tenant}{schedule}', false),
(90, 'event_filtered', 'Event {event}, the latest that it is bound to, did not match its filter.',
    'Compare the event with the filter; if you change the filter, a replay delivers the events that match.',
    'rota events show {event}', true),
(90, 'event_throttled', 'Event {event}, the latest that it is bound to, was throttled: run {run} covers its period.',
    'The first event of the next period starts a run.', 'rota events show {event}', true),
(90, 'runs_for_later', 'No run waits for a worker; {later} for {its} time.',
    'A scheduled run enters its queue when its time comes.', 'rota runs list --state scheduled {of}', false),
(91, 'at_work', 'No run waits for a worker; {running} running.', 'No action is needed.',
    'rota runs list --state running {of}', false),
(91, 'no_event', 'None of the last {looked} matched its bindings: {bound}.', 'The next matching event starts it.',
    'rota events bindings --job {job}', false),
(92, 'idle', 'It has no waiting or running runs.', 'New runs start at once, unless another reason is given.', NULL,
    false),
(93, 'schedules_off', '{some} disabled, paused or parked: {names}.', 'Ask about one of them to see why.',
    'rota why --kind schedule {schedule}', false),
(95, 'last_end', 'Its last run, {run}, {ended}.', 'Ask about that run for details.', 'rota why {run}', true);

-- What was found, before it is put into words. by_whom and the texts of facts are whatever people wrote.
CREATE TYPE rota.finding AS (code text, since timestamptz, until timestamptz, by_whom text, facts jsonb);

-- A number with commas, as in 12,345.
-- Called by: many.
CREATE FUNCTION rota.number_words(amount bigint) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT to_char(amount, 'FM999,999,999,999,999,999')
$$;

-- A number and its noun: 1 run, 12 runs.
-- Called by: many.
CREATE FUNCTION rota.plural_words(amount bigint, noun text) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT rota.number_words(amount) || ' ' || noun || CASE WHEN amount = 1 THEN '' ELSE 's' END
$$;

-- A duration: 84 ms, 4.2 s, 4 min 10 s, 2 h 14 min, 3 d 4 h.
-- Called by: why_busy, why_depths, why_ended_run, why_late, why_limit.
CREATE FUNCTION rota.duration_words(seconds double precision) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT CASE
        WHEN s < 1 THEN round((s * 1000)::numeric) || ' ms'
        WHEN s < 10 THEN trim_scale(round(s::numeric, 1)) || ' s'
        WHEN w < 60 THEN w || ' s'
        WHEN w < 3600 THEN w / 60 || ' min' || CASE WHEN w % 60 > 0 THEN ' ' || w % 60 || ' s' ELSE '' END
        WHEN w < 86400 THEN w / 3600 || ' h' || CASE WHEN w % 3600 >= 60 THEN ' ' || w % 3600 / 60 || ' min' ELSE '' END
        ELSE w / 86400 || ' d' || CASE WHEN w % 86400 >= 3600 THEN ' ' || w % 86400 / 3600 || ' h' ELSE '' END END
    FROM (SELECT greatest(seconds, 0) AS s, round(least(greatest(seconds, 0), 1e15))::bigint AS w) x
$$;

-- The seconds between two instants; NULL where one of them is none.
-- Called by: why_busy, why_depths, why_late.
CREATE FUNCTION rota.seconds_between(earlier timestamptz, later timestamptz) RETURNS double precision
LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT CASE WHEN isfinite(earlier) AND isfinite(later) THEN extract(epoch FROM later - earlier) END
$$;

-- A share with its verb: The only worker is, All 3 workers are, 1 of 3 workers is.
-- Called by: why_job, why_unfit.
CREATE FUNCTION rota.share_words(amount bigint, of_all bigint, noun text) RETURNS text LANGUAGE sql IMMUTABLE
SET jit = off AS $$
    SELECT CASE WHEN of_all = 1 THEN format('The only %s is', noun) WHEN amount = of_all
        THEN format('All %s are', rota.plural_words(of_all, noun))
                ELSE format('%s of %s %s', rota.number_words(amount), rota.plural_words(of_all, noun),
                    CASE amount WHEN 1 THEN 'is' ELSE 'are' END) END
$$;

-- The first line of what somebody wrote, not too long.
-- Called by: many.
CREATE FUNCTION rota.short_words(said text) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT CASE WHEN length(line) > 200 THEN left(line, 199) || '…' ELSE line END
    FROM (SELECT split_part(btrim(said, E' \t\r\n'), E'\n', 1) AS line) x
$$;

-- A name as one word of a shell.
-- Called by: fill_words.
CREATE FUNCTION rota.shell_word(word text) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT CASE WHEN word ~ '^[A-Za-z0-9_./:@%+=,-]+$' THEN word ELSE '''' || replace(word, '''', '''\''''') || '''' END
$$;

-- The actor: " by grace", or nothing.
-- Called by: why_job_off, why_late, why_queue_paused, why_running, why_schedule, why_tenant_paused, why_unfit.
CREATE FUNCTION rota.by_words(who text) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT coalesce(' by ' || nullif(rota.short_words(who), ''), '')
$$;

-- The reason: ": “the provider is down”", or nothing.
-- Called by: many.
CREATE FUNCTION rota.because_words(said text) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT coalesce(': “' || nullif(rota.short_words(said), '') || '”', '')
$$;

-- Puts facts into a sentence in one pass: what stands in a fact is not looked at again. In a command every fact is a
-- word of a shell, save {of} and {of_tenant}, which are options; a name that begins with a dash is none.
-- Called by: constraint_words, why.
CREATE FUNCTION rota.fill_words(template text, facts jsonb, is_command boolean DEFAULT false) RETURNS text
LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT string_agg(CASE
        WHEN p.n % 2 = 1 THEN p.piece
        WHEN NOT is_command OR p.piece IN ('of', 'of_tenant') THEN coalesce(facts ->> p.piece, '')
        WHEN facts ->> p.piece LIKE '-%' AND p.before !~ '--[a-z-]+ $' THEN '-- ' || rota.shell_word(facts ->> p.piece)
        ELSE rota.shell_word(facts ->> p.piece) END, '' ORDER BY p.n)
    FROM (SELECT w.piece, w.n, coalesce(lag(w.piece) OVER (ORDER BY w.n), '') AS before
          FROM regexp_split_to_table(template, '[{}]') WITH ORDINALITY AS w (piece, n)) p
$$;

-- Findings about one run, open or ended.
-- Called by: why_findings.
CREATE FUNCTION rota.why_run(of_run bigint) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET jit = off AS $$
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
    SELECT * INTO e FROM rota.ended_runs r WHERE r.id = of_run AND r.keep_class = place.keep_class
        AND r.finished_at = place.finished_at;
    IF e.id IS NULL THEN
        RAISE EXCEPTION 'there is no run %', of_run
            USING ERRCODE = 'RO004', DETAIL = jsonb_build_object('run', of_run);
    END IF;
    RETURN QUERY SELECT * FROM rota.why_ended_run(e);
END $$;

-- A run that waits or runs: everything that keeps it from ending, from its time to its place in the line.
-- Called by: why_run.
CREATE FUNCTION rota.why_open_run(o rota.open_runs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE
SET jit = off AS $$
DECLARE
    clock   timestamptz := rota.now();
    is_later boolean := o.state = 'scheduled' AND o.run_at > clock;
    last    record;
    burst   jsonb;
BEGIN
    IF o.expires_at <= clock AND NOT (o.state = 'running' AND o.started_at < o.expires_at) THEN
        RETURN NEXT ROW('run_expired', greatest(o.expires_at, o.created_at), NULL, NULL,
            jsonb_build_object('run', o.id))::rota.finding;
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
        IF is_later AND last.state IS NULL AND o.schedule_id IS NOT NULL THEN
            SELECT l.details -> 'burst' INTO burst FROM rota.ledger l
            WHERE l.schedule_id = o.schedule_id AND l.nominal_at = o.scheduled_for;
        END IF;
        RETURN NEXT ROW(CASE WHEN NOT is_later THEN 'not_promoted' WHEN burst IS NOT NULL THEN 'spread'
            WHEN last.state IS NULL AND o.triggered_by ? 'debounced' THEN 'debounced' WHEN last.state IS NULL
            THEN 'waits_for_time'
                             WHEN last.state = 'snoozed' THEN 'snoozed' ELSE 'waits_for_backoff' END,
            CASE WHEN is_later THEN coalesce(last.finished_at, o.created_at) ELSE o.run_at END,
            CASE WHEN is_later THEN o.run_at END, NULL,
            coalesce(last.facts, '{}') || jsonb_build_object('run', o.id, 'queue', o.queue, 'schedule', o.schedule,
            'job', o.job, 'events', CASE WHEN jsonb_typeof(o.triggered_by -> 'debounced') = 'number'
                THEN rota.plural_words((o.triggered_by ->> 'debounced')::numeric::bigint, 'event')
                ELSE 'its events' END, 'crowd', rota.number_words((burst ->> 'of')::bigint), 'number',
                rota.number_words((burst ->> 'place')::bigint), 'of_tenant', CASE WHEN burst IS NOT NULL
                THEN (SELECT '--tenant ' || rota.shell_word(s.tenant) || ' ' FROM rota.schedules s
                      WHERE s.id = o.schedule_id AND s.tenant <> '') END))::rota.finding;
        RETURN;
    ELSIF o.held_by IS NOT NULL OR o.state = 'blocked' THEN
        RETURN QUERY SELECT * FROM rota.why_held(o);
    ELSIF o.state = 'queued' THEN
        RETURN QUERY SELECT * FROM rota.why_refused(o) WHERE o.refused_by IS NOT NULL;
        RETURN QUERY SELECT * FROM rota.why_line(o);
    END IF;
    IF last.state IN ('failed', 'timed_out', 'lost') THEN
        RETURN NEXT ROW(CASE last.state WHEN 'lost' THEN 'worker_lost' ELSE 'attempt_failed' END, last.finished_at,
            NULL, NULL, last.facts)::rota.finding;
    END IF;
END $$;

-- A run that has ended: how, and why it stays so.
-- Called by: why_run.
CREATE FUNCTION rota.why_ended_run(e rota.ended_runs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE
SET jit = off AS $$
DECLARE
    code text := CASE
        WHEN e.state = 'succeeded' THEN 'run_succeeded'
        WHEN e.end_reason = 'expired' THEN 'run_expired'
        WHEN e.state = 'cancelled' AND e.end_reason = 'queue full' THEN 'run_dropped'
        WHEN e.state = 'cancelled' THEN 'run_cancelled'
        WHEN e.end_reason = 'attempts used up' THEN 'attempts_used_up'
        WHEN e.end_reason LIKE 'gave up on %' THEN 'gave_up'
        WHEN e.end_reason = 'unknown job' THEN 'job_never_known'
        ELSE 'run_failed' END;
    ask record;
    -- It cannot be retried.
    is_stuck boolean := NOT EXISTS (SELECT FROM rota.jobs j WHERE j.name = rota.present_name(e.job))
        OR (e.key IS NOT NULL
        AND EXISTS (SELECT FROM rota.why_key(e.id, e.tenant, rota.present_name(e.job), e.key, true) k
                    WHERE k.code = 'key_held'));
BEGIN
    SELECT * INTO ask FROM rota.last_audit('run', e.id::text, e.tenant, '{run.cancelled}') WHERE code = 'run_cancelled';
    RETURN NEXT ROW(code, e.finished_at, NULL, ask.actor,
        jsonb_build_object('is_stuck', is_stuck, 'run', e.id, 'queue', e.queue, 'job', e.job, 'attempt', e.attempt,
        'took', coalesce(' in ' || rota.duration_words(e.duration_ms / 1000), ''),
        'used', CASE e.attempts_used WHEN 1 THEN 'Its only attempt is used up.'
            ELSE format('All %s are used up.', rota.plural_words(e.attempts_used, 'attempt')) END,
        'error_type', coalesce(e.error_type, 'an error'),
        'end', CASE WHEN code = 'run_cancelled' AND e.end_reason LIKE 'its %' THEN 'cancelled, because ' ELSE '' END
            || rota.short_words(coalesce(e.end_reason, e.state)),
        'error', CASE WHEN e.error IS NULL THEN '.'
            ELSE rota.because_words(concat_ws(': ', e.error_type, e.error)) || '.' END))::rota.finding;
    RETURN QUERY SELECT * FROM rota.why_late(e.id, e.queue, e.job, e.attempt, e.run_at, e.started_at);
    RETURN QUERY SELECT * FROM rota.why_key(e.id, e.tenant, rota.present_name(e.job), e.key, true)
        WHERE e.key IS NOT NULL;
END $$;

-- A run that a worker has: whether that worker is heard from, whether somebody asked it to stop, how the run runs.
-- Called by: why_open_run.
CREATE FUNCTION rota.why_running(o rota.open_runs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE
SET jit = off AS $$
DECLARE
    host   rota.workers := (SELECT w FROM rota.workers w WHERE w.id = o.worker);
    ask    record;
    facts  jsonb;
    is_silent boolean := host.id IS NULL OR host.state NOT IN ('live', 'stopping')
        OR host.lease_expires_at <= clock_timestamp();
BEGIN
    facts := jsonb_build_object('run', o.id, 'job', o.job, 'worker', o.worker, 'worker_name',
        coalesce(rota.short_words(host.name), 'unknown'), 'attempt', o.attempt, 'spent', o.attempts_used + 1, 'allowed',
        rota.plural_words(o.max_attempts, 'attempt'), 'where', CASE WHEN host.is_isolating_inline
            THEN 'alone in the worker''s process' ELSE 'in a separate process' END,
        'then', CASE WHEN o.attempts_used + 1 >= o.max_attempts
            THEN 'This is the last attempt: if it fails, the run becomes a dead letter.'
            ELSE format('If this attempt fails, the run is retried, with %s of %s left.',
                o.max_attempts - o.attempts_used - 1, rota.plural_words(o.max_attempts, 'attempt')) END
                || CASE WHEN o.timeout_seconds IS NULL THEN '' ELSE ' It times out at the time shown.' END);
    FOR ask IN SELECT c.* FROM rota.cancel_requests c WHERE c.run_id = o.id AND c.attempt = o.attempt LOOP
        RETURN NEXT ROW('cancel_requested', ask.requested_at, NULL, ask.requested_by,
            facts || jsonb_build_object('by', rota.by_words(ask.requested_by), 'because',
                rota.because_words(ask.reason)))::rota.finding;
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

-- What became of the attempt before.
-- Called by: why_open_run.
CREATE FUNCTION rota.why_last_attempt(o rota.open_runs)
RETURNS TABLE (state text, attempt integer, worker bigint, name text, finished_at timestamptz, facts jsonb)
LANGUAGE sql STABLE SET enable_seqscan = off SET jit = off AS $$
    SELECT p.state, p.attempt, p.worker, coalesce(rota.short_words(w.name), 'unknown'), p.finished_at,
        jsonb_build_object(
               'run', o.id, 'queue', o.queue, 'attempt', p.attempt, 'worker', p.worker, 'worker_name',
               coalesce(rota.short_words(w.name), 'unknown'), 'spent', o.attempts_used, 'allowed',
               rota.plural_words(o.max_attempts, 'attempt'), 'ended', CASE p.state WHEN 'timed_out' THEN 'timed out'
                   WHEN 'lost' THEN 'was lost with its worker' WHEN 'cancelled' THEN 'was interrupted' ELSE p.state END,
               'error', CASE WHEN p.error IS NULL THEN '.'
                   ELSE rota.because_words(concat_ws(': ', p.error_type, p.error)) || '.' END)
    FROM rota.past_attempts p LEFT JOIN rota.workers w ON w.id = p.worker
    WHERE p.run_id = o.id AND o.attempt > 0
    ORDER BY p.attempt DESC LIMIT 1
$$;

-- Whether a first attempt began more than a minute after its time, and what the audit knows of the time between.
-- Called by: why_ended_run, why_open_run.
CREATE FUNCTION rota.why_late(of_run bigint, of_queue text, of_job text, of_attempt integer, due timestamptz,
    began timestamptz)
RETURNS SETOF rota.finding LANGUAGE sql STABLE SET enable_seqscan = off SET jit = off AS $$
    WITH told AS MATERIALIZED (
        (SELECT a.* FROM rota.audit a WHERE a.object_type = 'queue' AND a.object_id = of_queue ORDER BY a.id DESC
            LIMIT 200)
        UNION ALL
        (SELECT a.* FROM rota.audit a WHERE a.object_type = 'job' AND a.object_id = of_job ORDER BY a.id DESC LIMIT 200)
    ), stops AS (
        SELECT s.*, rota.seconds_between(greatest(due, s.at),
            least(began, lead(s.at, 1, began) OVER (PARTITION BY s.object_type ORDER BY s.id))) AS lasted
        FROM told s WHERE s.action IN ('queue.paused', 'queue.resumed', 'job.disabled', 'job.enabled')
    )
    SELECT 'started_late', began, NULL::timestamptz, w.actor,
        jsonb_build_object('run', of_run, 'queue', of_queue, 'job', of_job,
               'late', rota.duration_words(rota.seconds_between(due, began)),
               'because', CASE WHEN w.id IS NULL THEN ''
                   ELSE format('; %s%s for %s of that time%s',
                   CASE w.action WHEN 'queue.paused' THEN format('queue %s was paused', of_queue)
                   ELSE format('job %s was disabled', of_job) END,
                   rota.by_words(w.actor), rota.duration_words(w.lasted), rota.because_words(w.reason)) END)
    FROM (SELECT 1) one LEFT JOIN LATERAL (
        SELECT * FROM stops s WHERE s.action IN ('queue.paused', 'job.disabled') AND s.lasted > 1 ORDER BY s.lasted DESC
        LIMIT 1) w ON true
    WHERE of_attempt = 1 AND rota.seconds_between(due, began) > 60
$$;

-- What the run itself waits for: a pause of its tenant, isolation, the run before it, a limit, a worker that knows
-- its job.
-- Called by: why_open_run.
CREATE FUNCTION rota.why_held(o rota.open_runs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    facts jsonb := jsonb_build_object('run', o.id, 'queue', o.queue, 'schedule', o.schedule, 'held_by', o.held_by);
    busy  record;
    other bigint;
BEGIN
    IF o.state = 'blocked' THEN
        RETURN NEXT ROW('blocked', o.created_at, NULL, NULL, facts)::rota.finding;
    ELSIF o.held_by = 'suspect' THEN
        SELECT w.id, w.name, w.isolating_run INTO busy FROM rota.workers w
        WHERE w.state IN ('live', 'stopping') AND w.isolating_run IS NOT NULL AND rota.isolating_of(w) IS NOT NULL
        ORDER BY w.id LIMIT 1;
        RETURN NEXT ROW('suspect', o.enqueued_at, NULL, NULL, facts || jsonb_build_object('then',
            CASE WHEN busy.id IS NULL THEN 'A live worker claims it within seconds and runs it beside its normal work.'
                 ELSE format('Each worker isolates one run at a time; worker %s (%s) is isolating run %s.', busy.id,
                     rota.short_words(busy.name), busy.isolating_run) END))::rota.finding;
    ELSIF o.held_by = 'payload' THEN
        RETURN QUERY SELECT * FROM rota.why_refused(o);
    ELSIF o.held_by = 'limit' THEN
        RETURN QUERY SELECT * FROM rota.why_limit(o);
    ELSIF o.held_by = 'overlap' THEN
        SELECT min(r.id) INTO other FROM (SELECT * FROM rota.open_runs w WHERE w.schedule_id = o.schedule_id
            LIMIT 1000) r
        WHERE r.held_by IS DISTINCT FROM 'overlap';
        RETURN NEXT ROW('overlap', o.created_at, NULL, NULL,
            facts || jsonb_build_object('other', coalesce(other, o.id)))::rota.finding;
    ELSIF o.held_by = 'tenant' AND EXISTS (SELECT FROM rota.tenants t
        WHERE t.name = o.tenant AND rota.tenant_is_paused(t)) THEN
        RETURN;  -- said of the tenant
    ELSIF o.held_by = 'no_worker' AND NOT EXISTS (SELECT FROM rota.why_fleet(NULL, o.job) f WHERE f.knows) THEN
        RETURN;  -- said of the workers
    ELSE
        RETURN NEXT ROW('held', o.held_at, NULL, NULL, facts || jsonb_build_object('held_by',
            CASE o.held_by WHEN 'no_worker' THEN 'no worker knew its job until a moment ago'
                WHEN 'tenant' THEN format('tenant %s was paused until a moment ago', rota.short_words(o.tenant))
                    ELSE o.held_by END))::rota.finding;
    END IF;
END $$;

-- Who has refused the payload of a run, and whether somebody is left who may take it.
-- Called by: why_held, why_open_run.
CREATE FUNCTION rota.why_refused(o rota.open_runs) RETURNS SETOF rota.finding LANGUAGE sql STABLE SET jit = off AS $$
    SELECT CASE WHEN rota.has_taker(o.job, o.queue, o.refused_by) THEN 'payload_passed_on' ELSE 'payload_refused' END,
        coalesce(o.held_at, (SELECT min(r.refused_at) FROM rota.refusals r WHERE r.run_id = o.id)), NULL::timestamptz,
        NULL::text, jsonb_build_object('run', o.id, 'error', rota.short_words(coalesce(rota.refusal_words(o.id),
            'payload refused')))
$$;

-- What an idempotency key of a run means now.
-- Called by: why_ended_run, why_open_run.
CREATE FUNCTION rota.why_key(of_run bigint, of_tenant text, of_job text, of_key text, is_ended boolean)
RETURNS SETOF rota.finding LANGUAGE sql STABLE SET jit = off AS $$
    SELECT CASE WHEN k.run_id = of_run THEN 'holds_key' ELSE 'key_held' END, NULL::timestamptz,
           nullif(k.expires_at, 'infinity'), NULL,
           jsonb_build_object('run', of_run, 'job', of_job, 'key', rota.short_words(of_key), 'other', k.run_id,
               'then', CASE WHEN NOT is_ended
                   THEN 'The key becomes free when the run ends, or later if it was enqueued with a time to keep it.'
                            WHEN k.expires_at = 'infinity' THEN 'The key is kept for ever.'
                                ELSE 'The key becomes free at the time shown.' END)
    FROM (SELECT h.tenant, h.job, h.key, h.run_id, coalesce(h.expires_at, (SELECT r.expires_at FROM rota.key_releases r
        WHERE r.run_id = h.run_id)) AS expires_at FROM rota.keys h) k
    WHERE k.tenant = of_tenant AND k.job = of_job AND k.key = of_key
      AND (k.expires_at IS NULL OR k.expires_at > rota.now())
      AND (k.run_id = of_run OR is_ended)
$$;

-- The limit that a run waits for: what is in use, by whom, and who waits before it.
-- Called by: why_held.
CREATE FUNCTION rota.why_limit(o rota.open_runs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    l      rota.limits := rota.limit_of(o.limit_key);
    s      rota.limit_slots;
    held   integer;
    facts  jsonb;
    ahead  bigint := rota.limit_line(o, l.kind = 'sequence');
    line   text := CASE WHEN ahead = 0 THEN 'No run waits' WHEN ahead = 1 THEN '1 run waits'
        ELSE CASE WHEN ahead >= 999 THEN 'At least ' ELSE '' END || rota.plural_words(ahead, 'run') || ' wait' END;
    other  bigint[];
    value  text := substr(o.limit_key, strpos(o.limit_key, ':') + 1);
BEGIN
    facts := jsonb_build_object('run', o.id, 'limit', coalesce(l.name, '(deleted)'), 'key',
        CASE WHEN value <> '' THEN ' for ' || rota.short_words(value) ELSE '' END,
        'cap', coalesce(l.cap, 0), 'of_tenant', CASE WHEN l.tenant <> ''
            THEN '--tenant ' || rota.shell_word(l.tenant) || ' ' ELSE '' END);
    SELECT * INTO s FROM rota.limit_slots u WHERE u.tenant = l.tenant AND u.key = o.limit_key;
    held := greatest(coalesce(s.in_use, 0) - coalesce((SELECT sum(r.amount) FROM rota.limit_releases r
        WHERE r.key = o.limit_key), 0), 0);
    other := ARRAY(SELECT h.id FROM rota.open_runs h WHERE h.slots IS NOT NULL AND h.slots @> ARRAY[o.limit_key]
        ORDER BY h.id LIMIT 4);
    IF s.blocked_by IS NOT NULL AND s.blocked_by <> o.id THEN
        RETURN NEXT ROW('limit_blocked', o.enqueued_at, NULL, NULL,
            facts || jsonb_build_object('other', s.blocked_by))::rota.finding;
    ELSIF l.kind = 'sequence' AND (held > 0 OR ahead > 0) THEN
        RETURN NEXT ROW('limit_turn', o.enqueued_at, NULL, NULL, facts || jsonb_build_object('other', other[1],
            'before', CASE WHEN other[1] IS NULL THEN 'no run has the turn now'
                ELSE format('run %s has the turn now', other[1]) END,
            'then', line || ' ahead of it; runs take turns by age.'))::rota.finding;
    ELSIF l.kind = 'rate' AND (s.wait_until > rota.now() OR l.cap = 0) THEN
        RETURN NEXT ROW('limit_rate', o.enqueued_at, CASE WHEN s.wait_until < 'infinity' THEN s.wait_until END, NULL,
            facts || jsonb_build_object(
            'period', rota.duration_words(l.period_seconds), 'then',
            line || ' ahead of it.'))::rota.finding;
    ELSIF l.kind = 'concurrency' AND held >= l.cap THEN
        RETURN NEXT ROW('limit_full', o.enqueued_at, NULL, NULL,
            facts || jsonb_build_object('in_use', held, 'holders', CASE
            WHEN other = '{}' THEN '' WHEN cardinality(other) = 1 THEN format(', by run %s', other[1])
            ELSE format(', by runs %s', array_to_string(other[1:3], ', ')) || CASE WHEN held > 3 THEN ' and others'
            ELSE '' END END, 'then', CASE WHEN l.cap = 0 THEN 'No run starts under this limit until its cap is above 0.'
                ELSE line || ' ahead of it for the next free slot.' END))::rota.finding;
    ELSE
        RETURN NEXT ROW('limit_room', o.enqueued_at, NULL, NULL, facts)::rota.finding;
    END IF;
END $$;

-- How many wait before a run for the same counter, up to a thousand.
-- Called by: why_limit.
CREATE FUNCTION rota.limit_line(o rota.open_runs, is_by_age boolean) RETURNS bigint LANGUAGE sql STABLE
SET enable_seqscan = off SET jit = off AS $$
    SELECT count(*) FROM (SELECT w.priority, w.seq FROM rota.open_runs w
        WHERE w.held_by = 'limit' AND w.limit_key = o.limit_key
                          ORDER BY w.priority, w.seq LIMIT 1000) b
    WHERE CASE WHEN is_by_age THEN b.seq < o.seq ELSE (b.priority, b.seq) < (o.priority, o.seq) END
$$;

-- Whether a job is disabled, or no code declares it any more.
-- Called by: why_job, why_open_run, why_schedule.
CREATE FUNCTION rota.why_job_off(of_job text) RETURNS SETOF rota.finding LANGUAGE sql STABLE SET jit = off AS $$
    SELECT 'job_deleted', j.deleted_from_code_at, NULL::timestamptz, NULL, jsonb_build_object('job', j.name)
    FROM rota.jobs j WHERE j.name = of_job AND j.deleted_from_code_at IS NOT NULL
    UNION ALL
    SELECT 'job_disabled', coalesce(a.at, j.updated_at), NULL, a.actor,
           jsonb_build_object('job', j.name, 'by', rota.by_words(a.actor), 'because', rota.because_words(a.reason))
    FROM rota.jobs j LEFT JOIN LATERAL rota.last_audit('job', j.name, '', '{job.disabled}') a ON true
    WHERE j.name = of_job AND NOT j.is_enabled
$$;

-- Whether a queue is paused, by whom, and until when.
-- Called by: why_job, why_open_run, why_queue, why_schedule.
CREATE FUNCTION rota.why_queue_paused(of_queue text) RETURNS SETOF rota.finding LANGUAGE sql STABLE SET jit = off AS $$
    SELECT 'queue_paused', q.paused_at, q.paused_until, q.paused_by,
           jsonb_build_object('queue', q.name, 'by', rota.by_words(q.paused_by), 'because',
               rota.because_words(q.pause_reason), 'then', CASE WHEN q.paused_until IS NULL
                   THEN 'No run of the queue starts until somebody resumes it; running attempts continue.'
                            ELSE 'The queue resumes automatically when the pause ends; running attempts continue.' END)
    FROM rota.queues q WHERE q.name = of_queue AND rota.queue_is_paused(q)
$$;

-- Whether a queue is full, and what that does to what comes.
-- Called by: why_queue, why_schedule.
CREATE FUNCTION rota.why_queue_full(of_queue text) RETURNS SETOF rota.finding LANGUAGE sql STABLE SET jit = off AS $$
    SELECT 'queue_full', c.full_since, NULL::timestamptz, NULL,
        jsonb_build_object('queue', q.name, 'max', rota.number_words(q.max_waiting),
        'waiting', CASE c.waiting WHEN 1 THEN '1 run waits' ELSE rota.plural_words(c.waiting, 'run') || ' wait' END,
        'then', CASE q.when_full WHEN 'refuse'
            THEN 'New runs are refused, and times of schedules are skipped, until waiting runs start.'
                                 ELSE 'When more runs arrive, waiting runs with the lowest priority are dropped.' END)
    FROM rota.queues q JOIN rota.queue_caps c ON c.queue = q.name WHERE q.name = of_queue AND q.max_waiting IS NOT NULL
        AND c.full_since IS NOT NULL
$$;

-- Whether a tenant is paused, by whom, and until when.
-- Called by: why_open_run, why_schedule.
CREATE FUNCTION rota.why_tenant_paused(of_tenant text) RETURNS SETOF rota.finding LANGUAGE sql STABLE
SET jit = off AS $$
    SELECT 'tenant_paused', t.paused_at, t.paused_until, t.paused_by,
           jsonb_build_object('tenant', t.name, 'by', rota.by_words(t.paused_by), 'because',
               rota.because_words(t.pause_reason), 'then', CASE WHEN t.paused_until IS NULL
                   THEN 'Its runs are held until somebody resumes it; running attempts continue.'
                            ELSE 'Its runs are held; it resumes automatically when the pause ends.' END)
    FROM rota.tenants t WHERE t.name = of_tenant AND rota.tenant_is_paused(t)
$$;

-- Whether all slots of the workers that could are taken, since when and by what.
-- Called by: why_workers.
CREATE FUNCTION rota.why_busy(of_queue text, of_job text) RETURNS SETOF rota.finding LANGUAGE sql STABLE
SET jit = off AS $$
    WITH fit AS MATERIALIZED (
        SELECT f.* FROM rota.why_fleet(of_queue, of_job) f WHERE f.serves AND f.knows AND f.trouble IS NULL
            AND f.drained_at IS NULL
    ), held AS MATERIALIZED (
        SELECT r.id, r.job, r.worker, r.started_at FROM rota.running_runs() r WHERE r.worker IN (SELECT id FROM fit)
    ), loads AS (
        SELECT count(*) AS workers, sum(f.concurrency)::bigint AS slots,
            count(*) FILTER (WHERE coalesce(h.runs, 0) < f.concurrency) AS free
        FROM fit f LEFT JOIN (SELECT worker, count(*) AS runs FROM held GROUP BY worker) h ON h.worker = f.id
    ), by_job AS (
        SELECT string_agg(CASE WHEN n <= 3 THEN job || CASE WHEN runs > 1 THEN ' (' || rota.number_words(runs) || ')'
            ELSE '' END
                               WHEN n = 4 THEN 'others' END, ', ' ORDER BY n) AS jobs
        FROM (SELECT job, count(*) AS runs, row_number() OVER (ORDER BY count(*) DESC, job) AS n FROM held
            GROUP BY job) j
    )
    SELECT 'slots_busy', (SELECT max(h.started_at) FROM held h), NULL::timestamptz, NULL, jsonb_build_object(
               'slots', CASE l.slots WHEN 1 THEN 'The only slot of 1 worker is'
                   ELSE format('All %s of %s are', rota.plural_words(l.slots, 'slot'),
                       rota.plural_words(l.workers, 'worker')) END,
               'jobs', b.jobs, 'longest', o.id, 'longest_job', o.job,
               'duration', rota.duration_words(rota.seconds_between(o.started_at, rota.now())))
    FROM loads l CROSS JOIN by_job b CROSS JOIN (SELECT * FROM held ORDER BY started_at, id LIMIT 1) o
    WHERE l.free = 0
$$;

-- The place of a run in its line, which is that of its tenant: exact up to ten thousand, which is as far as anybody
-- looks. Others who have work in the queue take turns with it, so its pace is its share of the queue's.
-- Called by: why_open_run.
CREATE FUNCTION rota.why_line(o rota.open_runs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    most constant integer := 10000;
    idle   text[] := ARRAY(SELECT j.name FROM rota.jobs j WHERE NOT j.is_enabled);
    line   record;
    others record;
    pace   double precision;
BEGIN
    SELECT count(*) FILTER (WHERE a.worker IS NULL AND a.job <> ALL (idle)) AS ahead,
        count(*) > most AS is_long INTO line
    FROM (SELECT b.worker, b.job FROM rota.open_runs b
          WHERE b.is_ready AND b.queue = o.queue AND b.tenant = o.tenant AND (b.priority, b.seq) < (o.priority, o.seq)
          ORDER BY b.priority, b.seq LIMIT most + 1) a;
    SELECT count(*) AS tenants, rota.tenant_weight(o.tenant) /
        (rota.tenant_weight(o.tenant) + coalesce(sum(rota.tenant_weight(t.tenant)), 0)) AS share
    INTO others FROM rota.lane_tenants(o.queue) AS t (tenant) WHERE t.tenant <> o.tenant;
    IF line.ahead = 0 AND NOT line.is_long THEN
        RETURN NEXT ROW(CASE WHEN others.tenants > 0 THEN 'next_of_tenant' ELSE 'next_in_line' END, o.enqueued_at, NULL,
            NULL, jsonb_build_object('queue', o.queue, 'others', format('%s too',
                CASE others.tenants WHEN 1 THEN '1 other tenant uses'
                    ELSE rota.plural_words(others.tenants, 'other tenant') || ' use' END)))::rota.finding;
        RETURN;
    END IF;
    pace := CASE WHEN NOT line.is_long THEN rota.pace_of(o.queue) * others.share END;
    RETURN NEXT ROW('in_line', o.enqueued_at, rota.now() + make_interval(secs => line.ahead / pace), NULL,
        jsonb_build_object('queue', o.queue, 'ahead',
            CASE WHEN line.is_long THEN 'At least ' || rota.plural_words(line.ahead, 'run') || ' wait'
            WHEN line.ahead = 1 THEN '1 run waits'
                      ELSE rota.plural_words(line.ahead, 'run') || ' wait' END,
        'place', line.ahead + 1, 'is_exact', NOT line.is_long,
        'then', CASE WHEN others.tenants > 0 THEN format('Its tenant takes turns with %s, by weight. ',
            rota.plural_words(others.tenants, 'other tenant')) ELSE '' END ||
                CASE WHEN line.is_long
                         THEN 'Runs start by priority, then by age; the queue is too long for an estimate.'
                     WHEN pace IS NULL THEN 'Runs start by priority, then by age; there is no estimate, because no '
                         'attempt in the queue has ended in the last ten minutes.'
                     ELSE format('At the recent rate of %s per minute, it starts at about the time shown.',
                         trim_scale(round((pace * 60)::numeric, CASE WHEN pace < 1 THEN 1 ELSE 0 END)))
                         END))::rota.finding;
END $$;

-- Attempts that end in a queue, a second, over the last ten minutes; NULL: none did.
-- Called by: why_depths, why_line.
CREATE FUNCTION rota.pace_of(of_queue text) RETURNS double precision LANGUAGE sql STABLE SET jit = off AS $$
    SELECT sum(m.attempts)::double precision / greatest(extract(epoch FROM rota.now() - min(m.minute)), 30)
    FROM rota.rollup_minutes m
    WHERE m.minute >= date_trunc('minute', rota.now()) - interval '10 minutes' AND m.queue = of_queue
      AND m.outcome <> 'snoozed'
$$;

-- Why no worker claims a run of the job from the queue. is_later: its time has not come, so only reasons that will
-- still apply then. If all suitable workers are asleep, that is the reason; they wake up for runs that are due later.
-- Called by: why_job, why_open_run, why_queue, why_running, why_schedule.
CREATE FUNCTION rota.why_workers(of_queue text, of_job text, is_later boolean DEFAULT false) RETURNS SETOF rota.finding
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
        SELECT 'no_worker', l.at, NULL::timestamptz, NULL,
            jsonb_build_object('last', CASE WHEN l.id IS NULL THEN ''
            ELSE format(': the last one, worker %s (%s), %s', l.id, rota.short_words(l.name),
                   CASE l.state WHEN 'gone' THEN 'was stopped' WHEN 'stopping' THEN 'is stopping' ELSE 'was lost' END)
                       END)
        FROM (SELECT 1) one LEFT JOIN LATERAL (
            SELECT w.*, coalesce(w.ended_at, w.lease_expires_at) AS at FROM rota.workers w
            ORDER BY coalesce(w.ended_at, w.lease_expires_at) DESC LIMIT 1) l ON true;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT 'queue_unserved', NULL::timestamptz, NULL::timestamptz, NULL, jsonb_build_object('queue', of_queue,
               'workers', CASE fleet.live WHEN 1 THEN 'only live worker'
                   ELSE rota.plural_words(fleet.live, 'live worker') END, 's', CASE fleet.live WHEN 1 THEN 's'
               ELSE '' END, 'queues', (SELECT string_agg(DISTINCT q, ', ')
                   FROM rota.why_fleet(of_queue, of_job) f, unnest(f.queues) q WHERE q <> 'rota' || '.system'))
    WHERE fleet.serving = 0
    UNION ALL
    SELECT 'job_unknown', NULL, NULL, NULL, jsonb_build_object('job', of_job, 'workers',
        CASE fleet.live WHEN 1 THEN 'only live worker runs'
            ELSE rota.plural_words(fleet.live, 'live worker') || ' run' END)
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

-- The workers that could take a run of the job from the queue if they did not sleep.
-- Called by: why_schedule, why_workers.
CREATE FUNCTION rota.why_asleep(of_queue text, of_job text) RETURNS SETOF rota.finding LANGUAGE sql STABLE
SET jit = off AS $$
    SELECT 'workers_asleep', min(a.ended_at), min(a.asleep_until), NULL, jsonb_build_object(
               'pid', (array_agg(a.pid ORDER BY a.n))[1], 'host', (array_agg(rota.short_words(a.host) ORDER BY a.n))[1],
               'workers', string_agg(CASE WHEN a.n <= 3 THEN format('%s (%s)', a.id, rota.short_words(a.name))
                   WHEN a.n = 4 THEN 'others' END, ', ' ORDER BY a.n))
    FROM (SELECT w.*, row_number() OVER (ORDER BY w.asleep_until, w.id) AS n FROM rota.workers w
          WHERE rota.is_asleep(w) AND (of_queue IS NULL OR w.queues = '{}' OR of_queue = ANY (w.queues))
            AND (of_job IS NULL OR of_job = ANY (w.jobs))) a
    HAVING count(*) > 0
$$;

-- Workers that could take it, but fail or drain.
-- Called by: why_workers.
CREATE FUNCTION rota.why_unfit(of_queue text, of_job text) RETURNS SETOF rota.finding LANGUAGE sql STABLE
SET jit = off AS $$
    WITH able AS MATERIALIZED (
        SELECT f.*, count(*) OVER () AS of_all FROM rota.why_fleet(of_queue, of_job) f WHERE f.serves AND f.knows
    )
    SELECT 'workers_failing', NULL::timestamptz, NULL::timestamptz, NULL, jsonb_build_object(
               'worker', min(a.id), 'some', rota.share_words(count(*), max(a.of_all), 'worker'),
               'troubles', string_agg(format('worker %s (%s), %s', a.id, rota.short_words(a.name),
                   rota.short_words(a.trouble)), '; ' ORDER BY a.id) FILTER (WHERE a.n <= 3))
    FROM (SELECT *, row_number() OVER (ORDER BY id) AS n FROM able WHERE trouble IS NOT NULL) a HAVING count(*) > 0
    UNION ALL
    SELECT 'workers_draining', min(a.drained_at), NULL, min(a.drained_by), jsonb_build_object(
               'worker', min(a.id), 'some', rota.share_words(count(*), max(a.of_all), 'worker'),
               'by', coalesce(', as requested' || nullif(rota.by_words(min(a.drained_by)), ''), ''),
               'because', rota.because_words(min(a.drain_reason)))
    FROM able a WHERE a.drained_at IS NOT NULL AND a.trouble IS NULL HAVING count(*) > 0
$$;

-- The live workers, and which of them could take a run of the job from the queue; NULL: any job, any queue.
-- Called by: why_busy, why_held, why_schedule, why_unfit, why_workers.
CREATE FUNCTION rota.why_fleet(of_queue text, of_job text) RETURNS TABLE (
    id bigint, name text, queues text[], concurrency integer, serves boolean, knows boolean, trouble text,
    drained_at timestamptz, drained_by text, drain_reason text
) LANGUAGE sql STABLE SET jit = off AS $$
    SELECT w.id, w.name, w.queues, w.concurrency, of_queue IS NULL OR w.queues = '{}' OR of_queue = ANY (w.queues),
        of_job IS NULL OR of_job = ANY (w.jobs),
           CASE WHEN w.is_stuck THEN coalesce(w.trouble, 'its event loop is blocked') ELSE w.trouble END,
           w.drain_requested_at, w.drain_requested_by, w.drain_reason
    FROM rota.workers w WHERE w.state = 'live' AND w.lease_expires_at > clock_timestamp()
$$;

-- Findings about a job: its events, what keeps its runs from starting, what waits, what fails.
-- Called by: why_findings.
CREATE FUNCTION rota.why_job(j rota.jobs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    bad  record;
    off  record;
BEGIN
    RETURN QUERY SELECT * FROM rota.why_events(j);
    RETURN QUERY SELECT * FROM rota.why_job_off(j.name);
    RETURN QUERY SELECT * FROM rota.why_queue_paused(j.queue);
    RETURN QUERY SELECT * FROM rota.why_workers(j.queue, j.name);
    RETURN QUERY SELECT * FROM rota.why_depths(ARRAY(SELECT d FROM rota.kept_depths() d WHERE d.job = j.name), NULL,
        j.name, j.queue);
    SELECT sum(m.attempts) FILTER (WHERE m.outcome IN ('failed', 'timed_out', 'lost'))::bigint AS failures,
        sum(m.attempts)::bigint AS attempts INTO bad
    FROM rota.rollup_minutes m WHERE m.job = j.name
        AND m.minute >= date_trunc('minute', rota.now() - interval '5 minutes');
    RETURN QUERY
    SELECT 'job_failing', NULL::timestamptz, NULL::timestamptz, NULL,
        jsonb_build_object('job', j.name, 'failures', rota.number_words(bad.failures),
               'attempts', rota.plural_words(bad.attempts, 'attempt'), 'error',
               coalesce(rota.because_words(w.last_error), '') || '.')
    FROM (SELECT 1) one LEFT JOIN LATERAL (SELECT e.last_error FROM rota.waiting_errors(500) e
        WHERE e.job = j.name LIMIT 1) w ON true WHERE bad.failures > 0;
    SELECT count(*) FILTER (WHERE x.is_off) AS off, count(*) AS schedules, min(x.name) FILTER (WHERE x.is_off) AS first,
           string_agg(x.name, ', ' ORDER BY x.name) FILTER (WHERE x.is_off AND x.n <= 3) AS names INTO off
    FROM (SELECT s.name, s.is_off, row_number() OVER (PARTITION BY s.is_off ORDER BY s.name) AS n FROM (
              SELECT t.name, NOT t.is_enabled OR st.parked_at IS NOT NULL
                  OR coalesce(t.paused_until > rota.now(), t.paused_at IS NOT NULL) AS is_off
              FROM rota.schedules t JOIN rota.schedule_state st ON st.schedule_id = t.id
              WHERE t.job = j.name AND st.finished_at IS NULL) s) x;
    RETURN QUERY SELECT 'schedules_off', NULL::timestamptz, NULL::timestamptz, NULL,
        jsonb_build_object('schedule', off.first, 'some', rota.share_words(off.off, off.schedules, 'schedule'),
        'names', off.names || CASE WHEN off.off > 3 THEN ' …' ELSE '' END) WHERE off.off > 0;
    RETURN QUERY
    SELECT 'last_end', e.finished_at, NULL::timestamptz, NULL, jsonb_build_object('run', e.id,
               'ended', CASE e.state WHEN 'cancelled' THEN 'was cancelled'
                   WHEN 'failed' THEN 'failed' || rota.because_words(concat_ws(': ', e.error_type, e.error))
                   ELSE e.state END)
    FROM (SELECT r.* FROM rota.ended_runs r WHERE r.job = j.name AND r.finished_at > rota.now() - interval '35 days'
        ORDER BY r.finished_at DESC LIMIT 1) e;
END $$;

-- Why a job that is bound to events did not start: none came, or its filters let the last one pass by. Only the
-- newest events are looked at, so that it costs the same however many are kept.
-- Called by: why_job.
CREATE FUNCTION rota.why_events(j rota.jobs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    most constant integer := 500;
    mine constant jsonb := jsonb_build_object('job', j.name);
    last record;
BEGIN
    IF j.events = '{}' OR j.deleted_from_code_at IS NOT NULL THEN
        RETURN;
    END IF;
    SELECT e.id, e.at, jsonb_path_exists(coalesce(e.deliveries, '[]'),
        '$[*] ? (@.job == $job && @.skipped == "filter")', mine)
            AND NOT jsonb_path_exists(coalesce(e.deliveries, '[]'), '$[*] ? (@.job == $job && exists(@.run))',
                mine) AS is_filtered,
        jsonb_path_query_first(coalesce(e.deliveries, '[]'), '$[*] ? (@.job == $job && exists(@.throttled_until))',
            mine) AS throttled
    INTO last
    FROM (SELECT n.id, n.at, n.name, n.deliveries FROM rota.events n ORDER BY n.id DESC LIMIT most) e
    WHERE EXISTS (SELECT FROM rota.event_bindings b
        WHERE b.job = j.name AND (b.pattern = e.name OR (b.is_pattern AND e.name LIKE b.like_pattern)))
    ORDER BY e.id DESC LIMIT 1;
    IF last.id IS NULL THEN
        RETURN NEXT ROW('no_event', NULL, NULL, NULL,
            jsonb_build_object('job', j.name, 'looked', rota.plural_words(most, 'event'),
            'bound', rota.short_words(array_to_string(j.events, ', '))))::rota.finding;
    ELSIF last.is_filtered THEN
        RETURN NEXT ROW('event_filtered', last.at, NULL, NULL, jsonb_build_object('event', last.id))::rota.finding;
    ELSIF last.throttled IS NOT NULL THEN
        RETURN NEXT ROW('event_throttled', last.at, NULL, NULL,
            jsonb_build_object('event', last.id, 'run', last.throttled -> 'run'))::rota.finding;
    END IF;
END $$;

-- Findings about a queue: its pause, its workers, what waits, and jobs of it that nobody can run.
-- Called by: why_findings.
CREATE FUNCTION rota.why_queue(of_queue text) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    depths rota.depths[] := ARRAY(SELECT d FROM rota.kept_depths() d WHERE d.queue = of_queue);
    known  text[] := ARRAY(SELECT DISTINCT unnest(w.jobs) FROM rota.workers w
        WHERE w.state = 'live' AND w.lease_expires_at > clock_timestamp());
BEGIN
    RETURN QUERY SELECT * FROM rota.why_queue_paused(of_queue);
    RETURN QUERY SELECT * FROM rota.why_queue_full(of_queue);
    RETURN QUERY SELECT * FROM rota.why_workers(of_queue, NULL);
    RETURN QUERY SELECT * FROM rota.why_depths(depths, of_queue, NULL, of_queue);
    RETURN QUERY
    WITH waiting AS MATERIALIZED (
        SELECT d.job, d.queued, j.is_enabled, d.job = ANY (known) AS is_known,
               row_number() OVER (PARTITION BY j.is_enabled ORDER BY d.queued DESC, d.job) AS n
        FROM unnest(depths) d JOIN rota.jobs j ON j.name = d.job WHERE d.queued > 0
    )
    SELECT 'jobs_disabled', NULL::timestamptz, NULL::timestamptz, NULL,
        jsonb_build_object('job', min(w.job) FILTER (WHERE w.n = 1),
               'waiting', rota.plural_words(sum(w.queued)::bigint, 'run'), 'belong',
               CASE sum(w.queued) WHEN 1 THEN 'belongs' ELSE 'belong' END, 'jobs', string_agg(w.job, ', ' ORDER BY w.n)
                   FILTER (WHERE w.n <= 3))
    FROM waiting w WHERE NOT w.is_enabled HAVING count(*) > 0
    UNION ALL
    SELECT 'jobs_unknown', NULL, NULL, NULL, jsonb_build_object('job', min(w.job),
               'waiting', rota.plural_words(sum(w.queued)::bigint, 'run'), 'belong',
               CASE sum(w.queued) WHEN 1 THEN 'belongs' ELSE 'belong' END, 'jobs',
               rota.short_words(string_agg(w.job, ', ' ORDER BY w.job)))
    FROM waiting w WHERE NOT w.is_known AND known <> '{}' HAVING count(*) > 0;
END $$;

-- What waits of a job or in a queue, and how quickly it goes in the lane.
-- Called by: why_job, why_queue.
CREATE FUNCTION rota.why_depths(depths rota.depths[], of_queue text, of_job text, lane text) RETURNS SETOF rota.finding
LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    pace  double precision;
    seen  record;
    facts jsonb := jsonb_build_object('of', CASE WHEN of_job IS NULL THEN '--queue ' || rota.shell_word(of_queue)
        ELSE '--job ' || rota.shell_word(of_job) END,
                                      'queue', lane, 'job', of_job);
BEGIN
    SELECT coalesce(sum(d.queued), 0)::bigint AS queued, coalesce(sum(d.held), 0)::bigint AS held,
           coalesce(sum(d.scheduled), 0)::bigint AS later, coalesce(sum(d.running), 0)::bigint AS running,
           min(d.oldest_at) AS oldest_at
    INTO seen FROM unnest(depths) d;
    IF seen.queued > 0 THEN
        pace := rota.pace_of(lane);
        RETURN NEXT ROW('runs_wait', NULL, CASE WHEN of_job IS NULL
            THEN rota.now() + make_interval(secs => seen.queued / pace) END, NULL, facts || jsonb_build_object(
            'waiting', CASE seen.queued WHEN 1 THEN '1 run waits'
                ELSE rota.plural_words(seen.queued, 'run') || ' wait' END, 'count', seen.queued,
            'oldest', coalesce(', the oldest for '
                || rota.duration_words(rota.seconds_between(seen.oldest_at, clock_timestamp())), ''),
            'then', CASE WHEN pace IS NULL THEN 'No attempt in the queue has ended in the last ten minutes.'
                         ELSE format('In the last ten minutes, %s attempts per minute have ended in queue %s%s.',
                             trim_scale(round((pace * 60)::numeric, CASE WHEN pace < 1 THEN 1 ELSE 0 END)), lane,
                                     CASE WHEN of_job IS NULL
                                         THEN '; at that rate, the waiting runs are done at about the time shown'
                                         ELSE '' END) END))::rota.finding;
        RETURN QUERY SELECT 'runs_held', NULL::timestamptz, NULL::timestamptz, NULL, facts || jsonb_build_object(
            'held', rota.number_words(seen.held), 'are', CASE seen.held WHEN 1 THEN 'is' ELSE 'are' END)
                WHERE seen.held > 0;
    ELSIF seen.running > 0 THEN
        RETURN NEXT ROW('at_work', NULL, NULL, NULL,
            facts || jsonb_build_object('running', CASE seen.running WHEN 1 THEN '1 run is'
            ELSE rota.plural_words(seen.running, 'run') || ' are' END))::rota.finding;
    ELSIF seen.later > 0 THEN
        RETURN NEXT ROW('runs_for_later', NULL, NULL, NULL,
            facts || jsonb_build_object('its', CASE seen.later WHEN 1 THEN 'its' ELSE 'their' END,
            'later', CASE seen.later WHEN 1 THEN '1 run waits'
                ELSE rota.plural_words(seen.later, 'run') || ' wait' END))::rota.finding;
    ELSE
        RETURN NEXT ROW('idle', NULL, NULL, NULL, facts)::rota.finding;
    END IF;
END $$;

-- Findings about a schedule: its state, what keeps it or its last run back, what was decided about its last time,
-- and its next one. One that is written while all workers sleep waits until one wakes.
-- Called by: why_findings.
CREATE FUNCTION rota.why_schedule(s rota.schedules) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    clock     timestamptz := rota.now();
    st        rota.schedule_state := (SELECT t FROM rota.schedule_state t WHERE t.schedule_id = s.id);
    is_paused boolean := coalesce(s.paused_until > clock, s.paused_at IS NOT NULL);
    is_on     boolean := s.is_enabled AND st.finished_at IS NULL AND st.parked_at IS NULL AND NOT is_paused;
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
    IF st.finished_at IS NOT NULL THEN
        RETURN NEXT ROW('schedule_finished', st.finished_at, NULL, NULL, facts || jsonb_build_object('why', CASE
            WHEN s.init IS NOT NULL THEN 'it has run once' WHEN s.run_at IS NOT NULL THEN 'its only time has passed'
            WHEN st.run_count >= s.max_runs THEN format('it has run %s, its maximum',
                rota.plural_words(st.run_count, 'time'))
            WHEN s.end_at <= clock THEN 'its end time has passed' ELSE 'its timing has no more times'
            END))::rota.finding;
    END IF;
    IF st.parked_at IS NOT NULL THEN
        RETURN NEXT ROW('schedule_parked', st.parked_at, st.retry_at, NULL,
            facts || jsonb_build_object('error', rota.short_words(coalesce(st.error,
            'no reason was given')) || '.'))::rota.finding;
    END IF;
    IF is_paused THEN
        RETURN NEXT ROW('schedule_paused', s.paused_at, s.paused_until, s.paused_by, facts || jsonb_build_object(
            'by', rota.by_words(s.paused_by), 'because', rota.because_words(s.pause_reason),
            'then', CASE WHEN s.paused_until IS NULL
                THEN 'Its times are skipped until somebody resumes it; the ledger has them then.'
                         ELSE 'Its times are skipped until the pause ends by itself; the ledger has them then.'
                         END))::rota.finding;
    END IF;
    -- Apart from their order, else they are looked for among all by their ids.
    SELECT o.id, o.state, o.created_at INTO run
    FROM (SELECT * FROM rota.open_runs w WHERE w.schedule_id = s.id LIMIT 1000) o ORDER BY o.id DESC LIMIT 1;
    IF run.id IS NOT NULL THEN
        RETURN NEXT ROW('run_open', run.created_at, NULL, NULL,
            facts || jsonb_build_object('run', run.id, 'state', run.state))::rota.finding;
    END IF;
    IF is_on OR run.id IS NOT NULL THEN
        RETURN QUERY SELECT * FROM rota.why_job_off(s.job);
        RETURN QUERY SELECT * FROM rota.why_queue_paused(lane);
        RETURN QUERY SELECT * FROM rota.why_queue_full(lane);
        RETURN QUERY SELECT * FROM rota.why_tenant_paused(s.tenant) WHERE s.tenant <> '';
        RETURN QUERY SELECT * FROM rota.why_workers(lane, s.job, run.state IS DISTINCT FROM 'queued');
    END IF;
    RETURN QUERY SELECT * FROM rota.why_decision(s, st);
    IF st.failures_in_a_row > 0 THEN
        SELECT r.error, r.run_id INTO told FROM (SELECT * FROM rota.ledger l WHERE l.schedule_id = s.id
            ORDER BY l.nominal_at DESC LIMIT 20) r
        WHERE r.success IS FALSE ORDER BY r.nominal_at DESC LIMIT 1;
        RETURN NEXT ROW('schedule_failing', st.last_run_at, NULL, NULL, facts || jsonb_build_object('run', told.run_id,
            'failures', CASE st.failures_in_a_row WHEN 1 THEN 'run'
            ELSE rota.plural_words(st.failures_in_a_row, 'run') END, 'error', rota.because_words(told.error) || '.',
            'then', CASE WHEN s.pause_after_failures IS NULL THEN 'It continues with its next time.'
                ELSE format('It is paused after %s in a row.', rota.plural_words(s.pause_after_failures, 'failure'))
                END))::rota.finding;
    END IF;
    IF NOT is_on THEN
        RETURN;
    ELSIF s.is_shadow THEN
        RETURN NEXT ROW('shadow', NULL, NULL, NULL, facts)::rota.finding;
    END IF;
    IF s.init IS NOT NULL THEN
        RETURN NEXT ROW('waits_for_start', st.last_enqueued_at, NULL, NULL,
            facts || jsonb_build_object('which', CASE s.init
            WHEN 'once' THEN ', until it has succeeded once' WHEN 'release' THEN ', once per release'
                ELSE ', once per start of the fleet' END))::rota.finding;
    ELSIF st.next_run_at IS NULL THEN
        RETURN NEXT ROW('schedule_pending', s.updated_at, NULL, NULL, facts)::rota.finding;
    ELSIF st.next_run_at > clock THEN
        RETURN NEXT ROW(CASE WHEN st.moved_to IS NULL THEN 'waits_for_next' ELSE 'rescheduled' END, NULL,
            st.next_run_at, NULL, facts || jsonb_build_object('is_stuck', st.moved_to IS NULL
            AND EXISTS (SELECT FROM rota.why_queue_full(lane))))::rota.finding;
    ELSE
        SELECT count(*) INTO live FROM rota.why_fleet(NULL, NULL);
        IF live > 0 AND st.next_run_at > clock - interval '30 seconds' THEN
            RETURN NEXT ROW('due', st.next_run_at, NULL, NULL, facts)::rota.finding;
            RETURN;
        END IF;
        RETURN NEXT ROW('no_tick', st.next_run_at, NULL, NULL, facts || jsonb_build_object('workers',
            CASE live WHEN 0 THEN CASE WHEN EXISTS (SELECT FROM rota.why_asleep(NULL, NULL)) THEN 'all are asleep'
                ELSE 'none is running' END WHEN 1 THEN 'the only live worker processes no schedules'
                ELSE format('none of the %s live workers processes schedules', rota.number_words(live))
                END))::rota.finding;
    END IF;
END $$;

-- The decision for its latest time; and, if that ran, the latest of the five before it that did not run.
-- Called by: why_schedule.
CREATE FUNCTION rota.why_decision(s rota.schedules, st rota.schedule_state) RETURNS SETOF rota.finding
LANGUAGE sql STABLE SET enable_seqscan = off SET jit = off AS $$
    WITH late AS MATERIALIZED (
        SELECT r.*, r.decision IN ('ran', 'caught_up') AS has_run, row_number() OVER (ORDER BY r.nominal_at DESC) AS n
        FROM (SELECT * FROM rota.ledger l WHERE l.schedule_id = s.id ORDER BY l.nominal_at DESC LIMIT 6) r
    )
    SELECT 'schedule_ran', l.nominal_at, NULL::timestamptz, NULL, jsonb_build_object('run', l.run_id, 'ended',
        CASE l.state WHEN 'cancelled' THEN 'was cancelled' ELSE l.state END)
    FROM late l WHERE l.n = 1 AND l.has_run AND l.success IS NOT NULL AND (l.success OR st.failures_in_a_row = 0)
    UNION ALL
    (SELECT coalesce(r.code, 'not_run'), l.nominal_at, NULL, NULL, jsonb_build_object('schedule', s.name, 'job', s.job,
                'calendar', coalesce(s.calendar, 'its calendar'), 'decision', l.decision, 'reason', l.reason,
                'which', CASE l.n WHEN 1 THEN 'Its latest time' ELSE 'An earlier time' END,
                -- An earlier one weighs less than how the last one went.
                'lighter', CASE l.n WHEN 1 THEN 0 ELSE 20 END,
                'times', CASE WHEN l.count > 1 THEN format(' (and %s before it)', rota.number_words(l.count - 1))
                ELSE '' END, 'unmet', rota.short_words(coalesce(u.names, 'others')), 'unmet_first',
                coalesce(l.details -> 'unmet' ->> 0, s.name))
     FROM late l
     LEFT JOIN rota.reasons r ON r.code = l.decision || '_' || replace(l.reason, 'policy ', '')
     CROSS JOIN LATERAL (SELECT string_agg(w.word, ', ') AS names
                         FROM jsonb_array_elements_text(CASE jsonb_typeof(l.details -> 'unmet') WHEN 'array'
                             THEN l.details -> 'unmet' ELSE '[]' END) AS w (word)) u
     WHERE NOT l.has_run ORDER BY l.n LIMIT 1)
$$;

-- What a word may mean, the first first: a number is a run; a name is a schedule, then a job, then a queue.
-- Called by: why.
CREATE FUNCTION rota.why_kinds(subject text, tenant text) RETURNS text[] LANGUAGE sql STABLE
SET enable_seqscan = off SET jit = off AS $$
    SELECT array_remove(ARRAY[
        CASE WHEN subject ~ '^[0-9]{1,18}$' THEN 'run' END,
        CASE WHEN EXISTS (SELECT FROM rota.schedules s WHERE s.tenant = why_kinds.tenant AND s.name = subject)
            THEN 'schedule' END,
        CASE WHEN EXISTS (SELECT FROM rota.jobs j WHERE j.name = subject) THEN 'job' END,
        CASE WHEN EXISTS (SELECT FROM rota.queues q WHERE q.name = subject) OR EXISTS (SELECT FROM rota.jobs j
            WHERE j.queue = subject)
               OR EXISTS (SELECT FROM rota.open_runs o WHERE o.is_ready AND o.queue = subject)
               OR EXISTS (SELECT FROM rota.depths d WHERE d.queue = subject)
             THEN 'queue' END], NULL)
$$;

-- The findings about anything that why can be asked about, by its kind.
-- Called by: why.
CREATE FUNCTION rota.why_findings(subject text, kind text, tenant text) RETURNS SETOF rota.finding
LANGUAGE plpgsql STABLE SET jit = off AS $$
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

-- Why something does not run, or did what it did: the reasons in order, each with what happens next and the command
-- that would change it. Without a kind, the subject is the first that why_kinds finds; also has the others. Errors:
-- RO001 no such job, RO002 no such kind, RO004 no such run, RO007 no such schedule, RO013 no such queue, or nothing of
-- that name.
-- Called by: sql/why/ask.sql, users.
CREATE FUNCTION rota.why(subject text, kind text DEFAULT NULL, tenant text DEFAULT '') RETURNS TABLE (
    place bigint, code text, sentence text, since timestamptz, until timestamptz, by_whom text, next_step text,
    command text, facts jsonb, is_past boolean, kind_found text, name text, also text[]
) LANGUAGE plpgsql STABLE SET jit = off AS $$
#variable_conflict use_column
DECLARE
    word   text := btrim(why.subject);
    kinds  text[] := rota.why_kinds(word, why.tenant);
    chosen text := coalesce(why.kind, kinds[1]);
    -- Of the facts what a program may want; the rest are parts of sentences.
    told   constant text[] :=
        '{run,job,queue,schedule,worker,other,longest,key,calendar,attempt,place,is_exact,count,state}';
BEGIN
    IF chosen NOT IN ('run', 'schedule', 'job', 'queue') THEN
        RAISE EXCEPTION 'unknown kind "%": choose from run, schedule, job, queue', chosen USING ERRCODE = 'RO002';
    ELSIF chosen IS NULL THEN
        RAISE EXCEPTION 'no schedule, job or queue is named "%"', word USING ERRCODE = 'RO013',
            HINT = 'Pass the number of a run, or, for a schedule of a tenant, the tenant as well.';
    ELSIF chosen <> ALL (kinds) THEN
        CASE chosen
        WHEN 'run' THEN RAISE EXCEPTION 'there is no run %', word USING ERRCODE = 'RO004';
        WHEN 'schedule' THEN PERFORM rota.find_schedule(word, why.tenant);
        WHEN 'job' THEN PERFORM rota.unknown_job(word);
        ELSE RAISE EXCEPTION 'there is no queue "%": no job, run or operator uses this name', word
            USING ERRCODE = 'RO013';
        END CASE;
    END IF;
    RETURN QUERY
    SELECT row_number() OVER (ORDER BY o.place, f.n), f.code, rota.fill_words(r.sentence, x.facts), f.since, f.until,
           f.by_whom, rota.fill_words(r.next_step, x.facts), CASE WHEN (x.facts -> 'is_stuck') IS DISTINCT FROM 'true'
               THEN rota.fill_words(r.command, x.facts, true) END,
           (SELECT coalesce(jsonb_object_agg(t.key, t.value), '{}') FROM jsonb_each(f.facts) t
               WHERE t.key = ANY (told) AND t.value <> 'null'), r.is_past, chosen, word, array_remove(kinds, chosen)
    FROM rota.why_findings(word, chosen, why.tenant) WITH ORDINALITY AS f (code, since, until, by_whom, facts, n)
    JOIN rota.reasons r ON r.code = f.code
    CROSS JOIN LATERAL (SELECT f.facts || CASE WHEN why.tenant = '' THEN '{}'
        ELSE jsonb_build_object('of_tenant', '--tenant ' || rota.shell_word(why.tenant) || ' ') END AS facts) x
    CROSS JOIN LATERAL (SELECT r.place + coalesce((f.facts ->> 'lighter')::integer, 0) AS place) o
    ORDER BY o.place, f.n;
END $$;
