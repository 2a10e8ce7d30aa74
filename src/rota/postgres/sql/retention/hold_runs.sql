-- Begins a transaction that holds this and nothing else: without a number of its own or a snapshot it is in nobody's way.
BEGIN;
SET LOCAL idle_in_transaction_session_timeout = 0;
LOCK TABLE rota.pruning_runs IN EXCLUSIVE MODE NOWAIT
