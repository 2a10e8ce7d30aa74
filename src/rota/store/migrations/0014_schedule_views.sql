-- What people see of schedules: how they stand, how their runs went, and backfills.

INSERT INTO rota.schedule_templates (name, cron, description) VALUES
    ('Every 5 minutes', '*/5 * * * *', 'Every five minutes'),
    ('Every 15 minutes', '*/15 * * * *', 'Every quarter of an hour'),
    ('Hourly', '0 * * * *', 'Every hour on the hour'),
    ('Every 6 hours', '0 */6 * * *', 'At 00:00, 06:00, 12:00 and 18:00'),
    ('Daily midnight', '0 0 * * *', 'Every day at midnight'),
    ('Daily 3 AM', '0 3 * * *', 'Every day at 3 AM, a quiet hour for upkeep'),
    ('Daily 9 AM', '0 9 * * *', 'Every day at 9 AM'),
    ('Weekdays 9 AM', '0 9 * * 1-5', 'Monday to Friday at 9 AM'),
    ('Weekly Monday 8 AM', '0 8 * * 1', 'Every Monday at 8 AM'),
    ('Weekly Sunday midnight', '0 0 * * 0', 'Every Sunday at midnight'),
    ('Monthly first midnight', '0 0 1 * *', 'The first of every month at midnight'),
    ('Monthly last day 6 PM', '0 18 L * *', 'The last day of every month at 6 PM'),
    ('Quarterly', '0 0 1 1,4,7,10 *', 'The first day of every quarter at midnight'),
    ('Yearly', '0 0 1 1 *', 'The first of January at midnight')
ON CONFLICT (name) DO NOTHING;

-- Counts are kept, not counted: the ends of a schedule's runs by day. The ledger may be cut, these stay.
CREATE TABLE rota.schedule_days (
    schedule_id bigint NOT NULL,
    day         date NOT NULL,                     -- in UTC
    succeeded   bigint NOT NULL,
    failed      bigint NOT NULL,
    cancelled   bigint NOT NULL,
    timed       bigint NOT NULL,                   -- those that have a duration
    duration_ms double precision NOT NULL,         -- their sum
    longest_ms  real NOT NULL,
    PRIMARY KEY (schedule_id, day)
) WITH (fillfactor = 70);

CREATE FUNCTION rota.count_schedule_run() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO rota.schedule_days AS d (schedule_id, day, succeeded, failed, cancelled, timed, duration_ms, longest_ms)
    VALUES (NEW.schedule_id, (NEW.finished_at AT TIME ZONE 'UTC')::date, (NEW.state = 'succeeded')::integer,
            (NEW.state = 'failed')::integer, (NEW.state = 'cancelled')::integer, (NEW.duration_ms IS NOT NULL)::integer,
            coalesce(NEW.duration_ms, 0), coalesce(NEW.duration_ms, 0))
    ON CONFLICT (schedule_id, day) DO UPDATE SET
        succeeded = d.succeeded + excluded.succeeded, failed = d.failed + excluded.failed,
        cancelled = d.cancelled + excluded.cancelled, timed = d.timed + excluded.timed,
        duration_ms = d.duration_ms + excluded.duration_ms, longest_ms = greatest(d.longest_ms, excluded.longest_ms);
    RETURN NULL;
END $$;
-- Its name comes after that of the trigger that locks the schedule: two ends of one schedule meet there first.
CREATE TRIGGER ended_runs_schedule_day AFTER INSERT ON rota.ended_runs FOR EACH ROW WHEN (NEW.schedule_id IS NOT NULL)
EXECUTE FUNCTION rota.count_schedule_run();

CREATE VIEW rota.schedule_status AS
SELECT s.name, s.tenant, s.job,
       CASE WHEN s.parked_at IS NOT NULL THEN 'parked'
            WHEN s.finished_at IS NOT NULL THEN 'finished'
            WHEN NOT s.is_enabled THEN 'disabled'
            WHEN s.paused_at IS NOT NULL AND coalesce(s.paused_until, 'infinity') > rota.now() THEN 'paused'
            WHEN s.init IS NULL AND s.next_run_at IS NULL THEN 'pending'
            ELSE 'active' END AS state,
       s.is_enabled AS enabled, s.paused_until, s.pause_reason,
       s.last_run_at, s.last_run_success, s.last_success_at, s.last_enqueued_at,
       -- One that counts from the end of its run has no next time while that runs.
       CASE WHEN s.is_ticking THEN nullif(greatest(s.next_run_at, s.paused_until), 'infinity') END AS next_run_at,
       coalesce(d.runs, 0) AS total_runs,
       round(100.0 * d.succeeded / nullif(d.succeeded + d.failed, 0), 1)::double precision AS success_rate_percent,
       d.duration_ms / nullif(d.timed, 0) AS avg_duration_ms,
       d.longest_ms AS max_duration_ms, d.longest_ms_7d AS max_duration_ms_7d,
       s.error, s.is_system, s.id AS schedule_id
