-- What limits say of themselves: why a run waits for one.
INSERT INTO rota.reasons (place, code, sentence, next_step, command) VALUES
(44, 'limit_full', 'Limit {limit} is full{key}: {in_use} of {cap} at once{holders}.', '{then}', 'rota limits show {of_tenant}{limit}'),
(44, 'limit_rate', 'Limit {limit} is used up{key}: {cap} in {period}.', '{then}', 'rota limits show {of_tenant}{limit}'),
(44, 'limit_turn', 'It waits for its turn in limit {limit}{key}: {before}.', '{then}', 'rota limits show {of_tenant}{limit}'),
(44, 'limit_blocked', 'Limit {limit} stands still{key}: run {other} failed, and the next one needs its success.', 'Retry that run, or go on without it: rota limits unblock.', 'rota runs retry {other}'),
(44, 'limit_room', 'It waits to be let through by limit {limit}{key}, which has room.', 'Any live worker does that within a second.', 'rota workers list'),
(45, 'skipped_limit', '{which} was skipped{times}: a limit was full.', 'The next time runs if there is room by then; a limit that is to wait says so: --on-full wait.', 'rota limits list');

-- How many wait before a run for the same counter, up to a thousand.
CREATE FUNCTION rota.limit_line(o rota.open_runs, is_by_age boolean) RETURNS bigint LANGUAGE sql STABLE SET enable_seqscan = off SET jit = off AS $$
    SELECT count(*) FROM (SELECT w.priority, w.seq FROM rota.open_runs w WHERE w.held_by = 'limit' AND w.limit_key = o.limit_key
                          ORDER BY w.priority, w.seq LIMIT 1000) b
    WHERE CASE WHEN is_by_age THEN b.seq < o.seq ELSE (b.priority, b.seq) < (o.priority, o.seq) END
$$;

