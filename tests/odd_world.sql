-- A small installation: a row in every table that a face shows.
INSERT INTO rota.jobs (name, queue, tags, metadata, backoff)
VALUES ('work', 'mail', '{a}', '{"team": "x"}', '{"kind": "fixed"}');
INSERT INTO rota.queues (name, is_paused, paused_at, paused_by) VALUES ('mail', true, rota.now(), 'me');
INSERT INTO rota.calendars (name, definition) VALUES ('holidays', '{"timezone": "UTC"}');
INSERT INTO rota.schedules (name, job, cron, calendar, next_run_at)
VALUES ('nightly', 'work', '0 3 * * *', 'holidays', rota.now() + interval '1 hour');
SELECT rota.register_worker('w', 'h', 1, '', '{mail}', '{work}', 1, 60);
SELECT rota.enqueue('work', '{"n": 1}', tags => '{a}', metadata => '{}', max_attempts => 2);
UPDATE rota.queues SET is_paused = false, paused_at = NULL, paused_by = NULL;
SELECT count(*) FROM rota.claim_runs(1, 1, '{mail}', 1, '{work}', '{}');
SELECT count(*) FROM rota.requeue_runs(1, '{1}', '{1}', '{5}', '{failed}', '{0}', '{true}', '{m}', '{E}', '{e}', '{t}', ARRAY['{}'::jsonb]);
SELECT count(*) FROM rota.claim_runs(1, 1, '{mail}', 1, '{work}', '{}');
SELECT count(*) FROM rota.finish_runs(1, '{1}', '{2}', '{5}', ARRAY['{"x": 1}'::jsonb]);
SELECT rota.enqueue('work', key => 'k', key_seconds => 5, delay => '1 hour', expires_at => rota.now() + interval '1 day');
SELECT rota.enqueue('work', priority => 0);
SELECT count(*) FROM rota.claim_runs(1, 1, '{mail}', 1, '{work}', '{}');
SELECT rota.cancel_run((SELECT max(id) FROM rota.open_runs WHERE state = 'running'));
INSERT INTO rota.logs VALUES (rota.now(), 1, 1, 1, 1, 'info', 'work', '', 'hello', '{"n": 1}');
INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, decision, tenant, schedule, claimed_at, decided_at, run_id, state)
SELECT id, rota.now(), rota.now(), 'ran', '', name, rota.now(), rota.now(), 1, 'succeeded' FROM rota.schedules WHERE name = 'nightly';
INSERT INTO rota.backfills (schedule_id, from_at, until_at, created_by) SELECT schedule_id, nominal_at, nominal_at, 'me' FROM rota.ledger;
INSERT INTO rota.backfill_times SELECT 1, schedule_id, nominal_at, 1 FROM rota.ledger;
INSERT INTO rota.schedule_days SELECT id, current_date, 1, 0, 0, 1, 5, 5 FROM rota.schedules WHERE name = 'nightly';
UPDATE rota.queues SET is_paused = true, paused_at = rota.now(), paused_by = 'me';
