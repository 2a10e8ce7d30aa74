-- What is known of tenants without counting anew: what waits, as it was counted last, and what was done on each day. Changes are appended
-- and folded by workers, so that nobody waits for a row that all write to.
CREATE TABLE rota.tenant_depths (
    tenant    text COLLATE "C" PRIMARY KEY,
    blocked   bigint NOT NULL DEFAULT 0,
    scheduled bigint NOT NULL DEFAULT 0,
    queued    bigint NOT NULL DEFAULT 0,
    held      bigint NOT NULL DEFAULT 0,          -- of the queued ones
    running   bigint NOT NULL DEFAULT 0,
    waiting   bigint NOT NULL DEFAULT 0,          -- what quotas compare: of a tenant that has one it is counted every second
    oldest_at timestamptz
);
COMMENT ON TABLE rota.tenant_depths IS 'What waits and runs by tenant, as it was counted last.';
CREATE TABLE rota.tenant_marks (
    is_only    boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    counted_at timestamptz NOT NULL,
    took_ms    double precision NOT NULL
);
INSERT INTO rota.tenant_marks VALUES (true, '2000-01-01', 0);
COMMENT ON TABLE rota.tenant_marks IS 'When tenants were counted, and how long that took.';

CREATE TABLE rota.tenant_days (
    tenant    text COLLATE "C" NOT NULL,
    day       date NOT NULL,                      -- UTC
    enqueued  bigint NOT NULL DEFAULT 0,          -- of tenants that have a quota by the day
    bytes     bigint NOT NULL DEFAULT 0,
    succeeded bigint NOT NULL DEFAULT 0,          -- attempts
    failed    bigint NOT NULL DEFAULT 0,
    other     bigint NOT NULL DEFAULT 0,          -- cancelled, snoozed
    seconds   double precision NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, day)
) WITH (fillfactor = 70);
CREATE INDEX tenant_days_day ON rota.tenant_days (day);
COMMENT ON TABLE rota.tenant_days IS 'What each tenant enqueued and how its attempts ended, by day.';
CREATE TABLE rota.tenant_changes (
    tenant    text COLLATE "C" NOT NULL,
    day       date NOT NULL DEFAULT (rota.now() AT TIME ZONE 'UTC')::date,
    enqueued  bigint NOT NULL DEFAULT 0,
    bytes     bigint NOT NULL DEFAULT 0,
    succeeded bigint NOT NULL DEFAULT 0,
    failed    bigint NOT NULL DEFAULT 0,
    other     bigint NOT NULL DEFAULT 0,
    seconds   double precision NOT NULL DEFAULT 0
);
COMMENT ON TABLE rota.tenant_changes IS 'What has come since tenant_days was written.';

-- Called with each enqueue that names a tenant: its name, and its quota if it has one. What it compares with is about a second old, and
-- nothing is counted in the caller's transaction.
CREATE FUNCTION rota.check_quota(tenant text, runs bigint DEFAULT 1, bytes bigint DEFAULT 0) RETURNS void
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET jit = off AS $$
DECLARE
    today date := (rota.now() AT TIME ZONE 'UTC')::date;
    q     record;
    fault text;
    hint  text;
BEGIN
    PERFORM rota.check_tenant(check_quota.tenant);
    SELECT t.max_waiting, t.max_runs_per_day, t.max_bytes_per_day, coalesce(d.waiting, 0) AS waiting,
           coalesce(y.enqueued, 0) AS enqueued, coalesce(y.bytes, 0) AS bytes INTO q
    FROM rota.tenants t LEFT JOIN rota.tenant_depths d ON d.tenant = t.name LEFT JOIN rota.tenant_days y ON y.tenant = t.name AND y.day = today
    WHERE t.name = check_quota.tenant AND num_nonnulls(t.max_waiting, t.max_runs_per_day, t.max_bytes_per_day) > 0;
    IF NOT FOUND THEN
        RETURN;
    ELSIF q.waiting + check_quota.runs > q.max_waiting THEN
        fault := format('tenant "%s" has %s waiting, and may have %s', check_quota.tenant, rota.plural_words(q.waiting, 'run'), rota.number_words(q.max_waiting));
        hint := 'Enqueue again when some have ended, or raise max_waiting by rota tenants set.';
    ELSIF q.enqueued + check_quota.runs > q.max_runs_per_day THEN
        fault := format('tenant "%s" has enqueued %s today, and may enqueue %s a day', check_quota.tenant, rota.plural_words(q.enqueued, 'run'), rota.number_words(q.max_runs_per_day));
        hint := 'The next day begins at 00:00 UTC; or raise max_runs_per_day by rota tenants set.';
    ELSIF q.bytes + check_quota.bytes > q.max_bytes_per_day THEN
        fault := format('tenant "%s" has enqueued payloads of %s today, and may enqueue %s a day', check_quota.tenant, rota.plural_words(q.bytes, 'byte'), rota.number_words(q.max_bytes_per_day));
        hint := 'The next day begins at 00:00 UTC; or raise max_bytes_per_day by rota tenants set.';
    ELSE
        INSERT INTO rota.tenant_changes (tenant, day, enqueued, bytes)
        SELECT check_quota.tenant, today, check_quota.runs, check_quota.bytes WHERE num_nonnulls(q.max_runs_per_day, q.max_bytes_per_day) > 0;
        RETURN;
    END IF;
    RAISE EXCEPTION '%', fault USING ERRCODE = 'RO031', HINT = hint;
END $$;

