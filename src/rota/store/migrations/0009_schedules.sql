-- Time. A schedule is a job, a timing and policies; every nominal time of it ends in exactly one
-- row of the ledger (or in one span of equal decisions). Any worker may tick: it reads what is due
-- with version and cursor, decides without holding a lock, and writes by compare-and-set.

ALTER TABLE rota.jobs ADD COLUMN default_payload jsonb CHECK (jsonb_typeof(default_payload) = 'object');

CREATE TABLE rota.calendars (
    name        text COLLATE "C" PRIMARY KEY CHECK (name <> '' AND length(name) <= 100),
    description text NOT NULL DEFAULT '',
    definition  jsonb NOT NULL CHECK (jsonb_typeof(definition) = 'object'),
    updated_at  timestamptz NOT NULL DEFAULT rota.now()
);
COMMENT ON TABLE rota.calendars IS 'Holidays, weekends and closed windows, shared by schedules.';

CREATE TABLE rota.schedule_templates (
    name        text PRIMARY KEY,
    cron        text NOT NULL,
    description text NOT NULL DEFAULT ''
);

CREATE TABLE rota.schedules (
    id                   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant               text COLLATE "C" NOT NULL DEFAULT '',
    name                 text COLLATE "C" NOT NULL CHECK (name <> '' AND length(name) <= 200),
    job                  text COLLATE "C" NOT NULL,
    description          text NOT NULL DEFAULT '',
    tags                 text[] NOT NULL DEFAULT '{}',
    metadata             jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    -- When: exactly one of four.
    cron                 text,
    interval_seconds     double precision CHECK (interval_seconds >= 1),
    run_at               timestamptz,
    init                 text CHECK (init IN ('once', 'release', 'start')),
    has_seconds          boolean NOT NULL DEFAULT false,
    timezone             text NOT NULL DEFAULT 'UTC',
    gap                  text NOT NULL DEFAULT 'run_after' CHECK (gap IN ('run_after', 'skip')),
    fold                 text NOT NULL DEFAULT 'first' CHECK (fold IN ('first', 'second', 'both')),
    every_from           text NOT NULL DEFAULT 'start' CHECK (every_from IN ('start', 'end')),
    start_at             timestamptz,
    end_at               timestamptz,
    max_runs             integer CHECK (max_runs >= 1),
    jitter_seconds       double precision NOT NULL DEFAULT 0 CHECK (jitter_seconds >= 0),
    calendar             text,
    on_closed            text NOT NULL DEFAULT 'skip' CHECK (on_closed IN ('skip', 'next_day')),
    -- What if.
    catch_up             text NOT NULL DEFAULT 'latest' CHECK (catch_up IN ('none', 'latest', 'all')),
    catch_up_seconds     double precision NOT NULL DEFAULT 86400 CHECK (catch_up_seconds >= 0),
    catch_up_limit       integer NOT NULL DEFAULT 100 CHECK (catch_up_limit >= 1),
    grace_seconds        double precision NOT NULL DEFAULT 60 CHECK (grace_seconds >= 0),
    overlap              text NOT NULL DEFAULT 'skip' CHECK (overlap IN ('skip', 'queue_one', 'queue_all', 'cancel_running', 'allow')),
    max_concurrent_runs  integer NOT NULL DEFAULT 1 CHECK (max_concurrent_runs >= 1),
    pause_after_failures integer CHECK (pause_after_failures >= 1),
    requires             jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(requires) = 'array'),
    is_shadow            boolean NOT NULL DEFAULT false,
    delete_when_finished boolean NOT NULL DEFAULT false,
    -- What its runs get.
    payload              jsonb CHECK (jsonb_typeof(payload) = 'object'),
    queue                text COLLATE "C" CHECK (queue <> ''),
    priority             smallint CHECK (priority BETWEEN 0 AND 9),
    max_attempts         smallint CHECK (max_attempts BETWEEN 1 AND 100),
    timeout_seconds      real CHECK (timeout_seconds > 0),
    run_tags             text[],
    run_metadata         jsonb CHECK (jsonb_typeof(run_metadata) = 'object'),
    -- What operators say.
    is_enabled           boolean NOT NULL DEFAULT true,
    paused_at            timestamptz,
    paused_by            text,
    pause_reason         text,
    paused_until         timestamptz,
    is_system            boolean NOT NULL DEFAULT false,
    created_at           timestamptz NOT NULL DEFAULT rota.now(),
    updated_at           timestamptz NOT NULL DEFAULT rota.now(),
    updated_by           text,
    -- Where it stands: written by the tick and by the ends of its runs.
    version              bigint NOT NULL DEFAULT 1,
    anchor_at            timestamptz,
    cursor_at            timestamptz,                   -- everything up to here is decided
    next_run_at          timestamptz,                   -- NULL: the next tick computes it
    -- Stretches that end before now and are decided already, each with the timing it had:
    -- [{timing, until, decision, reason}], oldest first.
    segments             jsonb NOT NULL DEFAULT '[]',
    ticking_until        timestamptz,
    moved_to             timestamptz,                   -- an instant that an operator set for the next time
    finished_at          timestamptz,
    parked_at            timestamptz,
    error                text,
    run_count            bigint NOT NULL DEFAULT 0,
    failures_in_a_row    integer NOT NULL DEFAULT 0,
    last_enqueued_at     timestamptz,
    last_run_at          timestamptz,
    last_run_success     boolean,
    last_success_at      timestamptz,
    last_success_for     timestamptz,
    is_ticking           boolean NOT NULL GENERATED ALWAYS AS (is_enabled AND finished_at IS NULL AND parked_at IS NULL
                                                               AND (paused_at IS NULL OR paused_until IS NOT NULL)) STORED,
    -- When a tick has something to do: at the end of the pause, at the next time, or at once.
    due_at               timestamptz GENERATED ALWAYS AS (CASE WHEN paused_at IS NULL THEN coalesce(next_run_at, '1000-01-01 00:00Z')
                                                               ELSE paused_until END) STORED,
    CONSTRAINT schedules_name UNIQUE (tenant, name),
    CONSTRAINT schedules_timing CHECK (num_nonnulls(cron, interval_seconds, run_at, init) = 1),
    CONSTRAINT schedules_pause CHECK (paused_at IS NOT NULL OR (paused_until IS NULL AND pause_reason IS NULL)),
    CONSTRAINT schedules_bounds CHECK (end_at > start_at),
    CONSTRAINT schedules_every_from CHECK (every_from = 'start' OR interval_seconds IS NOT NULL)
) WITH (fillfactor = 70);
CREATE INDEX schedules_due ON rota.schedules (due_at) WHERE is_ticking AND init IS NULL;
CREATE INDEX schedules_job ON rota.schedules (job);

