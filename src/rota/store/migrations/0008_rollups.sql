-- Counts are kept, not counted: attempts per minute, job, queue and outcome. Each worker writes
-- rows of its own, so that no two of them ever wait for one another; what is older than a few
-- minutes is folded together.

CREATE TABLE rota.rollups (
    minute      timestamptz NOT NULL,
    job         text COLLATE "C" NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    outcome     text COLLATE "C" NOT NULL,     -- a state of an attempt
    worker      bigint NOT NULL,               -- 0: folded
    attempts    bigint NOT NULL,
    duration_ms double precision NOT NULL,     -- their sum
    longest_ms  real NOT NULL,
    -- How many lasted up to 2^n microseconds, n from 0 to 39: fixed, so that minutes add up.
    buckets     integer[] NOT NULL CHECK (cardinality(buckets) = 40 AND array_position(buckets, NULL) IS NULL),
    PRIMARY KEY (minute, job, queue, outcome, worker)
);
CREATE INDEX rollups_job ON rota.rollups (job, minute);

CREATE FUNCTION rota.add_buckets(a integer[], b integer[]) RETURNS integer[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT array_agg(x + y ORDER BY n) FROM unnest(a, b) WITH ORDINALITY AS t (x, y, n)
$$;

-- Adds what a worker has counted since it last wrote. Sorted, like every writer of many rows.
CREATE FUNCTION rota.add_rollups(
    for_worker bigint, jobs text[], queues text[], outcomes text[], attempts integer[],
    durations_ms double precision[], longests_ms real[], all_buckets text[]
) RETURNS void LANGUAGE sql VOLATILE AS $$
    INSERT INTO rota.rollups AS r (minute, job, queue, outcome, worker, attempts, duration_ms, longest_ms, buckets)
    SELECT date_trunc('minute', (SELECT rota.now())), t.job, t.queue, t.outcome, for_worker, t.attempts, t.duration_ms, t.longest_ms,
           t.buckets::integer[]
    FROM unnest(jobs, queues, outcomes, attempts, durations_ms, longests_ms, all_buckets)
         AS t (job, queue, outcome, attempts, duration_ms, longest_ms, buckets)
    ORDER BY t.job, t.queue, t.outcome
    ON CONFLICT (minute, job, queue, outcome, worker) DO UPDATE SET
        attempts = r.attempts + excluded.attempts,
        duration_ms = r.duration_ms + excluded.duration_ms,
        longest_ms = greatest(r.longest_ms, excluded.longest_ms),
        buckets = rota.add_buckets(r.buckets, excluded.buckets)
$$;

CREATE AGGREGATE rota.sum_buckets(integer[]) (SFUNC = rota.add_buckets, STYPE = integer[]);

-- Folds closed minutes into one row for all workers, one minute at a time.
CREATE FUNCTION rota.fold_rollups(max_minutes integer) RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
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
        )
        INSERT INTO rota.rollups (minute, job, queue, outcome, worker, attempts, duration_ms, longest_ms, buckets)
        SELECT minute, job, queue, outcome, 0, sum(attempts), sum(duration_ms), max(longest_ms), rota.sum_buckets(buckets)
        FROM gone GROUP BY minute, job, queue, outcome;
        folded := folded + 1;
    END LOOP;
    RETURN folded;
END $$;
