-- Somebody's open transaction may hold the row of a worker. What the worker has to write there can wait, and its claims do not wait for it;
-- nor does the rest of the fleet, whose lock the start of a worker holds meanwhile.
ALTER FUNCTION rota.answer_calls(bigint, boolean, boolean, text) SET lock_timeout = '100ms';
ALTER FUNCTION rota.pass_on(bigint, text[]) SET lock_timeout = '100ms';
ALTER FUNCTION rota.start_worker(bigint, text, text, boolean) SET lock_timeout = '1s';