CREATE INDEX open_runs_schedule ON rota.open_runs (schedule_id) WHERE schedule_id IS NOT NULL;

-- The ledger.
CREATE TABLE rota.ledger (
    schedule_id  bigint NOT NULL,
    nominal_at   timestamptz NOT NULL,
    through_at   timestamptz NOT NULL,
    count        integer NOT NULL DEFAULT 1 CHECK (count >= 1),
    decision     text COLLATE "C" NOT NULL CHECK (decision IN ('ran', 'caught_up', 'skipped', 'missed', 'superseded')),
    reason       text COLLATE "C",
    tenant       text COLLATE "C" NOT NULL,
    schedule     text COLLATE "C" NOT NULL,
    is_moved     boolean NOT NULL DEFAULT false,      -- an instant that an operator set
    details      jsonb,
    claimed_at   timestamptz NOT NULL,
    decided_at   timestamptz NOT NULL,
    decided_by   bigint,
    enqueued_at  timestamptz,
    run_id       bigint,
    -- How its run ended: the ledger outlives the runs.
    state        text COLLATE "C",
    success      boolean,
    duration_ms  real,
    lateness_ms  double precision,
    error        text,
    CONSTRAINT ledger_pkey PRIMARY KEY (schedule_id, nominal_at),
    CONSTRAINT ledger_span CHECK (through_at >= nominal_at AND (count = 1) = (through_at = nominal_at)),
    CONSTRAINT ledger_run CHECK ((run_id IS NOT NULL) = (decision IN ('ran', 'caught_up'))),
    CONSTRAINT ledger_reason CHECK (decision IN ('ran', 'caught_up') OR reason IS NOT NULL)
) PARTITION BY RANGE (nominal_at);
INSERT INTO rota.partitioned VALUES ('ledger', 7);
SELECT rota.ensure_partitions(rota.now() - interval '8 days', rota.now() + interval '7 days');

