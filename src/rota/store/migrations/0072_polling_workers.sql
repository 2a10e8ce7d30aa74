-- A worker behind a pooler that lends sessions for a transaction only hears no calls: it polls, and says so.
ALTER TABLE rota.workers ADD COLUMN is_polling boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN rota.workers.is_polling IS 'hears no calls, as it has no session of its own: it finds work within worker.poll_seconds';
