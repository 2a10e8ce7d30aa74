-- The reasons that `why` gives. Each is a row: a code, its place in the order, and its words, in which {name} stands for a fact that was
-- found. The words are here, so that SQL, Python, the command line, the API and the pages say the same; a new reason is one row and
-- the finding of its facts.

CREATE TABLE rota.reasons (
    code      text COLLATE "C" PRIMARY KEY,
    place     smallint NOT NULL,      -- the lowest is said first
    sentence  text NOT NULL,
    next_step text NOT NULL,          -- what happens then, or what somebody should do
    is_past   boolean NOT NULL DEFAULT false, -- it happened at a time, and does not go on since then
    command   text                    -- what would change it
);
COMMENT ON TABLE rota.reasons IS 'The words of rota.why, by code.';

-- What was found, before it is put into words. by_whom and the texts of facts are whatever people wrote.
CREATE TYPE rota.finding AS (code text, since timestamptz, until timestamptz, by_whom text, facts jsonb);

-- A name as one word of a shell.
CREATE FUNCTION rota.shell_word(word text) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT CASE WHEN word ~ '^[A-Za-z0-9_./:@%+=,-]+$' THEN word ELSE '''' || replace(word, '''', '''\''''') || '''' END
$$;

-- In one pass: what stands in a fact is not looked at again. In a command every fact is a word of a shell, save {of} and {of_tenant},
-- which are options; a name that begins with a dash is none.
CREATE FUNCTION rota.fill_words(template text, facts jsonb, is_command boolean DEFAULT false) RETURNS text LANGUAGE sql IMMUTABLE
SET jit = off AS $$
    SELECT string_agg(CASE
        WHEN p.n % 2 = 1 THEN p.piece
        WHEN NOT is_command OR p.piece IN ('of', 'of_tenant') THEN coalesce(facts ->> p.piece, '')
        WHEN facts ->> p.piece LIKE '-%' AND p.before !~ '--[a-z-]+ $' THEN '-- ' || rota.shell_word(facts ->> p.piece)
        ELSE rota.shell_word(facts ->> p.piece) END, '' ORDER BY p.n)
    FROM (SELECT w.piece, w.n, coalesce(lag(w.piece) OVER (ORDER BY w.n), '') AS before
          FROM regexp_split_to_table(template, '[{}]') WITH ORDINALITY AS w (piece, n)) p
$$;

-- 12,345
CREATE FUNCTION rota.number_words(amount bigint) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT to_char(amount, 'FM999,999,999,999,999,999')
$$;

-- 1 run, 12 runs
CREATE FUNCTION rota.plural_words(amount bigint, noun text) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT rota.number_words(amount) || ' ' || noun || CASE WHEN amount = 1 THEN '' ELSE 's' END
$$;

-- 84 ms, 4.2 s, 4 min 10 s, 2 h 14 min, 3 d 4 h
CREATE FUNCTION rota.duration_words(seconds double precision) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT CASE
        WHEN s < 1 THEN round((s * 1000)::numeric) || ' ms'
        WHEN s < 10 THEN trim_scale(round(s::numeric, 1)) || ' s'
        WHEN s < 60 THEN w || ' s'
        WHEN s < 3600 THEN w / 60 || ' min' || CASE WHEN w % 60 > 0 THEN ' ' || w % 60 || ' s' ELSE '' END
        WHEN s < 86400 THEN w / 3600 || ' h' || CASE WHEN w % 3600 >= 60 THEN ' ' || w % 3600 / 60 || ' min' ELSE '' END
        ELSE w / 86400 || ' d' || CASE WHEN w % 86400 >= 3600 THEN ' ' || w % 86400 / 3600 || ' h' ELSE '' END END
    FROM (SELECT greatest(seconds, 0) AS s, floor(least(greatest(seconds, 0), 1e15))::bigint AS w) x
$$;

-- The only worker is, All 3 workers are, 1 of 3 workers is
CREATE FUNCTION rota.share_words(amount bigint, of_all bigint, noun text) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT CASE WHEN of_all = 1 THEN format('The only %s is', noun) WHEN amount = of_all THEN format('All %s are', rota.plural_words(of_all, noun))
                ELSE format('%s of %s %s', rota.number_words(amount), rota.plural_words(of_all, noun), CASE amount WHEN 1 THEN 'is' ELSE 'are' END) END
$$;

-- Between two instants; NULL where one of them is none.
CREATE FUNCTION rota.seconds_between(earlier timestamptz, later timestamptz) RETURNS double precision LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT CASE WHEN isfinite(earlier) AND isfinite(later) THEN extract(epoch FROM later - earlier) END
$$;

