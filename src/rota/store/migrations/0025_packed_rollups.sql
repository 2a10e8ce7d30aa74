-- Roll-ups whose histograms are numbers: the count of bucket n stands in the n-th sixteen digits from the right, so that + and sum() add
-- histograms. As arrays they took forty sums for each row that was read, and two calls of a function for each that was written.

-- No fold until this is done. What is folded changes by nothing else, so it is copied while workers write and others read.
SELECT pg_advisory_xact_lock(hashtextextended('rota.rollups', 0));

CREATE FUNCTION rota.pack_buckets(buckets bigint[]) RETURNS numeric LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT string_agg(lpad(b.count::text, 16, '0'), '' ORDER BY b.n DESC)::numeric FROM unnest(buckets) WITH ORDINALITY AS b (count, n)
$$;
CREATE FUNCTION rota.unpack_buckets(histogram numeric) RETURNS bigint[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT array_agg(substr(d.digits, 625 - 16 * n, 16)::bigint ORDER BY n)
    FROM (SELECT lpad(histogram::text, 640, '0') AS digits OFFSET 0) AS d, generate_series(0, 39) AS n
$$;

-- Attempts per minute, job, queue and outcome. Each worker writes rows of its own, so that no two of them ever wait for one another;
-- when a minute is over it is folded into one row for all.
CREATE TABLE rota.rollup_minutes (
    minute      timestamptz NOT NULL,
    job         text COLLATE "C" NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    outcome     text COLLATE "C" NOT NULL,     -- a state of an attempt
    worker      bigint NOT NULL,               -- 0: folded
    attempts    bigint NOT NULL,
    duration_ms double precision NOT NULL,     -- their sum
    longest_ms  real NOT NULL,
    histogram   numeric NOT NULL CHECK (histogram >= 0 AND scale(histogram) = 0) -- how many lasted up to 2^n microseconds, n from 0 to 39
);
INSERT INTO rota.rollup_minutes
SELECT minute, job, queue, outcome, worker, attempts, duration_ms, longest_ms, rota.pack_buckets(buckets) FROM rota.rollups WHERE worker = 0;
ALTER TABLE rota.rollup_minutes ADD PRIMARY KEY (minute, job, queue, outcome, worker);
CREATE INDEX rollup_minutes_job ON rota.rollup_minutes (job, minute);
CREATE INDEX rollup_minutes_unfolded ON rota.rollup_minutes (minute) WHERE worker <> 0;

-- The same of longer spans, and of all that ever was. Rows of job '' are for all jobs of a queue, those of job '' and queue '' for
-- everything. Minutes of single jobs are not here: a minute is added when it is folded.
CREATE TABLE rota.rollup_spans (
    span        text COLLATE "C" NOT NULL CHECK (span IN ('minute', 'hour', 'day', 'ever')),
    started_at  timestamptz NOT NULL,          -- -infinity: ever
    job         text COLLATE "C" NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    outcome     text COLLATE "C" NOT NULL,
    attempts    bigint NOT NULL,
    duration_ms double precision NOT NULL,
    longest_ms  real NOT NULL,
    histogram   numeric NOT NULL CHECK (histogram >= 0 AND scale(histogram) = 0),
    first_at    timestamptz NOT NULL           -- the first minute that it holds
) WITH (fillfactor = 70);
INSERT INTO rota.rollup_spans
SELECT span, started_at, job, queue, outcome, attempts, duration_ms, longest_ms, rota.pack_buckets(buckets), first_at FROM rota.rollup_sums;
ALTER TABLE rota.rollup_spans ADD PRIMARY KEY (span, started_at, job, queue, outcome);
-- Of one job, whichever queue; of one queue, and of everything.
CREATE INDEX rollup_spans_job ON rota.rollup_spans (span, job, started_at);
CREATE INDEX rollup_spans_queue ON rota.rollup_spans (span, job, queue, started_at);

-- Adds what a worker has counted since it last wrote. Sorted, like every writer of many rows.
CREATE FUNCTION rota.add_tallies(
    for_worker bigint, jobs text[], queues text[], outcomes text[], attempts integer[],
    durations_ms double precision[], longests_ms real[], histograms numeric[]
) RETURNS void LANGUAGE sql VOLATILE AS $$
    INSERT INTO rota.rollup_minutes AS r (minute, job, queue, outcome, worker, attempts, duration_ms, longest_ms, histogram)
    SELECT date_trunc('minute', (SELECT rota.now())), t.job, t.queue, t.outcome, for_worker, t.attempts, t.duration_ms, t.longest_ms, t.histogram
    FROM unnest(jobs, queues, outcomes, attempts, durations_ms, longests_ms, histograms)
         AS t (job, queue, outcome, attempts, duration_ms, longest_ms, histogram)
    ORDER BY t.job, t.queue, t.outcome
    ON CONFLICT (minute, job, queue, outcome, worker) DO UPDATE SET
        attempts = r.attempts + excluded.attempts,
        duration_ms = r.duration_ms + excluded.duration_ms,
        longest_ms = greatest(r.longest_ms, excluded.longest_ms),
        histogram = r.histogram + excluded.histogram
$$;

-- Folds minutes that are over into one row for all workers, one minute at a time, and adds them to the longer spans. A worker writes
-- every second, into the minute of the moment: after five seconds hardly anything still comes, and what comes is folded the next time.
CREATE OR REPLACE FUNCTION rota.fold_rollups(max_minutes integer) RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    closed timestamptz;
    folded integer := 0;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('rota.rollups', 0)) THEN
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
            INSERT INTO rota.rollup_minutes (minute, job, queue, outcome, worker, attempts, duration_ms, longest_ms, histogram)
            SELECT minute, job, queue, outcome, 0, sum(attempts), sum(duration_ms), max(longest_ms), sum(histogram)
            FROM gone GROUP BY minute, job, queue, outcome
        ), fresh AS (
            -- What somebody wrote late into a minute that was folded before: only that is new.
            SELECT job, queue, outcome, sum(attempts) AS attempts, sum(duration_ms) AS duration_ms, max(longest_ms) AS longest_ms,
                   sum(histogram) AS histogram
            FROM gone WHERE worker <> 0 GROUP BY GROUPING SETS ((job, queue, outcome), (queue, outcome), (outcome))
        )
        INSERT INTO rota.rollup_spans AS t (span, started_at, job, queue, outcome, attempts, duration_ms, longest_ms, histogram, first_at)
        SELECT s.span, s.started_at, coalesce(f.job, ''), coalesce(f.queue, ''), f.outcome, f.attempts, f.duration_ms, f.longest_ms,
               f.histogram, closed
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

