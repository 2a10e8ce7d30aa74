-- How long history is kept. A run goes to partitions by its class (`keep_rules`: short, standard, long);
-- `prune_runs`, `prune_rows`, `prune_lines` remove what is past its time, in small steps, whole partitions where
-- that is possible. `pruning_runs` and `pruning_logs` keep two passes apart.

-- What is kept for a shorter time than usual: in partitions of its own, so that each of them goes as a whole.
CREATE TABLE rota.ended_runs_short PARTITION OF rota.ended_runs FOR
    VALUES IN ('short') PARTITION BY RANGE (finished_at);

-- What is kept for longer than usual.
CREATE TABLE rota.ended_runs_long PARTITION OF rota.ended_runs FOR VALUES IN ('long') PARTITION BY RANGE (finished_at);

-- Few partitions beat many: what is kept for a year lies in stretches of four weeks.
INSERT INTO rota.partitioned VALUES ('ended_runs_short', 7), ('ended_runs_long', 28);
SELECT rota.ensure_partitions(rota.now() - interval '1 day', rota.now() + interval '7 days');

-- What a job's runs are kept in, by outcome: short, standard or long. Only what differs from standard has a row; job
-- '': of every job that says nothing. A finish looks once whether there is any.
CREATE TABLE rota.keep_rules (
    job        text COLLATE "C" NOT NULL,
    state      text COLLATE "C" NOT NULL CHECK (state IN ('succeeded', 'failed', 'cancelled')),
    keep_class text COLLATE "C" NOT NULL CHECK (keep_class IN ('short', 'standard', 'long')),
    PRIMARY KEY (job, state)
);

-- The class of partitions that a run of this job with this end goes to.
-- Called by: end_waiting_runs.
CREATE FUNCTION rota.keep_class_of(job text, state text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT k.keep_class FROM rota.keep_rules k
        WHERE k.job = keep_class_of.job AND k.state = keep_class_of.state),
                    (SELECT k.keep_class FROM rota.keep_rules k WHERE k.job = '' AND k.state = keep_class_of.state),
                    'standard')
$$;

