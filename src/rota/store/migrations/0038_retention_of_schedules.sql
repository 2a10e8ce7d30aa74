-- What schedules leave behind goes with their ledger: those that have finished, backfills with their times, and which starts were run.

CREATE INDEX schedules_finished ON rota.schedules (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX backfills_created ON rota.backfills (created_at);

-- Not Rota's own, not one that has a run to come or that another one requires. What code declares would be made again by it: that goes only
-- where it cannot run again.
CREATE FUNCTION rota.old_schedules(before_at timestamptz) RETURNS SETOF bigint LANGUAGE sql STABLE SET jit = off AS $$
    SELECT s.id FROM rota.schedules s
    WHERE s.finished_at < before_at AND NOT s.is_system
      AND (s.origin IS NULL OR s.run_at < before_at OR s.end_at < before_at)
      AND NOT EXISTS (SELECT FROM rota.open_runs o WHERE o.schedule_id = s.id)
      AND (s.tenant, s.name) NOT IN (SELECT r.tenant, q ->> 'name' FROM rota.schedules r, jsonb_array_elements(r.requires) q WHERE q ? 'name')
$$;

-- One of which a run is still to come stays whole.
CREATE FUNCTION rota.old_backfills(before_at timestamptz) RETURNS SETOF bigint LANGUAGE sql STABLE SET jit = off AS $$
    SELECT b.id FROM rota.backfills b
    WHERE b.created_at < before_at
      AND NOT EXISTS (SELECT FROM rota.backfill_times t JOIN rota.open_runs o ON o.id = t.run_id WHERE t.backfill_id = b.id)
$$;

-- A start that is over will not come again. Releases may, and what runs once is remembered as long as its schedule.
CREATE FUNCTION rota.is_old_init(i rota.init_runs, before_at timestamptz) RETURNS boolean LANGUAGE sql STABLE SET jit = off AS $$
    SELECT i.enqueued_at < before_at AND NOT EXISTS (SELECT FROM rota.open_runs o WHERE o.id = i.run_id)
       AND (i.marker LIKE 'start %' OR NOT EXISTS (SELECT FROM rota.schedules s WHERE s.id = i.schedule_id))
$$;

-- Rows of the small tables that are kept by time, the oldest first.
CREATE OR REPLACE FUNCTION rota.prune_rows(relation text, before_at timestamptz, max_rows integer) RETURNS integer LANGUAGE plpgsql VOLATILE SET jit = off AS $$
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
    WHEN 'backfill_times' THEN
        DELETE FROM rota.backfill_times t WHERE (t.backfill_id, t.nominal_at) IN (
            SELECT o.backfill_id, o.nominal_at FROM rota.backfill_times o JOIN rota.old_backfills(before_at) b ON b = o.backfill_id
            LIMIT max_rows FOR UPDATE OF o SKIP LOCKED);
    WHEN 'backfills' THEN
        DELETE FROM rota.backfills b WHERE b.id IN (
            SELECT o FROM rota.old_backfills(before_at) o WHERE NOT EXISTS (SELECT FROM rota.backfill_times t WHERE t.backfill_id = o) LIMIT max_rows);
    WHEN 'schedules' THEN
        PERFORM rota.act_as('rota');
        DELETE FROM rota.schedules s WHERE s.id = ANY (ARRAY(
            SELECT o.id FROM rota.schedules o WHERE o.id IN (SELECT rota.old_schedules(before_at)) LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'init_runs' THEN
        DELETE FROM rota.init_runs i WHERE (i.schedule_id, i.marker) IN (
            SELECT o.schedule_id, o.marker FROM rota.init_runs o WHERE rota.is_old_init(o, before_at) LIMIT max_rows FOR UPDATE SKIP LOCKED);
    END CASE;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;
