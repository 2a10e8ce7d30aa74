-- All that a database has beyond a new one goes: runs, history, jobs, schedules, what operators set, a moved clock.
-- What migrations have put in stays, and ids go on from where they were.
DO $reset$
DECLARE
    data text;
BEGIN
    PERFORM rota.set_clock(NULL);
    SELECT string_agg(c.oid::regclass::text, ', ') INTO data
    FROM pg_class c
    WHERE c.relnamespace = (SELECT o.relnamespace FROM pg_class o WHERE o.oid = 'rota.open_runs'::regclass)
      AND c.relkind IN ('r', 'p') AND NOT c.relispartition
      AND c.relname NOT IN ('migrations', 'settings', 'reasons', 'schedule_templates', 'locks', 'partitioned', 'count_marks',
                            'jobs', 'schedules', 'schedule_state');
    PERFORM rota.unwatch_table(watch => w.id) FROM rota.table_watches w;  -- with its triggers on tables of others
    TRUNCATE rota.open_runs;  -- a job with open runs is not deleted
    DELETE FROM rota.schedules WHERE NOT is_system;
    DELETE FROM rota.jobs WHERE NOT is_system;
    EXECUTE 'TRUNCATE ' || data;
    -- Counted by a clock that was moved, perhaps.
    UPDATE rota.count_marks SET counted_at = '2000-01-01 00:00Z';
    UPDATE rota.settings SET has_limits = false, capped_queues = '{}';
END
$reset$