CREATE FUNCTION rota.fold_tenants() RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off SET lock_timeout = '5s' AS $$
BEGIN
    WITH gone AS (
        DELETE FROM rota.tenant_changes RETURNING tenant, day, enqueued, bytes, succeeded, failed, other, seconds
    )
    INSERT INTO rota.tenant_days AS d (tenant, day, enqueued, bytes, succeeded, failed, other, seconds)
    SELECT tenant, day, sum(enqueued), sum(bytes), sum(succeeded), sum(failed), sum(other), sum(seconds)
    FROM gone GROUP BY tenant, day ORDER BY tenant, day
    ON CONFLICT (tenant, day) DO UPDATE SET enqueued = d.enqueued + excluded.enqueued, bytes = d.bytes + excluded.bytes,
        succeeded = d.succeeded + excluded.succeeded, failed = d.failed + excluded.failed, other = d.other + excluded.other,
        seconds = d.seconds + excluded.seconds;
END $$;

-- Of all tenants, as often as it is worth: a count that took long is not made again soon.
CREATE FUNCTION rota.count_tenants(max_age_seconds double precision) RETURNS boolean LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off SET lock_timeout = '5s' AS $$
DECLARE
    began timestamptz := clock_timestamp();
BEGIN
    IF NOT EXISTS (SELECT FROM rota.tenant_marks m
                   WHERE m.counted_at <= began - make_interval(secs => greatest(max_age_seconds, least(m.took_ms / 20, 300)))
                      OR m.counted_at > began + interval '1 minute') THEN
        RETURN false;
    END IF;
    WITH counted AS MATERIALIZED (
        SELECT o.tenant, count(*) FILTER (WHERE o.state = 'blocked') AS blocked, count(*) FILTER (WHERE o.state = 'scheduled') AS scheduled,
               count(*) FILTER (WHERE o.state = 'queued') AS queued, count(*) FILTER (WHERE o.held_by IS NOT NULL) AS held,
               count(*) FILTER (WHERE o.state = 'running') AS running, count(*) FILTER (WHERE o.state <> 'running') AS waiting,
               min(o.enqueued_at) FILTER (WHERE o.state = 'queued' AND o.held_by IS NULL) AS oldest_at
        FROM rota.open_runs o WHERE o.tenant <> '' GROUP BY o.tenant
    ), gone AS (
        DELETE FROM rota.tenant_depths d WHERE NOT EXISTS (SELECT FROM counted c WHERE c.tenant = d.tenant)
    )
    INSERT INTO rota.tenant_depths AS d (tenant, blocked, scheduled, queued, held, running, waiting, oldest_at)
    SELECT c.tenant, c.blocked, c.scheduled, c.queued, c.held, c.running, c.waiting, c.oldest_at FROM counted c
    ON CONFLICT (tenant) DO UPDATE SET blocked = excluded.blocked, scheduled = excluded.scheduled, queued = excluded.queued, held = excluded.held,
        running = excluded.running, waiting = excluded.waiting, oldest_at = excluded.oldest_at
    WHERE (d.blocked, d.scheduled, d.queued, d.held, d.running, d.waiting, d.oldest_at) IS DISTINCT FROM
          (excluded.blocked, excluded.scheduled, excluded.queued, excluded.held, excluded.running, excluded.waiting, excluded.oldest_at);
    UPDATE rota.tenant_marks SET counted_at = began, took_ms = extract(epoch FROM clock_timestamp() - began) * 1000;
    RETURN true;
END $$;

-- Of those that may have only so many waiting: counted up to that number, and no further.
CREATE FUNCTION rota.count_waiting() RETURNS void LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET lock_timeout = '5s' AS $$
DECLARE
    one   record;
    found bigint;
BEGIN
    FOR one IN SELECT t.name, t.max_waiting FROM rota.tenants t WHERE t.max_waiting IS NOT NULL ORDER BY t.name LOOP
        SELECT count(*) INTO found FROM (
            SELECT FROM rota.open_runs o WHERE o.tenant = one.name AND o.tenant <> '' AND o.state <> 'running' LIMIT one.max_waiting + 1) w;
        INSERT INTO rota.tenant_depths AS d (tenant, waiting) VALUES (one.name, found)
        ON CONFLICT (tenant) DO UPDATE SET waiting = excluded.waiting WHERE d.waiting <> excluded.waiting;
    END LOOP;
END $$;

-- One turn of a worker. Answers how many runs it held or freed, and after how many seconds somebody should look again; NULL: nobody is
-- in a hurry. Where no run has a tenant, it costs three looks at empty indexes.
CREATE FUNCTION rota.tend_tenants(max_runs integer, OUT moved integer, OUT next_seconds double precision) LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET jit = off SET lock_timeout = '5s' AS $$
DECLARE
    began   timestamptz := clock_timestamp();
    pauses  record;
    has_max boolean := EXISTS (SELECT FROM rota.tenants t WHERE num_nonnulls(t.max_waiting, t.max_runs_per_day, t.max_bytes_per_day) > 0);
BEGIN
    SELECT * INTO pauses FROM rota.tend_pauses(max_runs);
    moved := pauses.moved;
    IF pauses.is_wanted OR has_max THEN
        next_seconds := 1;
    END IF;
    IF NOT (has_max OR EXISTS (SELECT FROM rota.tenant_changes) OR EXISTS (SELECT FROM rota.open_runs o WHERE o.tenant <> '')
            OR EXISTS (SELECT FROM rota.tenant_depths)) OR NOT rota.try_lock('tenants') THEN
        RETURN;
    END IF;
    PERFORM rota.fold_tenants();
    PERFORM rota.count_tenants(4);
    IF has_max THEN
        PERFORM rota.count_waiting();
        -- At most a tenth of somebody's time goes into it.
        next_seconds := greatest(next_seconds, 10 * extract(epoch FROM clock_timestamp() - began));
    END IF;
END $$;