-- Rows of the small tables that are kept by time, the oldest first.
CREATE OR REPLACE FUNCTION rota.prune_rows(relation text, before_at timestamptz, max_rows integer) RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    removed integer;
BEGIN
    CASE relation
    WHEN 'rollups' THEN
        DELETE FROM rota.rollup_minutes r WHERE r.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.rollup_minutes o WHERE o.minute < before_at ORDER BY o.minute LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'rollup_sums' THEN
        DELETE FROM rota.rollup_spans r WHERE r.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.rollup_spans o WHERE o.span <> 'ever' AND o.started_at < before_at LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'schedule_days' THEN
        DELETE FROM rota.schedule_days d WHERE d.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.schedule_days o WHERE o.day < (before_at AT TIME ZONE 'UTC')::date LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'id_marks' THEN
        DELETE FROM rota.id_marks m WHERE m.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.id_marks o WHERE o.at < before_at LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'audit' THEN
        -- Ids rise with the time: nothing behind the first that is young enough is looked at.
        DELETE FROM rota.audit a WHERE a.id IN (
            SELECT o.id FROM (SELECT e.id, e.at FROM rota.audit e ORDER BY e.id LIMIT max_rows) o WHERE o.at < before_at);
    END CASE;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;

-- From here on others wait. The view first, and the tables in the order of their readers: nobody who holds one of them waits for another.
CREATE OR REPLACE VIEW rota.job_status AS
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
LEFT JOIN rota.job_counts k ON k.job = j.name
LEFT JOIN LATERAL (
    SELECT coalesce(k.succeeded, 0) + count(*) FILTER (WHERE e.state = 'succeeded') AS succeeded,
           coalesce(k.failed, 0) + count(*) FILTER (WHERE e.state = 'failed') AS failed,
           coalesce(k.cancelled, 0) + count(*) FILTER (WHERE e.state = 'cancelled') AS cancelled
    FROM rota.ended_runs e WHERE e.job = j.name AND e.finished_at > coalesce(k.counted_to, '-infinity')
) c ON true
LEFT JOIN LATERAL (
    SELECT sum(o.attempts) FILTER (WHERE o.is_ever)::bigint AS attempts, sum(o.duration_ms) FILTER (WHERE o.is_ever) AS duration_ms,
           max(o.longest_ms) FILTER (WHERE o.is_ever) AS longest_ms, max(o.longest_ms) FILTER (WHERE o.is_young) AS longest_ms_7d
    FROM (
        SELECT x.attempts, x.duration_ms, x.longest_ms, x.outcome, true AS is_ever, false AS is_young
        FROM rota.rollup_spans x WHERE x.span = 'ever' AND x.job = j.name
        UNION ALL
        SELECT x.attempts, x.duration_ms, x.longest_ms, x.outcome, false, true
        FROM rota.rollup_spans x WHERE x.span = 'day' AND x.job = j.name AND x.started_at > rota.now() - interval '7 days'
        UNION ALL
        SELECT x.attempts, x.duration_ms, x.longest_ms, x.outcome, true, true
        FROM rota.rollup_minutes x WHERE x.worker <> 0 AND x.job = j.name
    ) o WHERE o.outcome IN ('succeeded', 'failed', 'timed_out', 'lost')
) r ON true;

