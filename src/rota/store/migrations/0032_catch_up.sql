-- A window for what is made up for is a choice: without one the latest missed time always is, however long ago it was.
ALTER TABLE rota.schedules ALTER COLUMN catch_up_seconds DROP DEFAULT, ALTER COLUMN catch_up_seconds DROP NOT NULL;
ALTER TABLE rota.schedules DISABLE TRIGGER USER;
UPDATE rota.schedules SET catch_up_seconds = NULL WHERE catch_up_seconds = 86400 AND NOT edited ? 'catch_up_seconds';
ALTER TABLE rota.schedules ENABLE TRIGGER USER;

-- The unfinished runs of a schedule that make up for missed times: they follow one another, and are not each other's overlap.
CREATE FUNCTION rota.count_made_up(schedule_id bigint) RETURNS integer LANGUAGE sql STABLE
SET enable_seqscan = off SET jit = off AS $$
    SELECT count(*)::integer FROM rota.open_runs o
    WHERE o.schedule_id = count_made_up.schedule_id AND o.triggered_by ->> 'type' = 'catch_up'
$$;