-- The class of partitions for what is kept so many days: short, standard or long.
-- Called by: write_keep_rules.
CREATE FUNCTION rota.keep_class_for(days integer, defaults jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN days <= (defaults ->> 'short_days')::integer THEN 'short'
                WHEN days <= (defaults ->> 'run_days')::integer THEN 'standard' ELSE 'long' END
$$;

-- For how many days a run that ended like this is kept. A job that says one number means it for failures too.
-- Called by: write_keep_rules.
CREATE FUNCTION rota.run_days(policy jsonb, state text, defaults jsonb) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(CASE WHEN state = 'failed' THEN policy ->> 'failed_days' END, policy ->> 'days',
                    CASE WHEN state = 'failed' THEN defaults ->> 'failed_run_days' END,
                    defaults ->> 'run_days')::integer
$$;

-- A policy of retention follows the code until somebody touches it.
-- Called by: before_job.
CREATE FUNCTION rota.check_retention(new rota.jobs, old rota.jobs) RETURNS rota.jobs
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    longest integer := (SELECT (s.retention ->> 'long_days')::integer FROM rota.settings s);
    part    record;
BEGIN
    IF rota.is_syncing() AND NEW.code ? 'retention' AND NOT NEW.edited ? 'retention' THEN
        NEW.retention := nullif(NEW.code -> 'retention', 'null');
    END IF;
    IF jsonb_typeof(NEW.retention) <> 'object' THEN
        PERFORM rota.bad_job(NEW.name, format('retention must be a JSON object, not %s', NEW.retention));
    END IF;
    FOR part IN SELECT * FROM jsonb_each(NEW.retention) LOOP
        IF part.key NOT IN ('days', 'count', 'failed_days', 'failed_count', 'log_days', 'log_count', 'failed_log_days')
            THEN
            PERFORM rota.bad_job(NEW.name, format('retention has an unknown option "%s"', part.key),
                'Choose from days, count, failed_days, failed_count, log_days, log_count, failed_log_days.');
        ELSIF part.value <> 'null' AND (jsonb_typeof(part.value) <> 'number' OR part.value::numeric < 1
            OR part.value::numeric % 1 <> 0) THEN
            PERFORM rota.bad_job(NEW.name, format('retention option "%s" must be a whole number of at least 1, not %s',
                part.key, part.value));
        ELSIF part.value <> 'null' AND part.key LIKE '%days' AND part.value::numeric > longest THEN
            PERFORM rota.bad_job(NEW.name, format('retention option "%s" must be at most %s days, not %s',
                part.key, longest, part.value), 'Raise long_days in [retention] of the configuration.');
        END IF;
    END LOOP;
    RETURN NEW;
END $$;

-- Writes the rules of one job from its policy; of_job NULL: of all jobs, and what holds for jobs without a policy.
-- Called by: configure_retention, follow_retention.
CREATE FUNCTION rota.write_keep_rules(of_job text) RETURNS void LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    defaults jsonb := (SELECT s.retention FROM rota.settings s);
BEGIN
    DELETE FROM rota.keep_rules k WHERE of_job IS NULL OR k.job = of_job;
    INSERT INTO rota.keep_rules (job, state, keep_class)
    SELECT p.job, p.state, p.own FROM (
        SELECT j.name AS job, s.state, rota.keep_class_for(rota.run_days(j.retention, s.state, defaults),
               defaults) AS own, rota.keep_class_for(rota.run_days(NULL, s.state, defaults), defaults) AS usual
        FROM (SELECT name, retention FROM rota.jobs WHERE retention IS NOT NULL AND (of_job IS NULL OR name = of_job)
              UNION ALL SELECT '', NULL WHERE of_job IS NULL) j
        CROSS JOIN unnest('{succeeded,failed,cancelled}'::text[]) AS s (state)) p
    WHERE p.own <> 'standard' OR (p.job <> '' AND p.usual <> 'standard');
END $$;

-- The rules of retention follow what a job says.
-- Called by: after_job.
CREATE FUNCTION rota.follow_retention(new rota.jobs, old rota.jobs) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    IF NEW.name IS NULL THEN
        DELETE FROM rota.keep_rules k WHERE k.job = OLD.name;
    ELSIF OLD.retention IS DISTINCT FROM NEW.retention THEN
        PERFORM rota.write_keep_rules(NEW.name);
    END IF;
END $$;

-- Sets what is kept for how long; false if nothing changed. The rules by job follow.
-- Called by: postgres/retention/retention.py.
CREATE FUNCTION rota.configure_retention(wanted jsonb) RETURNS boolean LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    UPDATE rota.settings s SET retention = wanted WHERE s.retention <> wanted;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM rota.write_keep_rules(NULL);
    RETURN true;
END $$;

-- Every partition of the history, those too that were detached and not yet dropped. Their names say from when they are.
-- What is attached, the catalogue says; what was detached has the name of a partition, and its parent's owner.
-- Called by: detach_part, drop_part, sql/retention/parts.sql, sql/tenants/stretches.sql.
CREATE FUNCTION rota.history_parts() RETURNS TABLE (
    parent text, partition text, relation oid, from_at timestamptz, to_at timestamptz, state text,
    estimated_rows bigint, bytes bigint
) LANGUAGE sql STABLE AS $$
    SELECT r.parent, c.relname::text, c.oid, d.first::timestamp AT TIME ZONE 'UTC',
        (d.first + r.days)::timestamp AT TIME ZONE 'UTC',
           CASE WHEN i.inhrelid IS NULL THEN 'detached' WHEN i.inhdetachpending THEN 'detaching' ELSE 'attached' END,
           greatest(c.reltuples, 0)::bigint, pg_total_relation_size(c.oid)
    FROM rota.partitioned r
    JOIN pg_class own ON own.oid = 'rota.jobs'::regclass
    JOIN pg_class up ON up.relnamespace = own.relnamespace AND up.relname = r.parent AND up.relkind = 'p'
    JOIN pg_class c ON c.relnamespace = own.relnamespace AND c.relkind = 'r' AND c.relowner = up.relowner
        AND left(c.relname, -9) = r.parent AND right(c.relname, 9) ~ '^_[0-9]{8}$'
    CROSS JOIN LATERAL (SELECT to_date(right(c.relname, 8), 'YYYYMMDD') AS first) d
    LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
    WHERE i.inhrelid IS NULL OR i.inhparent = up.oid
$$;

-- A pass of retention is many transactions: it holds one of these from a transaction of its own, which changes nothing.
-- Unlogged, because there is never anything in them.
CREATE UNLOGGED TABLE rota.pruning_runs ();

-- The same, for passes over log lines.
CREATE UNLOGGED TABLE rota.pruning_logs ();

-- Removes runs of one job that ended like this, up to a place in their order; the oldest first, a portion at a time.
-- A class may be left to the dropping of its partitions. What somebody works on just now is left for the next pass.
-- Called by: sql/retention/prune_runs.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.prune_runs(of_job text, of_states text[], upto_at timestamptz, upto_id bigint, spared_class text,
    max_runs integer)
RETURNS integer LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET plan_cache_mode = force_custom_plan
SET jit = off AS $$
DECLARE
    ids   bigint[];
    since timestamptz;
    first timestamptz;
    last  timestamptz;
BEGIN
    SELECT array_agg(p.id), min(p.created_at), min(p.finished_at), max(p.finished_at) INTO ids, since, first, last
    FROM (SELECT r.id, r.created_at, r.finished_at FROM rota.ended_runs r
          WHERE r.job = of_job AND r.state = ANY (of_states) AND r.finished_at <= upto_at
            AND (r.finished_at < upto_at OR r.id <= upto_id)
            AND r.keep_class <> spared_class
          ORDER BY r.finished_at LIMIT max_runs FOR UPDATE SKIP LOCKED) p;
    IF ids IS NULL THEN
        RETURN 0;
    END IF;
    DELETE FROM rota.ended_runs r WHERE r.id = ANY (ids) AND r.finished_at BETWEEN first AND last;
    PERFORM rota.delete_traces(ids, since);
    RETURN cardinality(ids);
END $$;

-- Removes rows of the small tables that are kept by time, the oldest first, so many at most. `part` names the table,
-- as in postgres/retention/retention.py.
-- Called by: sql/retention/prune_rows.sql.
-- Locks: rows that nobody else has locked.
CREATE FUNCTION rota.prune_rows(relation text, before_at timestamptz, max_rows integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    removed integer;
BEGIN
    CASE relation
    WHEN 'rollups' THEN
        DELETE FROM rota.rollup_minutes r WHERE r.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.rollup_minutes o WHERE o.minute < before_at ORDER BY o.minute LIMIT max_rows
            FOR UPDATE SKIP LOCKED));
    WHEN 'rollup_sums' THEN
        DELETE FROM rota.rollup_spans r WHERE r.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.rollup_spans o WHERE o.span <> 'ever' AND o.started_at < before_at LIMIT max_rows
            FOR UPDATE SKIP LOCKED));
    WHEN 'schedule_days' THEN
        DELETE FROM rota.schedule_days d WHERE d.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.schedule_days o WHERE o.day < (before_at AT TIME ZONE 'UTC')::date LIMIT max_rows
            FOR UPDATE SKIP LOCKED));
    WHEN 'id_marks' THEN
        DELETE FROM rota.id_marks m WHERE m.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.id_marks o WHERE o.at < before_at LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'audit' THEN
        -- Ids rise with the time: nothing behind the first that is young enough is looked at.
        DELETE FROM rota.audit a WHERE a.id IN (
            SELECT o.id FROM (SELECT e.id, e.at FROM rota.audit e ORDER BY e.id LIMIT max_rows) o
            WHERE o.at < before_at);
    WHEN 'backfill_times' THEN
        DELETE FROM rota.backfill_times t WHERE (t.backfill_id, t.nominal_at) IN (
            SELECT o.backfill_id, o.nominal_at FROM rota.backfill_times o JOIN rota.old_backfills(before_at) b
                ON b = o.backfill_id
            LIMIT max_rows FOR UPDATE OF o SKIP LOCKED);
    WHEN 'backfills' THEN
        DELETE FROM rota.backfills b WHERE b.id IN (
            SELECT o FROM rota.old_backfills(before_at) o
            WHERE NOT EXISTS (SELECT FROM rota.backfill_times t WHERE t.backfill_id = o) LIMIT max_rows);
    WHEN 'schedules' THEN
        PERFORM rota.act_as('rota');
        DELETE FROM rota.schedules s WHERE s.id = ANY (ARRAY(
            SELECT o.id FROM rota.schedules o JOIN rota.schedule_state t ON t.schedule_id = o.id
            WHERE o.id IN (SELECT rota.old_schedules(before_at)) LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'init_runs' THEN
        DELETE FROM rota.init_runs i WHERE (i.schedule_id, i.marker) IN (
            SELECT o.schedule_id, o.marker FROM rota.init_runs o WHERE rota.is_old_init(o, before_at) LIMIT max_rows
            FOR UPDATE SKIP LOCKED);
    WHEN 'error_counts' THEN
        DELETE FROM rota.error_counts c WHERE c.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.error_counts o WHERE o.at < before_at ORDER BY o.at LIMIT max_rows
            FOR UPDATE SKIP LOCKED));
    WHEN 'error_groups' THEN
        RETURN rota.forget_errors(ARRAY(SELECT g.id FROM rota.error_groups g WHERE g.last_seen_at < before_at
                                        ORDER BY g.last_seen_at LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'handled_runs' THEN
        DELETE FROM rota.handled h WHERE h.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.handled o WHERE o.kind = 'run' AND o.handled_at < before_at
            ORDER BY o.handled_at LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'bulk_actions' THEN
        -- One that runs or is paused stays, however old.
        DELETE FROM rota.bulk_actions b WHERE b.id = ANY (ARRAY(
            SELECT o.id FROM rota.bulk_actions o WHERE o.finished_at < before_at ORDER BY o.id LIMIT max_rows
            FOR UPDATE SKIP LOCKED));
    END CASE;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;

-- Removes attempts, lines and large payloads of the runs in a partition that was detached, a portion at a time: returns
-- where to go on (NULL: done). Only a run that was claimed more than once can have attempts beside its own, and only
-- one that the audit has data of needs to be forgotten there.
-- Called by: sql/retention/prune_traces.sql.
CREATE FUNCTION rota.prune_traces(partition text, after_id bigint, with_logs boolean, max_runs integer,
    OUT last_id bigint, OUT removed bigint)
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    ids   bigint[];
    since timestamptz;
BEGIN
    EXECUTE format('SELECT array_agg(p.id), max(p.id), min(p.created_at)
                    FROM (SELECT id, created_at FROM rota.%I WHERE id > $1
                        AND ($3 OR attempt > 1 OR payload IS NULL OR id = ANY ($4)) ORDER BY id LIMIT $2) p', partition)
    INTO ids, last_id, since USING after_id, max_runs, with_logs, ARRAY(SELECT a.object_id::bigint FROM rota.audit a
        WHERE (a.before ?| '{payload,metadata,run_metadata,filter}'
            OR a.after ?| '{payload,metadata,run_metadata,filter}') AND a.object_type = 'run');
    removed := CASE WHEN ids IS NULL THEN 0 ELSE rota.delete_traces(ids, since) END;
END $$;

-- Removes lines of one job between two instants, about so many at a time: returns up to where it came (NULL: done).
-- Those of failed runs may be spared.
-- Called by: sql/retention/prune_lines.sql.
CREATE FUNCTION rota.prune_lines(of_job text, after_at timestamptz, before_at timestamptz, spare_failed boolean,
    max_lines integer, OUT last_at timestamptz, OUT removed bigint) LANGUAGE plpgsql VOLATILE SET enable_seqscan = off
SET plan_cache_mode = force_custom_plan SET jit = off AS $$
BEGIN
    SELECT max(p.at) INTO last_at FROM (
        SELECT l.at FROM rota.logs l WHERE l.job = of_job AND l.at > after_at AND l.at < before_at
        ORDER BY l.at LIMIT max_lines) p;
    DELETE FROM rota.logs l WHERE l.job = of_job AND l.at > after_at AND l.at <= last_at
        AND NOT (spare_failed AND EXISTS (SELECT FROM rota.ended_runs r WHERE r.id = l.run_id AND r.state = 'failed'
            AND r.finished_at >= after_at));
    GET DIAGNOSTICS removed = ROW_COUNT;
END $$;

-- Removes lines of all jobs but these, in one partition, some pages at a time: returns where to go on (NULL: done).
-- Called by: sql/retention/prune_log_pages.sql.
CREATE FUNCTION rota.prune_log_pages(partition text, kept_jobs text[], from_page bigint, pages integer,
    OUT next_page bigint, OUT removed bigint)
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
BEGIN
    EXECUTE format('DELETE FROM ONLY rota.%I WHERE ctid >= $1 AND ctid < $2 AND job <> ALL ($3)', partition)
    USING format('(%s,0)', from_page)::tid, format('(%s,0)', from_page + pages)::tid, kept_jobs;
    GET DIAGNOSTICS removed = ROW_COUNT;
    next_page := CASE WHEN from_page + pages < pg_relation_size(format('rota.%I', partition)::regclass) /
        current_setting('block_size')::integer
                 THEN from_page + pages END;
END $$;

-- Finished schedules that retention may delete: not Rota's own, not one that has a run to come or that another one
-- requires. What code declares would be made again by it: that goes only where it cannot run again.
-- Called by: prune_rows, sql/retention/count_rows.sql.
CREATE FUNCTION rota.old_schedules(before_at timestamptz) RETURNS SETOF bigint LANGUAGE sql STABLE SET jit = off AS $$
    SELECT s.id FROM rota.schedule_state t JOIN rota.schedules s ON s.id = t.schedule_id
    WHERE t.finished_at < before_at AND NOT s.is_system
      AND (s.origin IS NULL OR s.run_at < before_at OR s.end_at < before_at)
      AND NOT EXISTS (SELECT FROM rota.open_runs o WHERE o.schedule_id = s.id)
      AND (s.tenant, s.name) NOT IN (SELECT r.tenant, q ->> 'name'
          FROM rota.schedules r, jsonb_path_query(r.requires, '$[*]') q WHERE q ->> 'name' IS NOT NULL)
$$;

-- Backfills that retention may delete. One of which a run is still to come stays whole.
-- Called by: prune_rows, sql/retention/count_rows.sql.
CREATE FUNCTION rota.old_backfills(before_at timestamptz) RETURNS SETOF bigint LANGUAGE sql STABLE SET jit = off AS $$
    SELECT b.id FROM rota.backfills b
    WHERE b.created_at < before_at
      AND NOT EXISTS (SELECT FROM rota.backfill_times t JOIN rota.open_runs o ON o.id = t.run_id
          WHERE t.backfill_id = b.id)
$$;