-- The first line of what somebody wrote, not too long.
CREATE FUNCTION rota.short_words(said text) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT CASE WHEN length(line) > 200 THEN left(line, 199) || '…' ELSE line END
    FROM (SELECT split_part(btrim(said, E' \t\r\n'), E'\n', 1) AS line) x
$$;

-- : “the provider is down”, or nothing
CREATE FUNCTION rota.because_words(said text) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT coalesce(': “' || nullif(rota.short_words(said), '') || '”', '')
$$;

-- by grace, or nothing
CREATE FUNCTION rota.by_words(who text) RETURNS text LANGUAGE sql IMMUTABLE SET jit = off AS $$
    SELECT coalesce(' by ' || nullif(rota.short_words(who), ''), '')
$$;

INSERT INTO rota.reasons (place, code, sentence, next_step, command) VALUES
-- A run that has ended.
(1, 'run_succeeded', 'It succeeded on attempt {attempt}{took}.', 'Nothing more happens to it.', NULL),
(1, 'run_failed', 'It failed: {end}{error}', 'It stays failed until somebody retries it.', 'rota runs retry {run}'),
(1, 'attempts_used_up', 'It failed{error} {used}', 'It stays failed, a dead letter, until somebody retries it.', 'rota runs retry {run}'),
(1, 'gave_up', 'It failed with {error_type}, which its job does not retry{error}', 'It stays failed, a dead letter, until somebody retries it.', 'rota runs retry {run}'),
(1, 'job_never_known', 'It failed because no live worker knew job {job} for too long.', 'Start a worker that declares the job, then retry the run.', 'rota runs retry {run}'),
(1, 'run_cancelled', 'It was {end}.', 'It stays cancelled until somebody retries it.', 'rota runs retry {run}'),
(1, 'run_expired', 'It expired: it had not started by its deadline.', 'It stays cancelled until somebody retries it; then it has no deadline any more.', 'rota runs retry {run}'),
-- A run that runs.
(5, 'cancel_requested', 'It was asked to stop{by}{because}.', 'Its worker has been told; the run ends when its handler lets go.', 'rota runs show {run}'),
(6, 'worker_silent', 'It runs on worker {worker} ({worker_name}), which has not been heard from.', 'Another worker takes the run back once the lease has run out.', 'rota workers show {worker}'),
(7, 'claimed_ahead', 'Worker {worker} ({worker_name}) has claimed it ahead and starts it next.', 'It starts as soon as the runs that were claimed with it have ended.', 'rota workers show {worker}'),
(8, 'running_isolated', 'Worker {worker} ({worker_name}) runs it isolated, {where}, because a worker was lost with it before.', '{then}', 'rota runs cancel {run}'),
(9, 'running', 'Worker {worker} ({worker_name}) runs attempt {attempt}.', '{then}', 'rota runs cancel {run}'),
-- A run that waits.
(10, 'waits_for_time', 'It is for later.', 'It takes its place in queue {queue} when its time has come.', 'rota runs cancel {run}'),
(10, 'waits_for_backoff', 'Attempt {attempt} {ended}{error} It waits before the next one, with {spent} of {allowed} used.', 'It takes its place in queue {queue} when the wait is over.', 'rota runs cancel {run}'),
(10, 'snoozed', 'Its handler put it off.', 'It takes its place in queue {queue} when the wait is over; no attempt was spent.', 'rota runs cancel {run}'),
(11, 'not_promoted', 'Its time has come, and no worker has put it in line yet.', 'Any live worker does that within seconds.', 'rota workers list'),
(20, 'job_deleted', 'No code declares job {job} any more.', 'Deploy code that declares it, or cancel what waits.', 'rota runs cancel --job {job}'),
(21, 'job_disabled', 'Job {job} is disabled{by}{because}.', 'Its runs wait, and its schedules skip their times, until it is enabled.', 'rota jobs enable {job}'),
(22, 'queue_paused', 'Queue {queue} is paused{by}{because}.', '{then}', 'rota queues resume {queue}'),
(30, 'no_worker', 'No worker is running{last}.', 'Start one: until then nothing starts and nothing is scheduled.', 'rota worker'),
(31, 'queue_unserved', 'No live worker serves queue {queue}: the {workers} serve{s} {queues}.', 'Start a worker for it, or add it to the queues of one.', 'rota worker --queues {queue}'),
(32, 'job_unknown', 'No live worker knows job {job}: {workers}, with other code.', 'Start a worker whose application declares it; a run that waits for one fails after a day, unless worker.unknown_job_seconds says otherwise.', 'rota workers list'),
(33, 'worker_mismatch', 'Workers that know job {job} do not serve queue {queue}.', 'Let one of them serve the queue.', 'rota worker --queues {queue}'),
(34, 'workers_failing', '{some} alive but failing: {troubles}.', 'A worker that fails takes nothing new until it gets its work done; its own log says more.', 'rota workers show {worker}'),
(35, 'workers_draining', '{some} draining{by}{because}.', 'A draining worker finishes what it runs and takes nothing new until it is resumed.', 'rota workers resume {worker}'),
(40, 'suspect', 'A worker was lost with it, so it waits to be run isolated, in a process of its own.', '{then}', 'rota runs show {run}'),
(41, 'overlap', 'It waits for run {other} of its schedule {schedule}, which has not ended.', 'It starts when that one has ended.', 'rota runs cancel {other}'),
(42, 'blocked', 'It waits for other runs to end.', 'It takes its place in queue {queue} when they have ended.', 'rota runs show {run}'),
(43, 'held', 'It is held back: {held_by}.', 'It takes its place in queue {queue} when that is over.', 'rota runs show {run}'),
(50, 'slots_busy', 'All {slots} of {able} are busy with {jobs}; run {longest} of {longest_job} for the longest, {duration}.', 'The next in line starts when a slot is free; more workers or slots would help.', 'rota workers list'),
(51, 'in_line', '{ahead} before it in queue {queue}.', '{then}', 'rota queues show {queue}'),
(52, 'next_in_line', 'It is next in queue {queue}.', 'The next worker with a free slot takes it.', 'rota queues show {queue}'),
-- What became of the attempt before.
(60, 'worker_lost', 'A worker was lost during attempt {attempt}: {worker} ({worker_name}).', 'The run was taken back; {spent} of {allowed} used.', 'rota workers show {worker}'),
(61, 'attempt_failed', 'Attempt {attempt} {ended}{error}', 'It is tried again: {spent} of {allowed} used so far.', 'rota runs show {run}'),
-- Keys.
(70, 'holds_key', 'It holds key {key}: whoever enqueues job {job} with it gets this run, and no second one.', '{then}', NULL),
(70, 'key_held', 'Its key {key} is held by run {other}, so it cannot be retried.', 'What was enqueued with the key since is a duplicate of that run.', 'rota why {other}'),
-- A schedule.
(12, 'schedule_disabled', 'Schedule {schedule} is disabled{by}.', 'Its times are skipped and recorded until it is enabled.', 'rota schedules enable {of_tenant}{schedule}'),
(13, 'schedule_finished', 'It is finished: {why}.', 'It has no time left; any edit that gives it one revives it.', 'rota schedules show {of_tenant}{schedule}'),
(14, 'schedule_parked', 'It is parked, because it cannot be followed: {error}', 'It is tried again at that time; an edit tries at once.', 'rota schedules show {of_tenant}{schedule}'),
(15, 'schedule_paused', 'Schedule {schedule} is paused{by}{because}.', '{then}', 'rota schedules resume {of_tenant}{schedule}'),
(25, 'no_tick', 'It is due, and no worker has decided about it: {workers}.', 'A worker that schedules does so within seconds: start one without --no-scheduler, or resume one that drains.', 'rota worker'),
(26, 'schedule_pending', 'Its next time has not been computed yet.', 'The next tick of any worker does that within seconds.', 'rota schedules show {of_tenant}{schedule}'),
(38, 'shadow', 'It is a shadow: it decides, and enqueues nothing.', 'Its times are recorded as skipped until it is no shadow any more.', 'rota schedules update --shadow false {of_tenant}{schedule}'),
(47, 'run_open', 'Its run {run} has not ended: it is {state}.', 'Ask about that run to read what it waits for.', 'rota why {run}'),
(62, 'schedule_failing', 'Its last {failures} failed{error}', '{then}', 'rota runs list --schedule {schedule} --state failed'),
(63, 'started_late', 'It started {late} late{because}.', 'What held it up is over.', NULL),
(63, 'schedule_ran', 'Its last time ran: run {run} {ended}.', 'It goes on with its next time.', 'rota runs show {run}'),
(80, 'waits_for_next', 'Its next time has not come.', 'It runs then.', 'rota schedules trigger {of_tenant}{schedule}'),
(79, 'rescheduled', 'Its next time was moved.', 'It runs then, and goes on as before after that.', 'rota schedules reschedule {of_tenant}{schedule}'),
(80, 'waits_for_start', 'It runs at starts of the application{which}.', 'The next one that counts starts a run.', 'rota schedules trigger {of_tenant}{schedule}'),
-- What was decided about the last time of a schedule.
(45, 'skipped_overlap', '{which} was skipped{times}: the run before it had not ended.', 'The next time runs if that run has ended by then; --overlap says what else may happen.', 'rota schedules update --overlap queue_one {of_tenant}{schedule}'),
(45, 'skipped_paused', '{which} was skipped{times}: it was paused.', 'Times that were skipped can be made up for.', 'rota schedules backfill --help'),
(45, 'skipped_disabled', '{which} was skipped{times}: it was disabled.', 'Times that were skipped can be made up for.', 'rota schedules backfill --help'),
(45, 'skipped_job_disabled', '{which} was skipped{times}: job {job} was disabled.', 'Times that were skipped can be made up for.', 'rota schedules backfill --help'),
(45, 'skipped_job_deleted', '{which} was skipped{times}: no code declared job {job}.', 'Times that were skipped can be made up for.', 'rota schedules backfill --help'),
(45, 'skipped_calendar', '{which} was skipped{times}: calendar {calendar} was closed.', 'It runs at its next time that is open.', 'rota calendars show {calendar}'),
(45, 'skipped_dst_gap', '{which} was skipped{times}: the clocks went forward, and it did not exist on that day.', 'It runs at its next time; --gap run_after runs such a time after the gap.', 'rota schedules update --gap run_after {of_tenant}{schedule}'),
(45, 'skipped_requirement', '{which} was skipped{times}: it requires {unmet}, which had not succeeded.', 'It runs at its next time if that has succeeded by then.', 'rota why {unmet_first}'),
(45, 'skipped_coalesced', '{which} was skipped{times}: a later missed time ran instead.', 'It goes on with its next time.', 'rota schedules history {of_tenant}{schedule}'),
(45, 'skipped_max_runs', '{which} was skipped{times}: it had run as often as it may.', 'It is finished, unless it may run more often.', 'rota schedules update --max-runs none {of_tenant}{schedule}'),
(45, 'skipped_shadow', '{which} was skipped{times}: it is a shadow.', 'A shadow decides, and enqueues nothing.', 'rota schedules update --shadow false {of_tenant}{schedule}'),
(45, 'missed_none', '{which} was missed{times}: no worker was there in time, and nothing is caught up.', 'It goes on with its next time; --catch-up says what else may happen.', 'rota schedules update --catch-up latest {of_tenant}{schedule}'),
(45, 'missed_window', '{which} was missed{times}: by the time a worker was there, it was older than what is caught up.', 'It goes on with its next time.', 'rota schedules update --catch-up-window none {of_tenant}{schedule}'),
(45, 'missed_cap', '{which} was missed{times}: more had been missed than are caught up.', 'It goes on with its next time.', 'rota schedules history {of_tenant}{schedule}'),
(45, 'superseded_edited', '{which} was superseded{times}: the schedule was edited.', 'It goes on with the times that it has now.', 'rota schedules history {of_tenant}{schedule}'),
(45, 'superseded_rescheduled', '{which} was superseded{times}: its next time was moved.', 'It runs at the time that it was moved to.', 'rota schedules history {of_tenant}{schedule}'),
(46, 'not_run', '{which} was {decision}{times}: {reason}.', 'It goes on with its next time.', 'rota schedules history {of_tenant}{schedule}'),
-- Jobs and queues.
(55, 'runs_wait', '{waiting}, the oldest for {duration}.', '{then}', 'rota runs list --state queued {of}'),
(56, 'runs_held', '{held} of them {are} held back: for a worker that knows their job, for isolation, or for the run before.', 'Ask about one of them to read what holds it.', 'rota runs list --state queued {of}'),
(57, 'jobs_disabled', '{waiting} {belong} to disabled jobs: {jobs}.', 'They wait until their job is enabled, and hold up nobody.', 'rota jobs enable {job}'),
(58, 'jobs_unknown', '{waiting} {belong} to jobs that no live worker knows: {jobs}.', 'Start a worker whose application declares them.', 'rota why --kind job {job}'),
(62, 'job_failing', '{failures} of {attempts} failed in the last five minutes{error}', 'What failed is tried again as long as it has attempts left.', 'rota runs list --state failed --job {job}'),
(93, 'schedules_off', '{some} disabled, paused or parked: {names}.', 'Ask about one of them to read why.', 'rota why --kind schedule {schedule}'),
(90, 'runs_for_later', 'Nothing of it waits for a worker; {later} for {its} time.', 'They take their place in line when it has come.', 'rota runs list --state scheduled {of}'),
(91, 'at_work', 'Nothing of it waits for a worker; {running} being run.', 'All is well.', 'rota runs list --state running {of}'),
(92, 'idle', 'Nothing of it waits or runs.', 'What is enqueued starts at once.', NULL),
(95, 'last_end', 'Its last run, {run}, {ended}.', 'Ask about that run to read why.', 'rota why {run}');

UPDATE rota.reasons SET is_past = true
WHERE place IN (1, 45, 46, 60, 61) OR code IN ('cancel_requested', 'started_late', 'schedule_finished', 'schedule_failing', 'schedule_ran', 'last_end');
