-- Runs of one tenant that ended before an instant, with attempts and lines, so many at most. Partitions of later days are not looked at.
CREATE FUNCTION rota.prune_tenant(of_tenant text, of_states text[], before_at timestamptz, max_runs integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET plan_cache_mode = force_custom_plan SET jit = off AS $$
DECLARE
    ids   bigint[];
    since timestamptz;
    first timestamptz;
    last  timestamptz;
BEGIN
    SELECT array_agg(p.id), min(p.created_at), min(p.finished_at), max(p.finished_at) INTO ids, since, first, last
    FROM (SELECT r.id, r.created_at, r.finished_at FROM rota.ended_runs r
          WHERE r.tenant = of_tenant AND r.tenant <> '' AND r.state = ANY (of_states) AND r.finished_at < before_at
          ORDER BY r.id LIMIT max_runs FOR UPDATE SKIP LOCKED) p;
    IF ids IS NULL THEN
        RETURN 0;
    END IF;
    DELETE FROM rota.ended_runs r WHERE r.id = ANY (ids) AND r.finished_at BETWEEN first AND last;
    PERFORM rota.delete_traces(ids, least(since, rota.created_after((SELECT min(i) FROM unnest(ids) i))));
    RETURN cardinality(ids);
END $$;