-- Times far back have a decision too (a schedule enabled again after years): partitions for the weeks of these
-- instants only.
CREATE FUNCTION rota.ensure_ledger(instants timestamptz[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    monday date;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('rota.partitions', 0));
    FOR monday IN SELECT DISTINCT date_trunc('week', at AT TIME ZONE 'UTC')::date FROM unnest(instants) AS at LOOP
        CONTINUE WHEN to_regclass('rota.ledger_' || to_char(monday, 'YYYYMMDD')) IS NOT NULL;
        EXECUTE format('CREATE TABLE rota.%I (LIKE rota.ledger INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE)',
                       'ledger_' || to_char(monday, 'YYYYMMDD'));
        EXECUTE format('ALTER TABLE rota.ledger ATTACH PARTITION rota.%I FOR VALUES FROM (%L) TO (%L)',
                       'ledger_' || to_char(monday, 'YYYYMMDD'),
                       monday::timestamp AT TIME ZONE 'UTC', (monday + 7)::timestamp AT TIME ZONE 'UTC');
    END LOOP;
END $$;

CREATE TABLE rota.backfills (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    schedule_id bigint NOT NULL,
    from_at     timestamptz NOT NULL,
    until_at    timestamptz NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT rota.now(),
    created_by  text NOT NULL,
    reason      text
);
CREATE TABLE rota.backfill_times (
    backfill_id bigint NOT NULL REFERENCES rota.backfills ON DELETE CASCADE,
    schedule_id bigint NOT NULL,
    nominal_at  timestamptz NOT NULL,
    run_id      bigint NOT NULL,
    PRIMARY KEY (backfill_id, nominal_at)
);
CREATE INDEX backfill_times_schedule ON rota.backfill_times (schedule_id, nominal_at);

CREATE VIEW rota.occurrences AS
SELECT l.schedule, l.tenant, l.nominal_at, l.through_at, l.count, l.decision, l.reason, l.claimed_at, l.decided_at, l.decided_by,
       l.enqueued_at, l.run_id,
       (SELECT max(b.run_id) FROM rota.backfill_times b
        WHERE b.schedule_id = l.schedule_id AND b.nominal_at BETWEEN l.nominal_at AND l.through_at) AS backfill_run_id,
       l.state, l.success, l.duration_ms, l.lateness_ms, l.error, l.is_moved, l.details, l.schedule_id
FROM rota.ledger l;
COMMENT ON VIEW rota.occurrences IS 'Every nominal time of every schedule with the decision taken about it.';

-- Everything that says when: what a stretch of the past was decided by.
CREATE FUNCTION rota.timing_of(s rota.schedules) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'cron', s.cron, 'interval_seconds', s.interval_seconds, 'run_at', s.run_at, 'has_seconds', s.has_seconds,
        'timezone', s.timezone, 'gap', s.gap, 'fold', s.fold, 'every_from', s.every_from,
        'start_at', s.start_at, 'end_at', s.end_at, 'anchor_at', s.anchor_at)
$$;

CREATE FUNCTION rota.bad_schedule(name text, what text, hint text DEFAULT NULL) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RAISE EXCEPTION 'schedule "%": %', name, what USING ERRCODE = 'RO002', HINT = coalesce(hint, '');
END $$;

