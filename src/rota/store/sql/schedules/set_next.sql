-- Computed, not set by somebody: tick_version says so. What another transaction holds is left to the tick.
UPDATE rota.schedules s SET next_run_at = w.at, tick_version = s.tick_version + 1
FROM unnest(%(ids)s::bigint[], %(versions)s::bigint[], %(ats)s::timestamptz[]) AS w (id, tick_version, at)
WHERE s.id = w.id AND s.id IN (
    SELECT p.id FROM rota.schedules p
    JOIN unnest(%(ids)s::bigint[], %(versions)s::bigint[]) AS v (id, tick_version)
        ON p.id = v.id AND p.tick_version = v.tick_version
    FOR UPDATE OF p SKIP LOCKED)