LOCK TABLE rota.rollup_sums, rota.rollups IN ACCESS EXCLUSIVE MODE;
INSERT INTO rota.rollup_minutes
SELECT minute, job, queue, outcome, worker, attempts, duration_ms, longest_ms, rota.pack_buckets(buckets) FROM rota.rollups WHERE worker <> 0;
DROP TABLE rota.rollups, rota.rollup_sums;
DROP AGGREGATE rota.sum_buckets(integer[]);
DROP FUNCTION rota.add_buckets(integer[], integer[]);

-- For the release before, which reads arrays and writes them.
CREATE VIEW rota.rollups AS
SELECT minute, job, queue, outcome, worker, attempts, duration_ms, longest_ms, rota.unpack_buckets(histogram)::integer[] AS buckets
FROM rota.rollup_minutes;
CREATE VIEW rota.rollup_sums AS
SELECT span, started_at, job, queue, outcome, attempts, duration_ms, longest_ms, rota.unpack_buckets(histogram) AS buckets, first_at
FROM rota.rollup_spans;
CREATE OR REPLACE FUNCTION rota.add_rollups(
    for_worker bigint, jobs text[], queues text[], outcomes text[], attempts integer[],
    durations_ms double precision[], longests_ms real[], all_buckets text[]
) RETURNS void LANGUAGE sql VOLATILE AS $$
    SELECT rota.add_tallies(for_worker, jobs, queues, outcomes, attempts, durations_ms, longests_ms,
        ARRAY(SELECT rota.pack_buckets(b.buckets::bigint[]) FROM unnest(all_buckets) WITH ORDINALITY AS b (buckets, n) ORDER BY b.n))
$$;