-- Checks what SQL can check; the tick parks the rest with its error.
CREATE FUNCTION rota.check_schedule_words(s rota.schedules) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    fields constant integer := CASE WHEN s.has_seconds THEN 6 ELSE 5 END;
BEGIN
    IF NOT EXISTS (SELECT FROM rota.jobs j WHERE j.name = s.job) THEN
        PERFORM rota.unknown_job(s.job);
    END IF;
    IF s.calendar IS NOT NULL AND NOT EXISTS (SELECT FROM rota.calendars c WHERE c.name = s.calendar) THEN
        PERFORM rota.bad_schedule(s.name, format('there is no calendar "%s"', s.calendar));
    END IF;
    -- Postgres reads "EST+3" and any word with a digit as a zone of its own; names alone are IANA's.
    IF s.timezone !~ '^[A-Za-z_]+(/[A-Za-z0-9_+-]+)*$' THEN
        PERFORM rota.bad_schedule(s.name, format('unknown time zone "%s"', s.timezone), 'Use an IANA name such as Europe/Paris.');
    END IF;
    BEGIN
        PERFORM now() AT TIME ZONE s.timezone;
    EXCEPTION WHEN invalid_parameter_value THEN
        PERFORM rota.bad_schedule(s.name, format('unknown time zone "%s"', s.timezone), 'Use an IANA name such as Europe/Paris.');
    END;
    IF s.cron IS NOT NULL AND s.cron !~ '^\s*@' AND array_length(regexp_split_to_array(btrim(s.cron), '\s+'), 1) <> fields THEN
        PERFORM rota.bad_schedule(s.name, format('cron "%s" does not have %s fields', s.cron, fields),
            'Six fields, seconds first, need has_seconds.');
    END IF;
END $$;

-- Cron cannot be computed here: next_run_at becomes NULL and the tick, woken at once, fills it in.
CREATE FUNCTION rota.check_schedule() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    clock timestamptz := rota.now();
    told  text;
BEGIN
    -- The tick counts the version up itself: what it writes is no edit.
    IF TG_OP = 'UPDATE' AND NEW.version <> OLD.version THEN
        RETURN NEW;
    END IF;
    -- Only what is new: the end of a run may pause a schedule whose calendar is gone, and must not fail.
    IF TG_OP = 'INSERT' OR (NEW.job, NEW.calendar, NEW.timezone, NEW.cron, NEW.has_seconds)
       IS DISTINCT FROM (OLD.job, OLD.calendar, OLD.timezone, OLD.cron, OLD.has_seconds) THEN
        PERFORM rota.check_schedule_words(NEW);
    END IF;

    IF TG_OP = 'INSERT' THEN
        -- It owes nothing from before it was made. A start a moment ago still counts.
        NEW.anchor_at := coalesce(NEW.anchor_at, NEW.start_at, clock);
        NEW.cursor_at := coalesce(NEW.cursor_at, least(clock, CASE
            WHEN coalesce(NEW.start_at, NEW.run_at) > clock - make_interval(secs => NEW.grace_seconds)
            THEN coalesce(NEW.start_at, NEW.run_at) - interval '1 microsecond' ELSE clock END));
        RETURN NEW;
    END IF;

    told := CASE WHEN NOT OLD.is_enabled THEN 'disabled' WHEN OLD.paused_at IS NOT NULL THEN 'paused' END;
    NEW.version := OLD.version + 1;
    NEW.updated_at := clock;
    NEW.updated_by := coalesce(nullif(current_setting('rota' || '.actor', true), ''), session_user);
    IF NEW.interval_seconds IS DISTINCT FROM OLD.interval_seconds OR NEW.start_at IS DISTINCT FROM OLD.start_at THEN
        NEW.anchor_at := coalesce(NEW.start_at, clock);
    END IF;
    IF rota.timing_of(OLD) <> rota.timing_of(NEW) OR NEW.init IS DISTINCT FROM OLD.init
       OR (NOT OLD.is_enabled AND NEW.is_enabled) OR (OLD.paused_at IS NOT NULL AND NEW.paused_at IS NULL) THEN
        IF OLD.init IS NULL AND OLD.finished_at IS NULL AND clock > OLD.cursor_at THEN
            NEW.segments := OLD.segments || jsonb_build_object('timing', rota.timing_of(OLD), 'until', clock,
                'decision', CASE WHEN told IS NULL THEN 'superseded' ELSE 'skipped' END, 'reason', coalesce(told, 'edited'));
        ELSE
            NEW.cursor_at := greatest(OLD.cursor_at, clock);
        END IF;
        NEW.moved_to := NULL;
    END IF;
    -- Any edit revives; if there is nothing left to do, the tick finishes it again. It owes nothing meanwhile.
    IF OLD.finished_at IS NOT NULL THEN
        NEW.finished_at := NULL;
        NEW.cursor_at := greatest(OLD.cursor_at, clock);
    END IF;
    IF OLD.paused_at IS NOT NULL AND NEW.paused_at IS NULL THEN
        NEW.failures_in_a_row := 0;
    END IF;
    IF NEW.next_run_at IS NOT DISTINCT FROM OLD.next_run_at THEN
        NEW.next_run_at := NULL;
    END IF;
    NEW.parked_at := NULL;
    NEW.error := NULL;
    NEW.ticking_until := NULL;
    RETURN NEW;
