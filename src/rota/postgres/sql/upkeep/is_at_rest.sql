-- Whether upkeep would find nothing that somebody waits for.
SELECT NOT EXISTS (SELECT FROM rota.open_runs) AND NOT EXISTS (SELECT FROM rota.error_changes)
