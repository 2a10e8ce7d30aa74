-- Figures: what stats, metrics and the live stream read. Counts are kept, not counted: none of them
-- may cost more because more runs have ended or wait.

-- Roll-ups of longer spans, and of all that ever was. Rows of job '' are for all jobs of a queue, those of job '' and
-- queue '' for everything. The minutes of single jobs are in rollups; a minute is added here when it is folded there.
CREATE TABLE rota.rollup_sums (
    span        text COLLATE "C" NOT NULL CHECK (span IN ('minute', 'hour', 'day', 'ever')),
    started_at  timestamptz NOT NULL,          -- -infinity: ever
    job         text COLLATE "C" NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    outcome     text COLLATE "C" NOT NULL,
    attempts    bigint NOT NULL,
    duration_ms double precision NOT NULL,
    longest_ms  real NOT NULL,
    buckets     bigint[] NOT NULL CHECK (cardinality(buckets) = 40),
    first_at    timestamptz NOT NULL,          -- the first minute that it holds
    PRIMARY KEY (span, started_at, job, queue, outcome)
) WITH (fillfactor = 70);
CREATE INDEX rollup_sums_job ON rota.rollup_sums (span, job, started_at);

CREATE FUNCTION rota.add_buckets(a bigint[], b bigint[]) RETURNS bigint[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT array_agg(x + y ORDER BY n) FROM unnest(a, b) WITH ORDINALITY AS t (x, y, n)
$$;
CREATE AGGREGATE rota.sum_buckets(bigint[]) (SFUNC = rota.add_buckets, STYPE = bigint[]);

-- Which sums a minute belongs to.
CREATE FUNCTION rota.spans_of(minute timestamptz) RETURNS TABLE (span text, started_at timestamptz) LANGUAGE sql IMMUTABLE AS $$
    VALUES ('minute', minute),
           ('hour', date_trunc('hour', minute AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'),
           ('day', date_trunc('day', minute AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'),
           ('ever', '-infinity'::timestamptz)
$$;

-- No minute is folded between the sums of what is folded already and the function that goes on from there.
SELECT pg_advisory_xact_lock(hashtextextended('rota.rollups', 0));
-- Each bucket by itself: the aggregate over arrays takes a hundred times as long, and there may be millions of minutes.
INSERT INTO rota.rollup_sums (span, started_at, job, queue, outcome, attempts, duration_ms, longest_ms, buckets, first_at)
SELECT s.span, s.started_at, j.job, j.queue, r.outcome, sum(r.attempts), sum(r.duration_ms), max(r.longest_ms),
       ARRAY[sum(r.buckets[1]), sum(r.buckets[2]), sum(r.buckets[3]), sum(r.buckets[4]), sum(r.buckets[5]), sum(r.buckets[6]),
       sum(r.buckets[7]), sum(r.buckets[8]), sum(r.buckets[9]), sum(r.buckets[10]), sum(r.buckets[11]), sum(r.buckets[12]),
       sum(r.buckets[13]), sum(r.buckets[14]), sum(r.buckets[15]), sum(r.buckets[16]), sum(r.buckets[17]), sum(r.buckets[18]),
       sum(r.buckets[19]), sum(r.buckets[20]), sum(r.buckets[21]), sum(r.buckets[22]), sum(r.buckets[23]), sum(r.buckets[24]),
       sum(r.buckets[25]), sum(r.buckets[26]), sum(r.buckets[27]), sum(r.buckets[28]), sum(r.buckets[29]), sum(r.buckets[30]),
       sum(r.buckets[31]), sum(r.buckets[32]), sum(r.buckets[33]), sum(r.buckets[34]), sum(r.buckets[35]), sum(r.buckets[36]),
       sum(r.buckets[37]), sum(r.buckets[38]), sum(r.buckets[39]), sum(r.buckets[40])]::bigint[], min(r.minute)
FROM rota.rollups r
CROSS JOIN LATERAL (VALUES ('minute', r.minute), ('hour', date_trunc('hour', r.minute AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'))
     AS s (span, started_at)
CROSS JOIN LATERAL (VALUES (r.job, r.queue), ('', r.queue), ('', '')) AS j (job, queue)
WHERE r.worker = 0 AND (s.span = 'hour' OR j.job = '')
GROUP BY s.span, s.started_at, j.job, j.queue, r.outcome;
INSERT INTO rota.rollup_sums (span, started_at, job, queue, outcome, attempts, duration_ms, longest_ms, buckets, first_at)
SELECT s.span, s.started_at, r.job, r.queue, r.outcome, sum(r.attempts), sum(r.duration_ms), max(r.longest_ms),
       ARRAY[sum(r.buckets[1]), sum(r.buckets[2]), sum(r.buckets[3]), sum(r.buckets[4]), sum(r.buckets[5]), sum(r.buckets[6]),
       sum(r.buckets[7]), sum(r.buckets[8]), sum(r.buckets[9]), sum(r.buckets[10]), sum(r.buckets[11]), sum(r.buckets[12]),
       sum(r.buckets[13]), sum(r.buckets[14]), sum(r.buckets[15]), sum(r.buckets[16]), sum(r.buckets[17]), sum(r.buckets[18]),
       sum(r.buckets[19]), sum(r.buckets[20]), sum(r.buckets[21]), sum(r.buckets[22]), sum(r.buckets[23]), sum(r.buckets[24]),
       sum(r.buckets[25]), sum(r.buckets[26]), sum(r.buckets[27]), sum(r.buckets[28]), sum(r.buckets[29]), sum(r.buckets[30]),
       sum(r.buckets[31]), sum(r.buckets[32]), sum(r.buckets[33]), sum(r.buckets[34]), sum(r.buckets[35]), sum(r.buckets[36]),
       sum(r.buckets[37]), sum(r.buckets[38]), sum(r.buckets[39]), sum(r.buckets[40])]::bigint[], min(r.first_at)
FROM rota.rollup_sums r CROSS JOIN LATERAL rota.spans_of(r.started_at) s
WHERE r.span = 'hour' AND s.span IN ('day', 'ever')
GROUP BY s.span, s.started_at, r.job, r.queue, r.outcome;

-- Folds closed minutes into one row for all workers, one minute at a time, and adds them to the sums.
CREATE OR REPLACE FUNCTION rota.fold_rollups(max_minutes integer) RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    closed timestamptz;
    folded integer := 0;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('rota.rollups', 0)) THEN
        RETURN 0;
    END IF;
    FOR closed IN
        SELECT DISTINCT r.minute FROM rota.rollups r
        WHERE r.worker <> 0 AND r.minute < date_trunc('minute', rota.now()) - interval '2 minutes'
        ORDER BY r.minute LIMIT max_minutes
    LOOP
        WITH gone AS (
            DELETE FROM rota.rollups r WHERE r.minute = closed RETURNING r.*
        ), kept AS (
            INSERT INTO rota.rollups (minute, job, queue, outcome, worker, attempts, duration_ms, longest_ms, buckets)
            SELECT minute, job, queue, outcome, 0, sum(attempts), sum(duration_ms), max(longest_ms), rota.sum_buckets(buckets)
            FROM gone GROUP BY minute, job, queue, outcome
        ), fresh AS (
            -- What somebody wrote late into a minute that was folded before: only that is new.
            SELECT job, queue, outcome, sum(attempts) AS attempts, sum(duration_ms) AS duration_ms, max(longest_ms) AS longest_ms,
                   rota.sum_buckets(buckets::bigint[]) AS buckets
            FROM gone WHERE worker <> 0 GROUP BY GROUPING SETS ((job, queue, outcome), (queue, outcome), (outcome))
        )
        INSERT INTO rota.rollup_sums AS t (span, started_at, job, queue, outcome, attempts, duration_ms, longest_ms, buckets, first_at)
        SELECT s.span, s.started_at, coalesce(f.job, ''), coalesce(f.queue, ''), f.outcome, f.attempts, f.duration_ms, f.longest_ms, f.buckets, closed
        FROM fresh f CROSS JOIN rota.spans_of(closed) s
        WHERE s.span <> 'minute' OR f.job IS NULL
        ORDER BY 1, 2, 3, 4, 5
        ON CONFLICT (span, started_at, job, queue, outcome) DO UPDATE SET
            attempts = t.attempts + excluded.attempts,
            duration_ms = t.duration_ms + excluded.duration_ms,
            longest_ms = greatest(t.longest_ms, excluded.longest_ms),
            buckets = rota.add_buckets(t.buckets, excluded.buckets);
        folded := folded + 1;
    END LOOP;
    RETURN folded;
END $$;

-- What happens and is no attempt: appended, so that nobody waits for anybody, and folded by upkeep. A
-- figure may have a sum and buckets, as those of roll-ups.
CREATE TABLE rota.count_changes (
    name    text COLLATE "C" NOT NULL,
    labels  jsonb NOT NULL DEFAULT '{}',
    amount  bigint NOT NULL,
    total   double precision NOT NULL DEFAULT 0,
    buckets bigint[],
    at      timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE rota.counts (
    name    text COLLATE "C" NOT NULL,
    labels  jsonb NOT NULL,
    amount  bigint NOT NULL,
    total   double precision NOT NULL,
    buckets bigint[],
    at      timestamptz NOT NULL,              -- of the last change, by the real clock
    PRIMARY KEY (name, labels)
) WITH (fillfactor = 70);

-- What a worker has counted since it last wrote.
CREATE FUNCTION rota.add_counts(names text[], labels text[], amounts bigint[], totals double precision[], all_buckets text[])
RETURNS void LANGUAGE sql VOLATILE AS $$
    INSERT INTO rota.count_changes (name, labels, amount, total, buckets)
    SELECT c.name, c.labels::jsonb, c.amount, c.total, c.buckets::bigint[]
    FROM unnest(names, labels, amounts, totals, all_buckets) AS c (name, labels, amount, total, buckets)
$$;

CREATE FUNCTION rota.fold_counts() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('rota.counts', 0)) THEN
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

-- Duplicates by a sequence: it counts those too that end in an error and are rolled back.
CREATE SEQUENCE rota.duplicates;
CREATE OR REPLACE FUNCTION rota.take_key(for_tenant text, for_job text, wanted text, taker bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    holder record;
BEGIN
    IF wanted = '' OR length(wanted) > 400 THEN
        RAISE EXCEPTION 'the key of job "%" needs 1 to 400 characters', for_job USING ERRCODE = 'RO002';
    END IF;
    LOOP
        INSERT INTO rota.keys (tenant, job, key, run_id) VALUES (for_tenant, for_job, wanted, taker)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN taker;
        END IF;
        SELECT k.run_id, k.expires_at INTO holder FROM rota.keys k
        WHERE k.tenant = for_tenant AND k.job = for_job AND k.key = wanted;
        IF holder.expires_at <= rota.now() THEN
            DELETE FROM rota.keys k
            WHERE k.tenant = for_tenant AND k.job = for_job AND k.key = wanted AND k.run_id = holder.run_id;
        ELSIF holder.run_id IS NOT NULL THEN
            PERFORM nextval('rota.duplicates');
            RETURN holder.run_id;
        END IF;
    END LOOP;
END $$;

-- Ends of runs other than success, which the attempts that succeeded count already: so a success costs nothing here.
CREATE FUNCTION rota.count_run_end() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO rota.count_changes (name, labels, amount)
    VALUES ('runs_ended', jsonb_build_object('job', NEW.job, 'queue', NEW.queue, 'state', NEW.state), 1);
    RETURN NULL;
END $$;
CREATE TRIGGER ended_runs_zcount AFTER INSERT ON rota.ended_runs FOR EACH ROW WHEN (NEW.state <> 'succeeded')
EXECUTE FUNCTION rota.count_run_end();

CREATE FUNCTION rota.count_lost_worker() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO rota.count_changes (name, amount) VALUES ('workers_lost', 1);
    RETURN NULL;
END $$;
CREATE TRIGGER workers_lost AFTER UPDATE OF state ON rota.workers FOR EACH ROW
WHEN (NEW.state = 'lost' AND OLD.state <> 'lost') EXECUTE FUNCTION rota.count_lost_worker();

-- Every decision of a tick, and how long after its nominal time it was taken.
CREATE FUNCTION rota.count_decisions() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    powers constant double precision[] := ARRAY(SELECT 2::double precision ^ n FROM generate_series(0, 38) AS n);
BEGIN
    INSERT INTO rota.count_changes (name, labels, amount)
    SELECT 'occurrences', jsonb_strip_nulls(jsonb_build_object('decision', d.decision, 'reason', d.reason)), sum(d.count)
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

-- What waits and runs, counted now and then by whoever finds the last count old. As many open runs cost a reader
-- nothing then; the figures are as old as depth_marks says.
CREATE TABLE rota.depths (
    queue     text COLLATE "C" NOT NULL,
    job       text COLLATE "C" NOT NULL,
    blocked   bigint NOT NULL,
    scheduled bigint NOT NULL,
    queued    bigint NOT NULL,                 -- with the held
    held      bigint NOT NULL,
    running   bigint NOT NULL,
    oldest_at timestamptz,                     -- since when the oldest waits that a worker may take; real clock
    PRIMARY KEY (queue, job)
) WITH (fillfactor = 50);
CREATE TABLE rota.depth_marks (
    is_only_row boolean PRIMARY KEY DEFAULT true CHECK (is_only_row),
    counted_at  timestamptz NOT NULL DEFAULT '-infinity', -- real clock
    took_ms     double precision NOT NULL DEFAULT 0
);
INSERT INTO rota.depth_marks DEFAULT VALUES;

-- Counts unless that was done less than so many seconds ago; a long count less often, so that it takes under 2 % of
-- the time. Answers whether it did.
CREATE FUNCTION rota.count_depths(max_age_seconds double precision) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    began timestamptz := clock_timestamp();
BEGIN
    IF NOT EXISTS (SELECT FROM rota.depth_marks m
                   WHERE m.counted_at <= began - make_interval(secs => greatest(max_age_seconds, m.took_ms / 20)))
       OR NOT pg_try_advisory_xact_lock(hashtextextended('rota.depths', 0)) THEN
        RETURN false;
    END IF;
    WITH counted AS MATERIALIZED (
        SELECT o.queue, o.job, count(*) FILTER (WHERE o.state = 'blocked') AS blocked,
               count(*) FILTER (WHERE o.state = 'scheduled') AS scheduled, count(*) FILTER (WHERE o.state = 'queued') AS queued,
               count(*) FILTER (WHERE o.held_by IS NOT NULL) AS held, count(*) FILTER (WHERE o.state = 'running') AS running,
               min(o.enqueued_at) FILTER (WHERE o.state = 'queued' AND o.held_by IS NULL) AS oldest_at
        FROM rota.open_runs o GROUP BY o.queue, o.job
    ), gone AS (
        DELETE FROM rota.depths d WHERE NOT EXISTS (SELECT FROM counted c WHERE c.queue = d.queue AND c.job = d.job)
    )
    INSERT INTO rota.depths AS d (queue, job, blocked, scheduled, queued, held, running, oldest_at)
    SELECT c.queue, c.job, c.blocked, c.scheduled, c.queued, c.held, c.running, c.oldest_at FROM counted c
    ON CONFLICT (queue, job) DO UPDATE SET
        blocked = excluded.blocked, scheduled = excluded.scheduled, queued = excluded.queued, held = excluded.held,
        running = excluded.running, oldest_at = excluded.oldest_at
    WHERE (d.blocked, d.scheduled, d.queued, d.held, d.running, d.oldest_at) IS DISTINCT FROM
          (excluded.blocked, excluded.scheduled, excluded.queued, excluded.held, excluded.running, excluded.oldest_at);
    UPDATE rota.depth_marks SET counted_at = began, took_ms = extract(epoch FROM clock_timestamp() - began) * 1000;
    RETURN true;
END $$;

-- Runs are counted (0017), no longer attempts; durations come from the sums: a job of a year has half a million minutes. The
-- days of the last week are whole ones.
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
        FROM rota.rollup_sums x WHERE x.span = 'ever' AND x.job = j.name
        UNION ALL
        SELECT x.attempts, x.duration_ms, x.longest_ms, x.outcome, false, true
        FROM rota.rollup_sums x WHERE x.span = 'day' AND x.job = j.name AND x.started_at > rota.now() - interval '7 days'
        UNION ALL
        SELECT x.attempts, x.duration_ms, x.longest_ms, x.outcome, true, true
        FROM rota.rollups x WHERE x.worker <> 0 AND x.job = j.name
    ) o WHERE o.outcome IN ('succeeded', 'failed', 'timed_out', 'lost')
) r ON true;

-- Last, as workers wait for it: what is not folded yet, and so in no sum.
CREATE INDEX rollups_unfolded ON rota.rollups (minute) WHERE worker <> 0;
