-- Schedules remember whose code says them at its start, so that a line that was removed from it is seen.
ALTER TABLE rota.schedules ADD COLUMN application text COLLATE "C";
DROP FUNCTION rota.put_schedules(text[], text[], integer[], text[], text);

-- Many schedules that code declares, one for each tenant for example, in one statement. A document is said once,
-- however many schedules have it: `places` says which of the documents each has, from 1. What is as declared is found
-- by one join; what is new or changed is written as put_schedule writes one. Answers how many were written.
-- `application`: whose code says so at its start; what is said at run time names none.
-- Called by: sql/schedules/put_many.sql.
-- Locks: rows that nobody else has locked, rows.
CREATE FUNCTION rota.put_schedules(tenants text[], names text[], places integer[], documents text[],
    actor text DEFAULT NULL, application text DEFAULT NULL)
RETURNS integer LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    declared jsonb[] := ARRAY(SELECT d.doc::jsonb FROM unnest(documents) WITH ORDINALITY AS d (doc, n) ORDER BY d.n);
    said     jsonb[] := ARRAY(SELECT rota.pick(to_jsonb(jsonb_populate_record(NULL::rota.schedules, d.doc)),
        d.doc - 'job')
                              FROM unnest(declared) WITH ORDINALITY AS d (doc, n) ORDER BY d.n);
    taken    record;
    made     integer;
    changed  integer;
BEGIN
    PERFORM rota.act_as(put_schedules.actor);
    -- By tenant and name, so that two starting processes cannot deadlock.
    INSERT INTO rota.schedules (tenant, name, job, origin, code, is_enabled,
        description, tags, metadata, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold, every_from,
        start_at, end_at, max_runs, jitter_seconds, burst_allowed, calendar, on_closed, catch_up, catch_up_seconds,
        catch_up_limit, grace_seconds, overlap, max_concurrent_runs, pause_after_failures, requires, is_shadow,
        delete_when_finished, payload, queue, priority, max_attempts, timeout_seconds, run_tags, run_metadata)
    SELECT w.tenant, w.name, r.job, 'code', said[w.place], coalesce(r.is_enabled, true),
        r.description, r.tags, r.metadata, r.cron, r.interval_seconds, r.run_at, r.init, r.has_seconds, r.timezone,
        r.gap, r.fold, r.every_from, r.start_at, r.end_at, r.max_runs, r.jitter_seconds,
        coalesce(r.burst_allowed, false), r.calendar, r.on_closed, r.catch_up, r.catch_up_seconds, r.catch_up_limit,
        r.grace_seconds, r.overlap, r.max_concurrent_runs, r.pause_after_failures, r.requires, r.is_shadow,
        r.delete_when_finished, r.payload, r.queue, r.priority, r.max_attempts, r.timeout_seconds, r.run_tags,
        r.run_metadata
    FROM unnest(put_schedules.tenants, names, places) AS w (tenant, name, place)
    CROSS JOIN LATERAL jsonb_populate_record(NULL::rota.schedules, declared[w.place]) r
    WHERE NOT EXISTS (SELECT FROM rota.schedules s WHERE s.tenant = w.tenant AND s.name = w.name)
    ORDER BY w.tenant COLLATE "C", w.name COLLATE "C"
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS made = ROW_COUNT;
    SELECT s.name, s.job INTO taken FROM unnest(put_schedules.tenants, names) AS w (tenant, name)
    JOIN rota.schedules s ON s.tenant = w.tenant AND s.name = w.name WHERE s.origin = 'definition' LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'schedule "%" is one of the schedules that job "%" declares', taken.name, taken.job
            USING ERRCODE = 'RO005', HINT = 'Give one of them another name.';
    END IF;
    PERFORM FROM (SELECT s.id FROM unnest(put_schedules.tenants, names, places) AS w (tenant, name, place)
                  JOIN rota.schedules s ON s.tenant = w.tenant AND s.name = w.name
                  WHERE s.code IS DISTINCT FROM said[w.place] OR s.job <> declared[w.place] ->> 'job'
                  ORDER BY s.tenant COLLATE "C", s.name COLLATE "C" FOR UPDATE OF s) held;
    -- Said by code: no edit of an operator.
    PERFORM set_config('rota' || '.syncing', 'on', true);
    UPDATE rota.schedules s SET job = declared[w.place] ->> 'job', origin = 'code', code = said[w.place],
        edited = rota.still_edited(to_jsonb(s), s.edited, said[w.place]), (is_enabled,
        description, tags, metadata, cron, interval_seconds, run_at, init, has_seconds, timezone, gap, fold, every_from,
        start_at, end_at, max_runs, jitter_seconds, burst_allowed, calendar, on_closed, catch_up, catch_up_seconds,
        catch_up_limit, grace_seconds, overlap, max_concurrent_runs, pause_after_failures, requires, is_shadow,
        delete_when_finished, payload, queue, priority, max_attempts, timeout_seconds, run_tags, run_metadata) = (
        SELECT r.is_enabled,
        r.description, r.tags, r.metadata, r.cron, r.interval_seconds, r.run_at, r.init, r.has_seconds, r.timezone,
        r.gap, r.fold, r.every_from, r.start_at, r.end_at, r.max_runs, r.jitter_seconds,
        coalesce(r.burst_allowed, false), r.calendar, r.on_closed, r.catch_up, r.catch_up_seconds, r.catch_up_limit,
        r.grace_seconds, r.overlap, r.max_concurrent_runs, r.pause_after_failures, r.requires, r.is_shadow,
        r.delete_when_finished, r.payload, r.queue, r.priority, r.max_attempts, r.timeout_seconds, r.run_tags,
        r.run_metadata
        FROM jsonb_populate_record(s, said[w.place] - rota.kept_fields(s.edited)) r)
    FROM unnest(put_schedules.tenants, names, places) AS w (tenant, name, place)
    WHERE s.tenant = w.tenant AND s.name = w.name
      AND (s.code IS DISTINCT FROM said[w.place] OR s.job <> declared[w.place] ->> 'job');
    GET DIAGNOSTICS changed = ROW_COUNT;
    PERFORM set_config('rota' || '.syncing', '', true);
    -- By itself: no trigger of edits looks at this column. A row that somebody holds is noted at the next start.
    UPDATE rota.schedules s SET application = put_schedules.application WHERE s.id = ANY (ARRAY(
        SELECT o.id FROM unnest(put_schedules.tenants, names) AS w (tenant, name)
        JOIN rota.schedules o ON o.tenant = w.tenant AND o.name = w.name
        WHERE put_schedules.application IS NOT NULL AND o.application IS DISTINCT FROM put_schedules.application
        FOR NO KEY UPDATE OF o SKIP LOCKED));
    RETURN made + changed;
END $$;
