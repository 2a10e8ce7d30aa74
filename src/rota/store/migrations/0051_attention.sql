-- What needs somebody, and how it was before.

-- Missed times of the last day, and schedules that were paused because their runs failed: few rows among many.
CREATE INDEX ledger_missed ON rota.ledger (decided_at) WHERE decision = 'missed';
CREATE INDEX schedules_stopped ON rota.schedules (paused_at) WHERE paused_by = 'rota' AND paused_at IS NOT NULL;

-- How queues stood in each minute, for charts: what nobody could tell afterwards. Kept for nine days: a week, and the day before it.
CREATE TABLE rota.samples (
    queue          text COLLATE "C" NOT NULL,     -- '': all of them
    minute         timestamptz NOT NULL,
    queued         bigint NOT NULL,
    running        bigint NOT NULL,
    oldest_seconds double precision,              -- how long the oldest had waited that a worker could take
    pickups        bigint NOT NULL,               -- claims that were ever measured, up to then
    histogram      numeric NOT NULL,              -- of their waits, as in rollup_minutes
    PRIMARY KEY (queue, minute)
);
COMMENT ON TABLE rota.samples IS 'What waited and ran in each minute of the last nine days, and how long claims took up to then.';
INSERT INTO rota.locks (name) VALUES ('samples') ON CONFLICT DO NOTHING;

-- Once a minute, by whoever comes first. A queue that rests has no row; the two hundred busiest have.
CREATE FUNCTION rota.take_sample() RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    this_minute constant timestamptz := date_trunc('minute', rota.now());
BEGIN
    IF EXISTS (SELECT FROM rota.samples s WHERE s.queue = '' AND s.minute = this_minute) OR NOT rota.try_lock('samples') THEN
        RETURN false;
    END IF;
    WITH depths AS (
        SELECT coalesce(d.queue, '') AS queue, coalesce(sum(d.queued), 0) AS queued, coalesce(sum(d.running), 0) AS running,
               extract(epoch FROM clock_timestamp() - min(d.oldest_at))::double precision AS oldest_seconds
        FROM rota.read_depths() d GROUP BY GROUPING SETS ((d.queue), ())
    ), pickups AS (
        SELECT coalesce(c.labels ->> 'queue', '') AS queue, sum(c.amount) AS amount, rota.pack_buckets(rota.sum_buckets(c.buckets)) AS histogram,
               max(c.at) AS at
        FROM (SELECT name, labels, amount, buckets, at FROM rota.counts UNION ALL
              SELECT name, labels, amount, buckets, at FROM rota.count_changes) c
        WHERE c.name = 'pickups' AND c.buckets IS NOT NULL AND c.labels ? 'queue' GROUP BY GROUPING SETS ((c.labels ->> 'queue'), ())
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