FROM rota.schedules s
LEFT JOIN LATERAL (
    SELECT sum(c.succeeded + c.failed + c.cancelled)::bigint AS runs, sum(c.succeeded) AS succeeded, sum(c.failed) AS failed,
           sum(c.timed) AS timed, sum(c.duration_ms) AS duration_ms, max(c.longest_ms) FILTER (WHERE c.timed > 0) AS longest_ms,
           max(c.longest_ms) FILTER (WHERE c.timed > 0 AND c.day > (rota.now() AT TIME ZONE 'UTC')::date - 7) AS longest_ms_7d
    FROM rota.schedule_days c WHERE c.schedule_id = s.id
) d ON true;
COMMENT ON VIEW rota.schedule_status IS 'How each schedule stands: its last runs, its next time, how long its runs take.';

-- From the roll-ups, which count attempts: a run that was tried three times counts three times.
CREATE VIEW rota.job_status AS
SELECT j.name, j.queue, j.is_enabled AS enabled,
       CASE WHEN j.is_enabled THEN 'active' ELSE 'disabled' END AS state,
       l.finished_at AS last_run_at, l.state = 'succeeded' AS last_run_success,
       (SELECT e.finished_at FROM rota.ended_runs e WHERE e.job = j.name AND e.state = 'succeeded'
        ORDER BY e.finished_at DESC LIMIT 1) AS last_success_at,
       s.last_enqueued_at, s.next_run_at, coalesce(s.schedules, 0) AS schedules,
       coalesce(r.attempts, 0) AS total_runs,
       round(100.0 * r.succeeded / nullif(r.attempts, 0), 1)::double precision AS success_rate_percent,
       r.duration_ms / nullif(r.attempts, 0) AS avg_duration_ms,
       r.longest_ms AS max_duration_ms, r.longest_ms_7d AS max_duration_ms_7d
FROM rota.jobs j
LEFT JOIN LATERAL (
    SELECT e.finished_at, e.state FROM rota.ended_runs e WHERE e.job = j.name ORDER BY e.finished_at DESC LIMIT 1
) l ON true
LEFT JOIN LATERAL (
    SELECT count(*) AS schedules, max(x.last_enqueued_at) AS last_enqueued_at, min(x.next_run_at) AS next_run_at
    FROM rota.schedule_status x WHERE x.job = j.name
) s ON true
LEFT JOIN LATERAL (
    SELECT sum(o.attempts)::bigint AS attempts, sum(o.attempts) FILTER (WHERE o.outcome = 'succeeded') AS succeeded,
           sum(o.duration_ms) AS duration_ms, max(o.longest_ms) AS longest_ms,
           max(o.longest_ms) FILTER (WHERE o.minute > rota.now() - interval '7 days') AS longest_ms_7d
    FROM rota.rollups o WHERE o.job = j.name AND o.outcome IN ('succeeded', 'failed', 'timed_out', 'lost')
) r ON true;
COMMENT ON VIEW rota.job_status IS 'How each job stands: its last runs, its next time, how long its attempts take.';

