-- As before (0055), with bulk actions that have ended.
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
    WHEN 'error_counts' THEN
        DELETE FROM rota.error_counts c WHERE c.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.error_counts o WHERE o.at < before_at ORDER BY o.at LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'error_groups' THEN
        RETURN rota.forget_errors(ARRAY(SELECT g.id FROM rota.error_groups g WHERE g.last_seen_at < before_at
                                        ORDER BY g.last_seen_at LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'handled_runs' THEN
        DELETE FROM rota.handled_runs h WHERE h.ctid = ANY (ARRAY(
            SELECT o.ctid FROM rota.handled_runs o WHERE o.handled_at < before_at ORDER BY o.handled_at LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'bulk_actions' THEN
        -- One that runs or is paused stays, however old.
        DELETE FROM rota.bulk_actions b WHERE b.id = ANY (ARRAY(
            SELECT o.id FROM rota.bulk_actions o WHERE o.finished_at < before_at ORDER BY o.id LIMIT max_rows FOR UPDATE SKIP LOCKED));
    END CASE;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;
