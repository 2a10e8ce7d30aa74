-- Computed, not set by somebody: the version says so. What another transaction holds is left to the tick.
UPDATE rota.schedules s SET next_run_at = w.at, version = s.version + 1
FROM unnest(%(ids)s::bigint[], %(versions)s::bigint[], %(ats)s::timestamptz[]) AS w (id, version, at)
WHERE s.id = w.id AND s.id IN (
    SELECT p.id FROM rota.schedules p JOIN unnest(%(ids)s::bigint[], %(versions)s::bigint[]) AS v (id, version) ON p.id = v.id AND p.version = v.version
    FOR UPDATE OF p SKIP LOCKED)
