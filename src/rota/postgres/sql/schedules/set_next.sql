-- What another transaction holds, or has changed, is left to the tick.
UPDATE rota.schedule_state s SET next_run_at = w.at, tick_version = s.tick_version + 1
FROM unnest(%(ids)s::bigint[], %(versions)s::bigint[], %(ats)s::timestamptz[]) AS w (id, tick_version, at)
WHERE s.schedule_id = w.id AND s.schedule_id IN (
    SELECT p.schedule_id FROM rota.schedule_state p
    JOIN unnest(%(ids)s::bigint[], %(versions)s::bigint[]) AS v (id, tick_version)
        ON p.schedule_id = v.id AND p.tick_version = v.tick_version
    FOR UPDATE OF p SKIP LOCKED)
