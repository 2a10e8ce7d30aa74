-- Why a job that is bound to events did not start: none came, or its filters let the last one pass by.
INSERT INTO rota.reasons (place, code, sentence, next_step, command, is_past) VALUES
(90, 'event_filtered', 'Event {event}, the last that it is bound to, did not fit its filter.', 'Look at the event and at the filter; a replay delivers what fits a changed one.', 'rota events show {event}', true),
(91, 'no_event', 'None of the last {looked} was one that it is bound to: {bound}.', 'It starts with the next one.', 'rota events bindings --job {job}', false);

-- Of the newest events only, so that it costs the same however many are kept.
CREATE FUNCTION rota.why_events(j rota.jobs) RETURNS SETOF rota.finding LANGUAGE plpgsql STABLE SET jit = off AS $$
DECLARE
    most constant integer := 500;
    last record;
BEGIN
    IF j.events = '{}' OR j.deleted_from_code_at IS NOT NULL THEN
        RETURN;
    END IF;
    SELECT e.id, e.at, jsonb_path_exists(coalesce(e.deliveries, '[]'), '$[*] ? (@.job == $job && @.skipped == "filter")', jsonb_build_object('job', j.name))
            AND NOT jsonb_path_exists(coalesce(e.deliveries, '[]'), '$[*] ? (@.job == $job && exists(@.run))', jsonb_build_object('job', j.name)) AS is_filtered
    INTO last
    FROM (SELECT n.id, n.at, n.name, n.deliveries FROM rota.events n ORDER BY n.id DESC LIMIT most) e
    WHERE EXISTS (SELECT FROM rota.event_bindings b WHERE b.job = j.name AND (b.pattern = e.name OR (b.is_pattern AND e.name LIKE b.like_pattern)))
    ORDER BY e.id DESC LIMIT 1;
    IF last.id IS NULL THEN
        RETURN NEXT ROW('no_event', NULL, NULL, NULL, jsonb_build_object('job', j.name, 'looked', rota.plural_words(most, 'event'),
            'bound', rota.short_words(array_to_string(j.events, ', '))))::rota.finding;
    ELSIF last.is_filtered THEN
        RETURN NEXT ROW('event_filtered', last.at, NULL, NULL, jsonb_build_object('event', last.id))::rota.finding;
    END IF;
END $$;

-- As it is defined now, with one line more.
DO $$
BEGIN
    EXECUTE regexp_replace(pg_get_functiondef('rota.why_job(rota.jobs)'::regprocedure), '\nBEGIN\n',
        E'\nBEGIN\n    RETURN QUERY SELECT * FROM rota.why_events(j);\n');
END $$;
