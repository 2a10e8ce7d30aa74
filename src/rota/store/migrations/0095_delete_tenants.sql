-- All data of a tenant, part by part and so many rows at a time: `part` is one of those that store/tenant_delete.py lists, in its order. What its operators did
-- stays in the audit. Runs that a worker has are left; whoever deletes sees to them first.
CREATE FUNCTION rota.delete_tenant_part(of_tenant text, part text, max_rows integer) RETURNS bigint LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET plan_cache_mode = force_custom_plan SET jit = off SET lock_timeout = '5s' AS $$
DECLARE
    ids     bigint[];
    removed bigint;
BEGIN
    PERFORM rota.check_tenant(of_tenant);
    CASE part
    WHEN 'schedules' THEN
        -- The triggers remember them as deleted, by their numbers, until their ledgers are gone.
        DELETE FROM rota.schedules s WHERE s.id = ANY (ARRAY(
            SELECT o.id FROM rota.schedules o WHERE o.tenant = of_tenant ORDER BY o.name LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'open_runs' THEN
        SELECT array_agg(r.id) INTO ids FROM (
            SELECT o.id FROM rota.open_runs o WHERE o.tenant = of_tenant AND o.tenant <> '' AND o.state <> 'running'
            ORDER BY o.id LIMIT max_rows FOR UPDATE SKIP LOCKED) r;
        IF ids IS NULL THEN
            RETURN 0;
        END IF;
        INSERT INTO rota.limit_releases (key, amount)
        SELECT k, count(*) FROM rota.open_runs o CROSS JOIN LATERAL unnest(o.slots) k WHERE o.id = ANY (ids) GROUP BY k;
        DELETE FROM rota.open_runs o WHERE o.id = ANY (ids);
        GET DIAGNOSTICS removed = ROW_COUNT;
        DELETE FROM rota.cancel_requests c WHERE c.run_id = ANY (ids);
        PERFORM rota.delete_traces(ids, coalesce(rota.created_after((SELECT min(i) FROM unnest(ids) i)), '-infinity'));
        RETURN removed;
    WHEN 'ended_runs' THEN
        SELECT array_agg(r.id) INTO ids FROM (
            SELECT e.id FROM rota.ended_runs e WHERE e.tenant = of_tenant AND e.tenant <> '' ORDER BY e.id LIMIT max_rows) r;
        DELETE FROM rota.handled_runs h WHERE h.run_id = ANY (ids);
        RETURN rota.prune_tenant(of_tenant, '{succeeded,failed,cancelled}', 'infinity', max_rows);
    WHEN 'keys' THEN
        DELETE FROM rota.keys k WHERE k.ctid = ANY (ARRAY(SELECT o.ctid FROM rota.keys o WHERE o.tenant = of_tenant LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'events' THEN
        DELETE FROM rota.events e USING (SELECT o.name, o.id, o.at FROM rota.events o WHERE o.tenant = of_tenant LIMIT max_rows) g
        WHERE e.tenant = of_tenant AND e.name = g.name AND e.id = g.id AND e.at = g.at;
    WHEN 'event_keys' THEN
        DELETE FROM rota.event_keys k WHERE k.ctid = ANY (ARRAY(SELECT o.ctid FROM rota.event_keys o WHERE o.tenant = of_tenant LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'limits' THEN
        DELETE FROM rota.limits l WHERE l.tenant = of_tenant;
    WHEN 'limit_slots' THEN
        DELETE FROM rota.limit_slots s WHERE s.ctid = ANY (ARRAY(SELECT o.ctid FROM rota.limit_slots o WHERE o.tenant = of_tenant LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'limit_releases' THEN
        DELETE FROM rota.limit_releases r WHERE r.tenant = of_tenant;
    WHEN 'limit_repairs' THEN
        DELETE FROM rota.limit_repairs r WHERE r.tenant = of_tenant;
    WHEN 'hook_refusals' THEN
        DELETE FROM rota.hook_refusals r WHERE r.ctid = ANY (ARRAY(SELECT o.ctid FROM rota.hook_refusals o WHERE o.tenant = of_tenant LIMIT max_rows FOR UPDATE SKIP LOCKED));
    WHEN 'ledger' THEN
        -- Of one schedule after the other, by the key.
        DELETE FROM rota.ledger l USING (
            SELECT o.schedule_id, o.nominal_at FROM rota.deleted_schedules d
            CROSS JOIN LATERAL (SELECT w.schedule_id, w.nominal_at FROM rota.ledger w WHERE w.schedule_id = d.schedule_id LIMIT max_rows) o
            WHERE d.tenant = of_tenant LIMIT max_rows) g
        WHERE l.schedule_id = g.schedule_id AND l.nominal_at = g.nominal_at;
    WHEN 'backfill_times' THEN
        DELETE FROM rota.backfill_times t USING (
            SELECT o.backfill_id, o.nominal_at FROM rota.deleted_schedules d JOIN rota.backfills b ON b.schedule_id = d.schedule_id
            JOIN rota.backfill_times o ON o.backfill_id = b.id WHERE d.tenant = of_tenant LIMIT max_rows) g
        WHERE t.backfill_id = g.backfill_id AND t.nominal_at = g.nominal_at;
    WHEN 'backfills' THEN
        DELETE FROM rota.backfills b WHERE b.id = ANY (ARRAY(
            SELECT o.id FROM rota.deleted_schedules d JOIN rota.backfills o ON o.schedule_id = d.schedule_id WHERE d.tenant = of_tenant LIMIT max_rows));
    WHEN 'schedule_days' THEN
        DELETE FROM rota.schedule_days y USING (
            SELECT o.schedule_id, o.day FROM rota.deleted_schedules d JOIN rota.schedule_days o ON o.schedule_id = d.schedule_id
            WHERE d.tenant = of_tenant LIMIT max_rows) g
        WHERE y.schedule_id = g.schedule_id AND y.day = g.day;
    WHEN 'init_runs' THEN
        DELETE FROM rota.init_runs i USING (
            SELECT o.schedule_id, o.marker FROM rota.deleted_schedules d JOIN rota.init_runs o ON o.schedule_id = d.schedule_id
            WHERE d.tenant = of_tenant LIMIT max_rows) g
        WHERE i.schedule_id = g.schedule_id AND i.marker = g.marker;
    WHEN 'deleted_schedules' THEN
        DELETE FROM rota.deleted_schedules d WHERE d.ctid = ANY (ARRAY(SELECT o.ctid FROM rota.deleted_schedules o WHERE o.tenant = of_tenant LIMIT max_rows));
    WHEN 'dropped_schedules' THEN
        DELETE FROM rota.dropped_schedules d WHERE d.tenant = of_tenant;
    WHEN 'tenant_days' THEN
        DELETE FROM rota.tenant_days y WHERE y.tenant = of_tenant;
    WHEN 'tenant_changes' THEN
        DELETE FROM rota.tenant_changes c WHERE c.tenant = of_tenant;
    WHEN 'tenant_depths' THEN
        DELETE FROM rota.tenant_depths d WHERE d.tenant = of_tenant;
    END CASE;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;

-- What is left of runs that are gone already: attempts and lines of one stretch of time, which have no index by tenant.
CREATE FUNCTION rota.delete_tenant_traces(of_tenant text, from_at timestamptz, to_at timestamptz) RETURNS bigint LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_custom_plan SET jit = off AS $$
DECLARE
    attempts bigint;
    lines    bigint;
BEGIN
    PERFORM rota.check_tenant(of_tenant);
    DELETE FROM rota.past_attempts p WHERE p.tenant = of_tenant AND p.finished_at >= from_at AND p.finished_at < to_at;
    GET DIAGNOSTICS attempts = ROW_COUNT;
    DELETE FROM rota.logs l WHERE l.tenant = of_tenant AND l.at >= from_at AND l.at < to_at;
    GET DIAGNOSTICS lines = ROW_COUNT;
    RETURN attempts + lines;
END $$;

-- The end of it: the settings go, and the audit says what was deleted.
CREATE FUNCTION rota.forget_tenant(of_tenant text, removed jsonb, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET jit = off AS $$
DECLARE
    was text := rota.say_why(forget_tenant.actor, forget_tenant.reason);
BEGIN
    DELETE FROM rota.tenants t WHERE t.name = of_tenant;
    PERFORM rota.write_audit(NULL, 'tenant.deleted', 'tenant', of_tenant, removed, NULL, NULL, of_tenant);
    PERFORM set_config('rota' || '.reason', was, true);
END $$;