-- Runs for nominal times of the past, which Python has listed. The decisions taken about them stay as they are: a backfill
-- has rows of its own. Its runs are not the schedule's (no overlap is counted, no last success moved).
CREATE FUNCTION rota.backfill_schedule(
    name text, times timestamptz[], since timestamptz[], starts timestamptz[], from_at timestamptz, until_at timestamptz,
    priority integer DEFAULT NULL, reason text DEFAULT NULL, tenant text DEFAULT '', actor text DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    found rota.schedules := rota.find_schedule(backfill_schedule.name, backfill_schedule.tenant);
    who   text := coalesce(backfill_schedule.actor, nullif(current_setting('rota' || '.actor', true), ''), session_user);
    made  bigint;
    runs  bigint[];
BEGIN
    INSERT INTO rota.backfills (schedule_id, from_at, until_at, created_by, reason)
    VALUES (found.id, backfill_schedule.from_at, backfill_schedule.until_at, who, backfill_schedule.reason) RETURNING id INTO made;
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
    FROM rota.backfill_times b WHERE b.backfill_id = made AND o.id = b.run_id;
    PERFORM rota.write_audit(who, 'schedule.backfilled', 'schedule', found.name, NULL,
        jsonb_build_object('backfill', made, 'from', backfill_schedule.from_at, 'until', backfill_schedule.until_at,
                           'runs', coalesce(cardinality(runs), 0)), backfill_schedule.reason, found.tenant);
    RETURN jsonb_build_object('backfill_id', made, 'run_ids', to_jsonb(coalesce(runs, '{}')));
END $$;

-- What code says about a schedule (`app.schedule`), again and again: makes it, brings the fields that no operator has touched up to
-- what is said, and writes nothing when the same was said before. A field that is not said stays. Answers whether it wrote.
CREATE FUNCTION rota.put_schedule(name text, declared jsonb, tenant text DEFAULT '', actor text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    wanted rota.schedules := jsonb_populate_record(NULL::rota.schedules, declared);
    said   jsonb := rota.pick(to_jsonb(wanted), declared - 'job');
    stored rota.schedules;
BEGIN
    PERFORM rota.act_as(put_schedule.actor);
    LOOP
        SELECT s.* INTO stored FROM rota.schedules s
        WHERE s.tenant = put_schedule.tenant AND s.name = put_schedule.name FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO rota.schedules (tenant, name, job, origin, code, is_enabled,
            description, tags, metadata, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold, every_from, start_at,
            end_at, max_runs, jitter_seconds, calendar, on_closed, catch_up, catch_up_seconds, catch_up_limit, grace_seconds, overlap,
            max_concurrent_runs, pause_after_failures, requires, is_shadow, delete_when_finished, payload, queue, priority,
            max_attempts, timeout_seconds, run_tags, run_metadata)
        VALUES (put_schedule.tenant, put_schedule.name, wanted.job, 'code', said, coalesce(wanted.is_enabled, true),
            wanted.description, wanted.tags, wanted.metadata, wanted.cron, wanted.interval_seconds, wanted.run_at, wanted.init,
            wanted.has_seconds, wanted.timezone, wanted.gap, wanted.fold, wanted.every_from, wanted.start_at, wanted.end_at,
            wanted.max_runs, wanted.jitter_seconds, wanted.calendar, wanted.on_closed, wanted.catch_up, wanted.catch_up_seconds,
            wanted.catch_up_limit, wanted.grace_seconds, wanted.overlap, wanted.max_concurrent_runs, wanted.pause_after_failures,
            wanted.requires, wanted.is_shadow, wanted.delete_when_finished, wanted.payload, wanted.queue, wanted.priority,
            wanted.max_attempts, wanted.timeout_seconds, wanted.run_tags, wanted.run_metadata)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN true;
        END IF;
    END LOOP;
    IF stored.origin = 'definition' THEN
        RAISE EXCEPTION 'schedule "%" is one of the schedules that job "%" declares', stored.name, stored.job
            USING ERRCODE = 'RO005', HINT = 'Give one of them another name.';
    ELSIF stored.code IS NOT DISTINCT FROM said AND stored.job = wanted.job THEN
        RETURN false;
    END IF;
    -- Said by code: no edit of an operator.
    PERFORM set_config('rota' || '.syncing', 'on', true);
    UPDATE rota.schedules s SET job = wanted.job, origin = 'code', code = said,
        edited = rota.still_edited(to_jsonb(s), s.edited, said), (is_enabled,
            description, tags, metadata, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold, every_from, start_at,
            end_at, max_runs, jitter_seconds, calendar, on_closed, catch_up, catch_up_seconds, catch_up_limit, grace_seconds, overlap,
            max_concurrent_runs, pause_after_failures, requires, is_shadow, delete_when_finished, payload, queue, priority,
            max_attempts, timeout_seconds, run_tags, run_metadata) = (
        SELECT r.is_enabled,
            r.description, r.tags, r.metadata, r.cron, r.interval_seconds, r.run_at, r.init, r.has_seconds, r.timezone, r.gap, r.fold,
            r.every_from, r.start_at, r.end_at, r.max_runs, r.jitter_seconds, r.calendar, r.on_closed, r.catch_up, r.catch_up_seconds,
            r.catch_up_limit, r.grace_seconds, r.overlap, r.max_concurrent_runs, r.pause_after_failures, r.requires, r.is_shadow,
            r.delete_when_finished, r.payload, r.queue, r.priority, r.max_attempts, r.timeout_seconds, r.run_tags, r.run_metadata
        FROM jsonb_populate_record(s, said - rota.kept_fields(s.edited)) r)
    WHERE s.id = stored.id;
    PERFORM set_config('rota' || '.syncing', '', true);
    RETURN true;
END $$;
