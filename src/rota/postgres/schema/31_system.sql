-- Rota's own jobs and their schedules. They come last, because every trigger on jobs and schedules has to be there.

-- Inserted once and yours to change: put your rules into the payload and enable the schedule.
INSERT INTO rota.jobs (name, kind, function_name, description, default_payload, is_system)
VALUES ('rota' || '.cleanup', 'sql', 'rota.cleanup', 'Removes expired rows from tables, by rules', '{"rules": []}',
    true);

-- Every worker knows these two: DETACH … CONCURRENTLY cannot be part of a transaction, so they are Python. Every
-- worker serves their queue, whichever others it was given.
INSERT INTO rota.jobs (name, queue, executor, description, max_attempts, is_system) VALUES
    ('rota' || '.prune_runs', 'rota' || '.system', 'async',
     'Removes runs, attempts, occurrences and counts that are past their retention', 1, true),
    ('rota' || '.prune_logs', 'rota' || '.system', 'async', 'Removes log lines that are past their retention', 1, true);

INSERT INTO rota.schedules (name, job, description, cron, is_enabled, is_system) VALUES
    ('rota' || '.cleanup', 'rota' || '.cleanup', 'Removes expired rows; enable it with rules in its payload',
     '0 3 * * *', false, true),
    ('rota' || '.prune_logs', 'rota' || '.prune_logs', 'Retention of log lines', '0 2 * * *', true, true),
    ('rota' || '.prune_runs', 'rota' || '.prune_runs', 'Retention of runs', '0 2 * * *', true, true);