CREATE FUNCTION rota.why_limit(o rota.open_runs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE SET enable_seqscan = off SET jit = off AS $$
DECLARE
    l      rota.limits := rota.limit_of(o.limit_key);
    s      rota.limit_slots;
    held   integer;
    facts  jsonb;
    ahead  bigint := rota.limit_line(o, l.kind = 'sequence');
    line   text := CASE WHEN ahead >= 999 THEN 'About a thousand or more runs wait' WHEN ahead = 1 THEN '1 run waits' ELSE rota.plural_words(ahead, 'run') || ' wait' END;
    other  bigint[];
    value  text := substr(o.limit_key, strpos(o.limit_key, ':') + 1);
BEGIN
    facts := jsonb_build_object('run', o.id, 'limit', coalesce(l.name, 'that is gone'), 'key', CASE WHEN value <> '' THEN ' for ' || rota.short_words(value) ELSE '' END,
        'cap', coalesce(l.cap, 0), 'of_tenant', CASE WHEN l.tenant <> '' THEN '--tenant ' || rota.shell_word(l.tenant) || ' ' ELSE '' END);
    SELECT * INTO s FROM rota.limit_slots u WHERE u.tenant = l.tenant AND u.key = o.limit_key;
    held := greatest(coalesce(s.in_use, 0) - coalesce((SELECT sum(r.amount) FROM rota.limit_releases r WHERE r.key = o.limit_key), 0), 0);
    other := ARRAY(SELECT h.id FROM rota.open_runs h WHERE h.slots IS NOT NULL AND h.slots @> ARRAY[o.limit_key] ORDER BY h.id LIMIT 4);
    IF s.blocked_by IS NOT NULL AND s.blocked_by <> o.id THEN
        RETURN NEXT ROW('limit_blocked', o.enqueued_at, NULL, NULL, facts || jsonb_build_object('other', s.blocked_by))::rota.finding;
    ELSIF l.kind = 'sequence' AND (held > 0 OR ahead > 0) THEN
        RETURN NEXT ROW('limit_turn', o.enqueued_at, NULL, NULL, facts || jsonb_build_object('other', other[1],
            'before', CASE WHEN other[1] IS NULL THEN 'nobody has it' ELSE format('run %s has it', other[1]) END,
            'then', line || ' before it, by age.'))::rota.finding;
    ELSIF l.kind = 'rate' AND (s.wait_until > rota.now() OR l.cap = 0) THEN
        RETURN NEXT ROW('limit_rate', o.enqueued_at, CASE WHEN s.wait_until < 'infinity' THEN s.wait_until END, NULL, facts || jsonb_build_object(
            'period', rota.duration_words(l.period_seconds), 'then', line || ' before it for the next room.'))::rota.finding;
    ELSIF l.kind = 'concurrency' AND held >= l.cap THEN
        RETURN NEXT ROW('limit_full', o.enqueued_at, NULL, NULL, facts || jsonb_build_object('in_use', held, 'holders', CASE
            WHEN other = '{}' THEN '' WHEN cardinality(other) = 1 THEN format(', by run %s', other[1])
            ELSE format(', by runs %s', array_to_string(other[1:3], ', ')) || CASE WHEN held > 3 THEN ' and others' ELSE '' END END,
            'then', CASE WHEN l.cap = 0 THEN 'Nothing starts under it until its cap is above 0.' ELSE line || ' before it for the next place.' END))::rota.finding;
    ELSE
        RETURN NEXT ROW('limit_room', o.enqueued_at, NULL, NULL, facts)::rota.finding;
    END IF;
END $$;

-- As before, with limits.
CREATE OR REPLACE FUNCTION rota.why_held(o rota.open_runs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE SET enable_seqscan = off SET jit = off AS $$
DECLARE
    facts jsonb := jsonb_build_object('run', o.id, 'queue', o.queue, 'schedule', o.schedule, 'held_by', o.held_by);
    busy  record;
    other bigint;
BEGIN
    IF o.state = 'blocked' THEN
        RETURN NEXT ROW('blocked', o.created_at, NULL, NULL, facts)::rota.finding;
    ELSIF o.held_by = 'suspect' THEN
        SELECT w.id, w.name, w.isolating_run INTO busy FROM rota.workers w
        WHERE w.state IN ('live', 'stopping') AND w.isolating_run IS NOT NULL AND rota.isolating_of(w) IS NOT NULL ORDER BY w.id LIMIT 1;
        RETURN NEXT ROW('suspect', o.enqueued_at, NULL, NULL, facts || jsonb_build_object('then',
            CASE WHEN busy.id IS NULL THEN 'A live worker takes it within seconds, alone, beside its normal work.'
                 ELSE format('Each worker isolates one run at a time; %s (%s) has run %s now.', busy.id, rota.short_words(busy.name), busy.isolating_run) END))::rota.finding;
    ELSIF o.held_by = 'limit' THEN
        RETURN QUERY SELECT * FROM rota.why_limit(o);
    ELSIF o.held_by = 'overlap' THEN
        SELECT min(r.id) INTO other FROM (SELECT * FROM rota.open_runs w WHERE w.schedule_id = o.schedule_id LIMIT 1000) r
        WHERE r.held_by IS DISTINCT FROM 'overlap';
        RETURN NEXT ROW('overlap', o.created_at, NULL, NULL, facts || jsonb_build_object('other', coalesce(other, o.id)))::rota.finding;
    ELSIF o.held_by = 'tenant' AND EXISTS (SELECT FROM rota.tenants t WHERE t.name = o.tenant AND rota.tenant_is_paused(t)) THEN
        RETURN;  -- said of the tenant
    ELSIF o.held_by = 'no_worker' AND NOT EXISTS (SELECT FROM rota.why_fleet(NULL, o.job) f WHERE f.knows) THEN
        RETURN;  -- said of the workers
    ELSE
        RETURN NEXT ROW('held', o.held_at, NULL, NULL, facts || jsonb_build_object('held_by',
            CASE o.held_by WHEN 'no_worker' THEN 'no worker knew its job until a moment ago'
                WHEN 'tenant' THEN format('tenant %s was paused until a moment ago', rota.short_words(o.tenant)) ELSE o.held_by END))::rota.finding;
    END IF;
END $$;
