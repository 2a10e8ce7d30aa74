-- Tests jump over nights, in which upkeep would run.
UPDATE rota.schedules SET is_enabled = false WHERE is_system;
TRUNCATE rota.audit
