-- Schedules that are due at one instant are spread over a few seconds, unless they say burst_allowed. The start of the run moves (run_at),
-- the nominal time does not.
ALTER TABLE rota.schedules ADD COLUMN burst_allowed boolean NOT NULL DEFAULT false;

-- Functions and triggers that name every field of a schedule name this one too. A release from before does not say it: then it is false.
DO $$
DECLARE
    one     record;
    changed text;
BEGIN
    FOR one IN SELECT p.proname AS name, pg_get_functiondef(p.oid) AS text FROM pg_proc p
               WHERE p.pronamespace = (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'rota.schedules'::regclass)
                 AND p.proname IN ('put_schedule', 'put_schedules', 'sync_schedules') LOOP
        changed := regexp_replace(one.text, '([^.])jitter_seconds, ', '\1jitter_seconds, burst_allowed, ', 'g');
        changed := regexp_replace(changed, '(wanted|r)\.jitter_seconds, ', '\1.jitter_seconds, coalesce(\1.burst_allowed, false), ', 'g');
        IF changed = one.text THEN
            RAISE EXCEPTION 'function % names the fields of schedules in a way that this migration does not know', one.name;
        END IF;
        EXECUTE changed;
    END LOOP;
    FOR one IN SELECT t.tgname AS name, pg_get_triggerdef(t.oid) AS text FROM pg_trigger t
               WHERE t.tgrelid = 'rota.schedules'::regclass AND pg_get_triggerdef(t.oid) LIKE '% OF %jitter\_seconds, %' LOOP
        EXECUTE format('DROP TRIGGER %I ON rota.schedules', one.name);
        EXECUTE replace(one.text, 'jitter_seconds, calendar', 'jitter_seconds, burst_allowed, calendar');
    END LOOP;
END $$;

-- An instant at which many are due: how many there were when the first of them was looked at, and how many have been given a place.
CREATE TABLE rota.bursts (
    at        timestamptz PRIMARY KEY,
    schedules integer NOT NULL,
    taken     integer NOT NULL,
    noted_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE rota.bursts IS 'Instants at which many schedules are due, and how many of them have their place.';

-- The places, from 0, of schedules that a tick is about to decide, and how many are due at the same instant; nothing of those that are not
-- spread: because they say so, spread themselves (jitter), enqueue nothing (shadow), or are no more than `free` at that instant.
-- Ticks take schedules by their numbers, so that one has about the same place each time.
CREATE FUNCTION rota.take_places(ids bigint[], free integer) RETURNS TABLE (id bigint, place integer, crowd integer) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    IF ids = '{}' THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH due AS MATERIALIZED (
        SELECT s.id, s.due_at, row_number() OVER (PARTITION BY s.due_at ORDER BY s.id) AS n, count(*) OVER (PARTITION BY s.due_at) AS here
        FROM unnest(ids) AS u (id) CROSS JOIN LATERAL (SELECT * FROM rota.schedules WHERE id = u.id OFFSET 0) s
        WHERE s.is_ticking AND s.init IS NULL AND s.due_at = s.next_run_at AND NOT s.burst_allowed AND s.jitter_seconds = 0 AND NOT s.is_shadow
    ), noted AS (
        INSERT INTO rota.bursts AS b (at, schedules, taken)
        SELECT d.due_at, c.schedules, d.here FROM due d CROSS JOIN LATERAL (
            -- Those of the first ticks are no longer due: what the first one counted holds.
            SELECT coalesce((SELECT k.schedules FROM rota.bursts k WHERE k.at = d.due_at), (
                SELECT count(*)::integer FROM rota.schedules s WHERE s.is_ticking AND s.init IS NULL AND s.due_at = d.due_at
                   AND s.due_at = s.next_run_at AND NOT s.burst_allowed AND s.jitter_seconds = 0 AND NOT s.is_shadow)) AS schedules OFFSET 0) c -- OFFSET: counted once, though it is asked twice
        WHERE d.n = 1 AND c.schedules > free ORDER BY d.due_at
        ON CONFLICT (at) DO UPDATE SET taken = b.taken + excluded.taken
        RETURNING b.at, b.schedules, b.taken
    )
    SELECT d.id, (n.taken - d.here + d.n - 1)::integer, n.schedules FROM due d JOIN noted n ON n.at = d.due_at;
    IF FOUND THEN
        DELETE FROM rota.bursts b WHERE b.at = ANY (ARRAY(
            SELECT o.at FROM rota.bursts o WHERE o.noted_at < clock_timestamp() - interval '1 hour' ORDER BY o.at LIMIT 1000 FOR UPDATE SKIP LOCKED));
    END IF;
END $$;

INSERT INTO rota.reasons (code, place, sentence, next_step, is_past, command) VALUES
    ('spread', 10, 'It is for later: {crowd} schedules were due at one instant, and {schedule} is number {number} of them.',
     'It takes its place in queue {queue} when its time has come; --burst-allowed true starts a schedule at its instant, however many there are.', false,
     'rota schedules update {schedule} --burst-allowed true');

-- As it is defined now; a run that was moved because many were due says so.
DO $$
DECLARE
    text constant text := pg_get_functiondef('rota.why_open_run(rota.open_runs)'::regprocedure);
    changed text;
BEGIN
    changed := replace(text, 'last    record;', E'last    record;\n    burst   jsonb;');
    changed := replace(changed, $x$    IF o.state = 'scheduled' THEN
$x$, $x$    IF o.state = 'scheduled' THEN
        IF is_later AND last.state IS NULL AND o.schedule_id IS NOT NULL THEN
            SELECT l.details -> 'burst' INTO burst FROM rota.ledger l WHERE l.schedule_id = o.schedule_id AND l.nominal_at = o.scheduled_for;
        END IF;
$x$);
    changed := replace(changed, $x$WHEN NOT is_later THEN 'not_promoted' WHEN last.state IS NULL$x$,
        $x$WHEN NOT is_later THEN 'not_promoted' WHEN burst IS NOT NULL THEN 'spread' WHEN last.state IS NULL$x$);
    changed := replace(changed, $x$jsonb_build_object('run', o.id, 'queue', o.queue))::rota.finding;
        RETURN;$x$, $x$jsonb_build_object('run', o.id, 'queue', o.queue, 'schedule', o.schedule,
                'crowd', rota.number_words((burst ->> 'of')::bigint), 'number', rota.number_words((burst ->> 'place')::bigint)))::rota.finding;
        RETURN;$x$);
    IF array_length(string_to_array(changed, 'burst'), 1) < 7 OR changed NOT LIKE '%''crowd''%' THEN
        RAISE EXCEPTION 'why_open_run is written in a way that this migration does not know';
    END IF;
    EXECUTE changed;
END $$;