END $$;

CREATE TRIGGER schedules_check BEFORE INSERT OR UPDATE OF
    name, tenant, job, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold, every_from, start_at, end_at, max_runs,
    jitter_seconds, calendar, on_closed, catch_up, catch_up_seconds, catch_up_limit, grace_seconds, overlap, max_concurrent_runs,
    pause_after_failures, requires, is_shadow, payload, queue, priority, max_attempts, timeout_seconds, run_tags, run_metadata,
    is_enabled, paused_at, paused_until, pause_reason
ON rota.schedules FOR EACH ROW EXECUTE FUNCTION rota.check_schedule();

-- Who changed what; and the tick wakes up.
CREATE FUNCTION rota.audit_schedule() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    hidden constant text[] := '{version,anchor_at,cursor_at,next_run_at,segments,ticking_until,moved_to,run_count,failures_in_a_row,last_enqueued_at,last_run_at,last_run_success,last_success_at,last_success_for,is_ticking,due_at,updated_at,updated_by,created_at,id}';
    before jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) - hidden END;
    after  jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) - hidden END;
BEGIN
    IF before IS DISTINCT FROM after THEN
        PERFORM rota.write_audit(NULL, CASE TG_OP WHEN 'INSERT' THEN 'schedule.created' WHEN 'DELETE' THEN 'schedule.deleted'
            ELSE CASE WHEN OLD.paused_at IS NULL AND NEW.paused_at IS NOT NULL THEN 'schedule.paused'
                      WHEN OLD.paused_at IS NOT NULL AND NEW.paused_at IS NULL THEN 'schedule.resumed'
                      WHEN NOT OLD.is_enabled AND NEW.is_enabled THEN 'schedule.enabled'
                      WHEN OLD.is_enabled AND NOT NEW.is_enabled THEN 'schedule.disabled'
                      ELSE 'schedule.updated' END END,
            'schedule', coalesce(NEW.name, OLD.name),
            CASE WHEN TG_OP = 'UPDATE' THEN (SELECT jsonb_object_agg(o.key, o.value) FROM jsonb_each(before) o WHERE o.value IS DISTINCT FROM after -> o.key) ELSE before END,
            CASE WHEN TG_OP = 'UPDATE' THEN (SELECT jsonb_object_agg(n.key, n.value) FROM jsonb_each(after) n WHERE n.value IS DISTINCT FROM before -> n.key) ELSE after END,
            CASE WHEN TG_OP = 'UPDATE' THEN NEW.pause_reason END, coalesce(NEW.tenant, OLD.tenant));
    END IF;
    PERFORM pg_notify('rota', 'schedules');
    RETURN NULL;
END $$;
CREATE TRIGGER schedules_audit AFTER INSERT OR DELETE OR UPDATE OF
    name, tenant, job, description, tags, metadata, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold, every_from, start_at,
    end_at, max_runs, jitter_seconds, calendar, on_closed, catch_up, catch_up_seconds, catch_up_limit, grace_seconds, overlap,
    max_concurrent_runs, pause_after_failures, requires, is_shadow, payload, queue, priority, max_attempts, timeout_seconds, run_tags,
    run_metadata, is_enabled, paused_at, paused_until, pause_reason, delete_when_finished, moved_to
ON rota.schedules FOR EACH ROW EXECUTE FUNCTION rota.audit_schedule();
