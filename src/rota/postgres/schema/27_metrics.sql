-- Counts that are kept and not counted again: `rollup_minutes` and `rollup_spans` (attempts by job, queue and
-- outcome, with a histogram), `counts` (what the database sees), `depths` (what waits), `samples`.
-- Writers append, somebody folds: no two of them wait for one another. View: `job_status`.

-- Two histograms, bucket by bucket.
-- Called by: fold_counts, sum_buckets.
CREATE FUNCTION rota.add_buckets(a bigint[], b bigint[]) RETURNS bigint[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT array_agg(x + y ORDER BY n) FROM unnest(a, b) WITH ORDINALITY AS t (x, y, n)
$$;

-- The sum of histograms.
-- Called by: fold_counts, sql/metrics/counters.sql, take_sample.
CREATE AGGREGATE rota.sum_buckets(bigint[]) (SFUNC = rota.add_buckets, STYPE = bigint[]);

-- A histogram as one number, sixteen digits a bucket, so that sums of numbers are sums of histograms
-- (docs/decisions/0016-histograms-as-numbers.md).
-- Called by: take_sample.
CREATE FUNCTION rota.pack_buckets(buckets bigint[]) RETURNS numeric LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT string_agg(lpad(b.count::text, 16, '0'), '' ORDER BY b.n DESC)::numeric
    FROM unnest(buckets) WITH ORDINALITY AS b (count, n)
$$;

-- The buckets of a histogram that pack_buckets made one number, or of a sum of such numbers. For scripts and psql:
-- the program reads them by itself (model/histogram.py).
CREATE FUNCTION rota.unpack_buckets(histogram numeric) RETURNS bigint[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT array_agg(substr(d.digits, 625 - 16 * n, 16)::bigint ORDER BY n)
    FROM (SELECT lpad(histogram::text, 640, '0') AS digits OFFSET 0) AS d, generate_series(0, 39) AS n
$$;

-- Attempts per minute, job, queue and outcome. Each worker writes rows of its own, so that no two of them ever wait for
-- one another; when a minute is over it is folded into one row for all.
CREATE TABLE rota.rollup_minutes (
    minute      timestamptz NOT NULL,
    job         text COLLATE "C" NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    outcome     text COLLATE "C" NOT NULL,  -- a state of an attempt
    worker      bigint NOT NULL,            -- 0: folded
    attempts    bigint NOT NULL,
    duration_ms double precision NOT NULL,  -- their sum
    longest_ms  real NOT NULL,
    -- how many lasted up to 2^n microseconds, n from 0 to 39
    histogram   numeric NOT NULL CHECK (histogram >= 0 AND scale(histogram) = 0),
    PRIMARY KEY (minute, job, queue, outcome, worker)
);
CREATE INDEX rollup_minutes_job ON rota.rollup_minutes (job, minute);
CREATE INDEX rollup_minutes_unfolded ON rota.rollup_minutes (minute) WHERE worker <> 0;

-- The same of longer spans, and of all that ever was. Rows of job '' are for all jobs of a queue, those of job '' and
-- queue '' for everything. Minutes of single jobs are not here: a minute is added when it is folded.
CREATE TABLE rota.rollup_spans (
    span        text COLLATE "C" NOT NULL CHECK (span IN ('minute', 'hour', 'day', 'ever')),
    started_at  timestamptz NOT NULL,  -- -infinity: ever
    job         text COLLATE "C" NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    outcome     text COLLATE "C" NOT NULL,
    attempts    bigint NOT NULL,
    duration_ms double precision NOT NULL,
    longest_ms  real NOT NULL,
    histogram   numeric NOT NULL CHECK (histogram >= 0 AND scale(histogram) = 0),
    first_at    timestamptz NOT NULL,  -- the first minute that it holds
    PRIMARY KEY (span, started_at, job, queue, outcome)
) WITH (fillfactor = 70);
-- Of one job, whichever queue; of one queue, and of everything.
CREATE INDEX rollup_spans_job ON rota.rollup_spans (span, job, started_at);
CREATE INDEX rollup_spans_queue ON rota.rollup_spans (span, job, queue, started_at);

-- Adds what a worker has counted since it last wrote. Sorted, like every writer of many rows.
-- Called by: count_attempt, sql/metrics/add_rollups.sql.
CREATE FUNCTION rota.add_tallies(
    for_worker bigint, jobs text[], queues text[], outcomes text[], attempts integer[],
    durations_ms double precision[], longests_ms real[], histograms numeric[]
) RETURNS void LANGUAGE sql VOLATILE SET jit = off AS $$
    INSERT INTO rota.rollup_minutes AS r (minute, job, queue, outcome, worker, attempts, duration_ms, longest_ms,
        histogram)
    SELECT date_trunc('minute', (SELECT rota.now())), t.job, t.queue, t.outcome, for_worker, t.attempts, t.duration_ms,
        t.longest_ms, t.histogram
    FROM unnest(jobs, queues, outcomes, attempts, durations_ms, longests_ms, histograms)
         AS t (job, queue, outcome, attempts, duration_ms, longest_ms, histogram)
    ORDER BY t.job, t.queue, t.outcome
    ON CONFLICT (minute, job, queue, outcome, worker) DO UPDATE SET
        attempts = r.attempts + excluded.attempts,
        duration_ms = r.duration_ms + excluded.duration_ms,
        longest_ms = greatest(r.longest_ms, excluded.longest_ms),
        histogram = r.histogram + excluded.histogram
$$;

-- The longer spans that a minute belongs to.
-- Called by: fold_rollups.
CREATE FUNCTION rota.spans_of(minute timestamptz) RETURNS TABLE (span text, started_at timestamptz)
LANGUAGE sql IMMUTABLE AS $$
    VALUES ('minute', minute),
           ('hour', date_trunc('hour', minute AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'),
           ('day', date_trunc('day', minute AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'),
           ('ever', '-infinity'::timestamptz)
$$;

-- Folds minutes that are over into one row for all workers, one minute at a time, and adds them to the longer spans. A
-- worker writes every second, into the minute of the moment: after five seconds hardly anything still comes, and what
-- comes is folded the next time.
-- Called by: postgres/upkeep.py.
-- Locks: "rollups" if it is free.
CREATE FUNCTION rota.fold_rollups(max_minutes integer) RETURNS integer LANGUAGE plpgsql VOLATILE SET jit = off
SET lock_timeout = '5s' AS $$
DECLARE
    closed timestamptz;
    folded integer := 0;
BEGIN
    IF NOT rota.try_lock('rollups') THEN
        RETURN 0;
    END IF;
    FOR closed IN
        SELECT DISTINCT r.minute FROM rota.rollup_minutes r
        WHERE r.worker <> 0 AND r.minute < date_trunc('minute', rota.now() - interval '5 seconds')
        ORDER BY r.minute LIMIT max_minutes
    LOOP
        WITH gone AS (
            DELETE FROM rota.rollup_minutes r WHERE r.minute = closed RETURNING r.*
        ), kept AS (
            INSERT INTO rota.rollup_minutes (minute, job, queue, outcome, worker, attempts, duration_ms, longest_ms,
                histogram)
            SELECT minute, job, queue, outcome, 0, sum(attempts), sum(duration_ms), max(longest_ms), sum(histogram)
            FROM gone GROUP BY minute, job, queue, outcome
        ), fresh AS (
            -- What somebody wrote late into a minute that was folded before: only that is new.
            SELECT job, queue, outcome, sum(attempts) AS attempts, sum(duration_ms) AS duration_ms,
                   max(longest_ms) AS longest_ms, sum(histogram) AS histogram
            FROM gone WHERE worker <> 0 GROUP BY GROUPING SETS ((job, queue, outcome), (queue, outcome), (outcome))
        )
        INSERT INTO rota.rollup_spans AS t (span, started_at, job, queue, outcome, attempts, duration_ms, longest_ms,
            histogram, first_at)
        SELECT s.span, s.started_at, coalesce(f.job, ''), coalesce(f.queue, ''), f.outcome, f.attempts, f.duration_ms,
               f.longest_ms, f.histogram, closed
        FROM fresh f CROSS JOIN rota.spans_of(closed) s
        WHERE s.span <> 'minute' OR f.job IS NULL
        ORDER BY 1, 2, 3, 4, 5
        ON CONFLICT (span, started_at, job, queue, outcome) DO UPDATE SET
            attempts = t.attempts + excluded.attempts,
            duration_ms = t.duration_ms + excluded.duration_ms,
            longest_ms = greatest(t.longest_ms, excluded.longest_ms),
            histogram = t.histogram + excluded.histogram,
            first_at = least(t.first_at, excluded.first_at);
        folded := folded + 1;
    END LOOP;
    RETURN folded;
END $$;

-- Counts that only grow, by name and labels.
CREATE TABLE rota.counts (
    name    text COLLATE "C" NOT NULL,
    labels  jsonb NOT NULL,
    amount  bigint NOT NULL,
    total   double precision NOT NULL,
    buckets bigint[],
    at      timestamptz NOT NULL,  -- of the last change, by the real clock
    PRIMARY KEY (name, labels)
) WITH (fillfactor = 70);

-- What happens and is no attempt: appended, so that nobody waits for anybody, and folded by upkeep. A
-- figure may have a sum and buckets, as those of roll-ups.
CREATE TABLE rota.count_changes (
    name    text COLLATE "C" NOT NULL,
    labels  jsonb NOT NULL DEFAULT '{}',
    amount  bigint NOT NULL,
    total   double precision NOT NULL DEFAULT 0,
    buckets bigint[],
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    id      bigint GENERATED ALWAYS AS IDENTITY (CACHE 50) PRIMARY KEY
);

-- Appends what a worker has counted since it last wrote.
-- Called by: sql/metrics/add_counters.sql.
CREATE FUNCTION rota.add_counts(names text[], labels text[], amounts bigint[], totals double precision[],
    all_buckets text[])
RETURNS void LANGUAGE sql VOLATILE SET jit = off AS $$
    INSERT INTO rota.count_changes (name, labels, amount, total, buckets)
    SELECT c.name, c.labels::jsonb, c.amount, c.total, c.buckets::bigint[]
    FROM unnest(names, labels, amounts, totals, all_buckets) AS c (name, labels, amount, total, buckets)
$$;

-- Moves what was appended to rota.count_changes into rota.counts. One folder at a time (lock "counts"); writers
-- never wait for it.
-- Called by: postgres/upkeep.py.
-- Locks: "counts" if it is free.
CREATE FUNCTION rota.fold_counts() RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off SET lock_timeout = '5s' AS $$
BEGIN
    IF NOT rota.try_lock('counts') THEN
        RETURN;
    END IF;
    WITH gone AS (
        DELETE FROM rota.count_changes RETURNING name, labels, amount, total, buckets, at
    )
    INSERT INTO rota.counts AS c (name, labels, amount, total, buckets, at)
    SELECT name, labels, sum(amount), sum(total), rota.sum_buckets(buckets) FILTER (WHERE buckets IS NOT NULL), max(at)
    FROM gone GROUP BY name, labels
    ON CONFLICT (name, labels) DO UPDATE SET
        amount = c.amount + excluded.amount, total = c.total + excluded.total,
        buckets = coalesce(rota.add_buckets(c.buckets, excluded.buckets), c.buckets, excluded.buckets),
        at = greatest(c.at, excluded.at);
END $$;

-- What was ever counted: folded, and what has come since.
CREATE VIEW rota.all_counts AS
SELECT name, labels, amount, total, buckets, at FROM rota.counts
UNION ALL SELECT name, labels, amount, total, buckets, at FROM rota.count_changes
UNION ALL SELECT 'runs_ended', jsonb_build_object('job', job, 'queue', queue, 'state', ended_as), 1, 0, NULL, at
FROM rota.error_changes WHERE ended_as IS NOT NULL;

-- How many runs have ended and were not retried since: a run that failed twice has failed once.
CREATE VIEW rota.run_ends AS
SELECT labels, CASE name WHEN 'runs_ended' THEN amount ELSE -amount END AS amount
FROM rota.all_counts WHERE name IN ('runs_ended', 'runs_retried');

-- Emits rota.dead_letter for a run that has failed permanently, in the transaction of its end. An event that cannot be
-- emitted, because the queue of its job is full for instance, never keeps the run from ending: the server's log has a
-- warning.
-- Called by: note_end.
CREATE FUNCTION rota.tell_dead_letter(letter jsonb) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    PERFORM FROM rota.emit('rota' || '.dead_letter', jsonb_build_object('letter', letter));
EXCEPTION WHEN others THEN
    RAISE WARNING 'the dead letter of run % could not be passed on: %', letter ->> 'run_id', SQLERRM;
END $$;

-- Trigger: what an end other than success leaves behind. It is counted by one append: of an error, which gets its
-- group, or of the end alone. An attempt that was lost with its worker is counted too, and a run that failed without
-- an attempt, because nobody knows its job, gets an error line. Successes are counted by their attempts, so that one
-- costs nothing here. One trigger, because the condition of each is made ready anew for every batch of ends.
CREATE FUNCTION rota.note_end() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    found record;
BEGIN
    IF NEW.error_type IS NULL THEN
        INSERT INTO rota.count_changes (name, labels, amount)
        VALUES ('runs_ended', jsonb_build_object('job', NEW.job, 'queue', NEW.queue, 'state', NEW.state), 1);
    ELSE
        found := rota.group_error(NEW.job, NEW.error_type, NEW.error, NEW.traceback);
        NEW.error_group := found.id;
        INSERT INTO rota.error_changes (error_group, job, queue, run_id, at, ended_as, error_type, error, file, line,
            function)
        VALUES (found.id, NEW.job, NEW.queue, NEW.id, NEW.finished_at, nullif(NEW.state, 'succeeded'),
                left(NEW.error_type, 200), left(coalesce(NEW.error, ''), 1000), found.file, found.line, found.function);
        IF NEW.state = 'failed' AND NEW.attempt_state IS NULL THEN
            PERFORM rota.log_failure(NEW.id, NEW.attempt, NEW.worker, NEW.job, NEW.tenant, NEW.error_type,
                coalesce(NEW.error, ''));
        END IF;
    END IF;
    -- A worker that lives has counted what it writes: a suspect that took only its own process with it.
    IF NEW.attempt_state = 'lost' THEN
        PERFORM rota.count_attempt(NEW.job, NEW.queue, 'lost', rota.lost_duration_ms(NEW.worker, NEW.started_at))
        WHERE NOT EXISTS (SELECT FROM rota.workers w WHERE w.id = NEW.worker AND w.state IN ('live', 'stopping'));
    END IF;
    -- Not for what the event itself has started, which would go on for ever, nor for Rota's own jobs.
    IF NEW.state = 'failed' AND NEW.queue <> 'rota' || '.system'
        AND (NEW.triggered_by ->> 'event') IS DISTINCT FROM 'rota' || '.dead_letter'
        AND EXISTS (SELECT FROM rota.event_bindings b WHERE b.pattern = 'rota' || '.dead_letter') THEN
        PERFORM rota.tell_dead_letter(jsonb_build_object('run_id', NEW.id, 'job', NEW.job, 'queue', NEW.queue,
            'tenant', NEW.tenant, 'attempt', NEW.attempt, 'end_reason', NEW.end_reason, 'error_type', NEW.error_type,
            'error', left(NEW.error, 1000), 'key', NEW.key, 'schedule', NEW.schedule,
            'finished_at', NEW.finished_at));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER ended_runs_note BEFORE INSERT ON rota.ended_runs FOR EACH ROW
WHEN (NEW.state <> 'succeeded' OR NEW.error_type IS NOT NULL) EXECUTE FUNCTION rota.note_end();

-- Counts one attempt. The row is its own, so that nobody waits for anybody, whichever rows somebody holds.
-- Called by: count_lost_attempt, note_end, time_out_run.
CREATE FUNCTION rota.count_attempt(job text, queue text, outcome text, duration_ms double precision) RETURNS void
LANGUAGE sql VOLATILE SET jit = off AS $$
    SELECT rota.add_tallies(-nextval('rota.run_ids'), ARRAY[job], ARRAY[queue], ARRAY[outcome], ARRAY[1], ARRAY[d.ms],
        ARRAY[d.ms::real],
        -- Bucket n holds what lasted less than 2^n microseconds.
        ARRAY[trunc(10::numeric ^ (16 * width_bucket(d.ms * 1000, ARRAY(SELECT 2::double precision ^ n
            FROM generate_series(0, 38) AS n))))])
    FROM (SELECT greatest(coalesce(duration_ms, 0), 0) AS ms) d
$$;

-- Trigger: counts a lost attempt that becomes a past one. With attempts left that happens while its run is still its
-- worker's. A retry of a run whose last attempt was lost writes such a row too, of an attempt that was counted when
-- the run ended.
CREATE FUNCTION rota.count_lost_attempt() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    PERFORM rota.count_attempt(o.job, o.queue, 'lost', rota.lost_duration_ms(NEW.worker, NEW.started_at))
    FROM rota.open_runs o WHERE o.id = NEW.run_id AND o.attempt = NEW.attempt AND o.worker = NEW.worker;
    RETURN NULL;
END $$;
CREATE TRIGGER past_attempts_lost AFTER INSERT ON rota.past_attempts FOR EACH ROW WHEN (NEW.state = 'lost')
EXECUTE FUNCTION rota.count_lost_attempt();

-- How long a lost attempt took: until its worker was last heard of. started_at is by the clock of the business, a
-- heartbeat by the real one.
-- Called by: count_lost_attempt, note_end.
CREATE FUNCTION rota.lost_duration_ms(of_worker bigint, since timestamptz) RETURNS double precision
LANGUAGE sql STABLE SET jit = off AS $$
    SELECT extract(epoch FROM w.heartbeat_at + s.clock_offset - since) * 1000 FROM rota.workers w, rota.settings s
    WHERE w.id = of_worker
$$;

-- Trigger: counts workers that are declared lost.
CREATE FUNCTION rota.count_lost_worker() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    INSERT INTO rota.count_changes (name, amount) VALUES ('workers_lost', 1);
    RETURN NULL;
END $$;
CREATE TRIGGER workers_lost AFTER UPDATE OF state ON rota.workers FOR EACH ROW
WHEN (NEW.state = 'lost' AND OLD.state <> 'lost') EXECUTE FUNCTION rota.count_lost_worker();

-- Trigger: counts every decision of a tick, and how long after its nominal time it was taken.
CREATE FUNCTION rota.count_decisions() RETURNS trigger LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    powers constant double precision[] := ARRAY(SELECT 2::double precision ^ n FROM generate_series(0, 38) AS n);
BEGIN
    INSERT INTO rota.count_changes (name, labels, amount)
    SELECT 'occurrences', jsonb_strip_nulls(jsonb_build_object('decision', d.decision, 'reason', d.reason)),
        sum(d.count)
    FROM decided d GROUP BY d.decision, d.reason;
    INSERT INTO rota.count_changes (name, amount, total, buckets)
    SELECT 'schedule_claims', sum(b.runs), sum(b.seconds), array_agg(coalesce(b.runs, 0)::bigint ORDER BY n.n)
    FROM generate_series(0, 39) AS n (n) LEFT JOIN (
        SELECT width_bucket(c.late, powers) AS n, count(*) AS runs, sum(c.late) / 1e6 AS seconds
        FROM (SELECT greatest(0, extract(epoch FROM d.claimed_at - d.nominal_at)::double precision * 1e6) AS late
              FROM decided d WHERE d.decision = 'ran' AND d.decided_by IS NOT NULL) c GROUP BY 1) b ON b.n = n.n
    HAVING sum(b.runs) > 0;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_count AFTER INSERT ON rota.ledger REFERENCING NEW TABLE AS decided FOR EACH STATEMENT
EXECUTE FUNCTION rota.count_decisions();

-- Counts the unfinished runs of a schedule that somebody triggered: one that counts from the end of its runs does
-- not wait for them.
-- Called by: sql/schedules/read_due.sql.
CREATE FUNCTION rota.count_triggered(schedule_id bigint) RETURNS integer LANGUAGE sql STABLE
SET enable_seqscan = off SET jit = off AS $$
    SELECT count(*)::integer FROM rota.open_runs o WHERE o.schedule_id = count_triggered.schedule_id
        AND o.scheduled_for IS NULL
$$;

-- What waits and runs, counted now and then by whoever finds the last count old. As many open runs cost a reader
-- nothing then; the figures are as old as count_marks says.
CREATE TABLE rota.depths (
    queue     text COLLATE "C" NOT NULL,
    job       text COLLATE "C" NOT NULL,
    blocked   bigint NOT NULL,
    scheduled bigint NOT NULL,
    queued    bigint NOT NULL,  -- with the held
    held      bigint NOT NULL,
    running   bigint NOT NULL,
    oldest_at timestamptz,      -- since when the oldest waits that a worker may take; real clock
    -- Counts. What is over is apart, in a column of its own: it does not wait, and is not counted among what has ended
    -- yet.
    expired   bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, job)
) WITH (fillfactor = 50);

-- When what is counted now and then was counted last (real clock), and how long it took.
CREATE TABLE rota.count_marks (
    name       text COLLATE "C" PRIMARY KEY,
    counted_at timestamptz NOT NULL,
    took_ms    double precision NOT NULL DEFAULT 0
);
INSERT INTO rota.count_marks (name, counted_at) VALUES ('depths', '2000-01-01'), ('tenants', '2000-01-01');

-- Whether the last count is older than so many seconds. A long count is made less often, so that it takes under
-- 2 % of the time, but no count that took long and no clock that was set back puts the next one off for more than
-- five minutes.
-- Called by: count_depths, count_tenants.
CREATE FUNCTION rota.is_count_due(of_name text, max_age_seconds double precision) RETURNS boolean LANGUAGE sql VOLATILE
SET jit = off AS $$
    SELECT EXISTS (SELECT FROM rota.count_marks m WHERE m.name = of_name
        AND (m.counted_at <= clock_timestamp() - make_interval(secs => greatest(max_age_seconds,
                 least(m.took_ms / 20, 300)))
             OR m.counted_at > clock_timestamp() + interval '1 minute'))
$$;

-- Notes that something was counted, from that moment until now.
-- Called by: count_depths, count_tenants.
CREATE FUNCTION rota.mark_count(of_name text, began timestamptz) RETURNS void LANGUAGE sql VOLATILE SET jit = off AS $$
    UPDATE rota.count_marks m
    SET counted_at = began, took_ms = extract(epoch FROM clock_timestamp() - began) * 1000 WHERE m.name = of_name
$$;

-- Counts open runs into rota.depths unless that was done less than so many seconds ago (is_count_due). Returns whether
-- it counted.
-- Called by: postgres/upkeep.py, read_depths.
-- Locks: "depths" if it is free.
CREATE FUNCTION rota.count_depths(max_age_seconds double precision) RETURNS boolean LANGUAGE plpgsql VOLATILE
SET jit = off SET lock_timeout = '5s' AS $$
DECLARE
    began timestamptz := clock_timestamp();
BEGIN
    IF NOT rota.is_count_due('depths', max_age_seconds) OR NOT rota.try_lock('depths') THEN
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
          (excluded.blocked, excluded.scheduled, excluded.queued, excluded.held, excluded.running, excluded.expired,
              excluded.oldest_at);
    PERFORM rota.mark_count('depths', began);
    RETURN true;
END $$;

-- What waits and runs by queue and job: counted now while that is cheap, else as it was counted last, about two
-- seconds ago or as long as a count takes.
-- Called by: sql/attention/unserved.sql, sql/jobs/depths.sql, sql/logs/of_queue.sql, sql/queues/jobs.sql,
-- sql/queues/list.sql, sql/stats/depths.sql, take_sample.
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
        FROM rota.depths d JOIN rota.count_marks m ON m.name = 'depths';
    ELSE
        RETURN QUERY SELECT c.*, clock_timestamp() FROM rota.count_open_runs() c;
    END IF;
END $$;

-- As read_depths, for callers that must not write: where there are many open runs, as they were counted last.
-- Called by: note_queue_settings, why_job, why_queue.
CREATE FUNCTION rota.kept_depths() RETURNS SETOF rota.depths LANGUAGE plpgsql STABLE SET jit = off AS $$
BEGIN
    IF rota.has_many_open_runs() THEN
        RETURN QUERY SELECT d.* FROM rota.depths d;
    ELSE
        RETURN QUERY SELECT (jsonb_populate_record(NULL::rota.depths, to_jsonb(c))).* FROM rota.count_open_runs() c;
    END IF;
END $$;

-- How queues stood in each minute, for charts: what nobody could tell afterwards. Kept for nine days: a week, and the
-- day before it.
CREATE TABLE rota.samples (
    queue          text COLLATE "C" NOT NULL,  -- '': all of them
    minute         timestamptz NOT NULL,
    queued         bigint NOT NULL,
    running        bigint NOT NULL,
    oldest_seconds double precision,           -- how long the oldest had waited that a worker could take
    pickups        bigint NOT NULL,            -- claims that were ever measured, up to then
    histogram      numeric NOT NULL,           -- of their waits, as in rollup_minutes
    PRIMARY KEY (queue, minute)
);
COMMENT ON TABLE rota.samples
    IS 'Waiting and running runs in each minute of the last nine days, and how long claimed runs waited up to then.';

-- Writes how queues stand, once a minute, by whoever comes first. A queue that rests has no row; the two hundred
-- busiest have.
-- Called by: postgres/upkeep.py.
-- Locks: "samples" if it is free.
CREATE FUNCTION rota.take_sample() RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off SET lock_timeout = '5s' AS $$
DECLARE
    this_minute constant timestamptz := date_trunc('minute', rota.now());
BEGIN
    IF EXISTS (SELECT FROM rota.samples s WHERE s.queue = '' AND s.minute = this_minute) OR NOT rota.try_lock('samples')
        THEN
        RETURN false;
    END IF;
    WITH depths AS (
        SELECT coalesce(d.queue, '') AS queue, coalesce(sum(d.queued), 0) AS queued,
               coalesce(sum(d.running), 0) AS running,
               extract(epoch FROM clock_timestamp() - min(d.oldest_at))::double precision AS oldest_seconds
        FROM rota.read_depths() d GROUP BY GROUPING SETS ((d.queue), ())
    ), pickups AS (
        SELECT coalesce(c.labels ->> 'queue', '') AS queue, sum(c.amount) AS amount,
            rota.pack_buckets(rota.sum_buckets(c.buckets)) AS histogram,
               max(c.at) AS at
        FROM rota.all_counts c
        WHERE c.name = 'pickups' AND c.buckets IS NOT NULL AND c.labels ? 'queue'
        GROUP BY GROUPING SETS ((c.labels ->> 'queue'), ())
    )
    INSERT INTO rota.samples (queue, minute, queued, running, oldest_seconds, pickups, histogram)
    SELECT coalesce(d.queue, p.queue), this_minute, coalesce(d.queued, 0), coalesce(d.running, 0), d.oldest_seconds,
           coalesce(p.amount, 0), coalesce(p.histogram, 0)
    FROM depths d FULL JOIN pickups p ON p.queue = d.queue
    WHERE coalesce(d.queue, p.queue) = '' OR d.queue IS NOT NULL OR p.at > clock_timestamp() - interval '3 minutes'
    ORDER BY coalesce(d.queue, p.queue) <> '', coalesce(d.queued, 0) + coalesce(d.running, 0) DESC, 1 LIMIT 201
    ON CONFLICT DO NOTHING;
    IF extract(minute FROM this_minute) = 0 THEN
        DELETE FROM rota.samples s WHERE s.minute < this_minute - interval '9 days';
    END IF;
    RETURN true;
END $$;

-- What lists show of each job.
CREATE VIEW rota.job_status AS
SELECT j.name, j.queue, j.is_enabled AS enabled,
       CASE WHEN j.is_enabled THEN 'active' ELSE 'disabled' END AS state,
       l.finished_at AS last_run_at, l.state = 'succeeded' AS last_run_success,
       (SELECT e.finished_at FROM rota.ended_runs e WHERE e.job = j.name AND e.state = 'succeeded'
        ORDER BY e.finished_at DESC LIMIT 1) AS last_success_at,
       s.last_enqueued_at, s.next_run_at, coalesce(s.schedules, 0) AS schedules,
       c.succeeded + c.failed + c.cancelled AS total_runs,
       round(100.0 * c.succeeded / nullif(c.succeeded + c.failed, 0), 1)::double precision AS success_rate_percent,
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
    SELECT sum(o.attempts) FILTER (WHERE o.is_ever)::bigint AS attempts,
           sum(o.attempts) FILTER (WHERE o.is_ever AND o.outcome = 'succeeded')::bigint AS succeeded,
           sum(o.duration_ms) FILTER (WHERE o.is_ever) AS duration_ms,
           max(o.longest_ms) FILTER (WHERE o.is_ever) AS longest_ms,
           max(o.longest_ms) FILTER (WHERE o.is_young) AS longest_ms_7d
    FROM (
        SELECT x.attempts, x.duration_ms, x.longest_ms, x.outcome, true AS is_ever, false AS is_young
        FROM rota.rollup_spans x WHERE x.span = 'ever' AND x.job = j.name
        UNION ALL
        SELECT x.attempts, x.duration_ms, x.longest_ms, x.outcome, false, true
        FROM rota.rollup_spans x WHERE x.span = 'day' AND x.job = j.name
            AND x.started_at > rota.now() - interval '7 days'
        UNION ALL
        SELECT x.attempts, x.duration_ms, x.longest_ms, x.outcome, true, true
        FROM rota.rollup_minutes x WHERE x.worker <> 0 AND x.job = j.name
    ) o WHERE o.outcome IN ('succeeded', 'failed', 'timed_out', 'lost')
) r ON true
-- A run succeeds once, by one attempt; other ends are counted themselves, until the run is retried.
LEFT JOIN (
    SELECT a.labels ->> 'job' AS job, sum(a.amount) FILTER (WHERE a.labels ->> 'state' = 'failed') AS failed,
           sum(a.amount) FILTER (WHERE a.labels ->> 'state' = 'cancelled') AS cancelled
    FROM rota.run_ends a GROUP BY 1
) k ON k.job = j.name
CROSS JOIN LATERAL (SELECT coalesce(r.succeeded, 0) AS succeeded, coalesce(k.failed, 0)::bigint AS failed,
    coalesce(k.cancelled, 0)::bigint AS cancelled) c;
COMMENT ON VIEW rota.job_status
    IS 'The status of each job: its last runs, its next time, the durations of its attempts.';
