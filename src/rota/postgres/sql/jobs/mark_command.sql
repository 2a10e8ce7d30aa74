-- To be taken back. The number of this command, one more than the last mark's if nothing was written in between; and whether
-- a cursor is left that the commit would run.
INSERT INTO rota.command_marks DEFAULT VALUES
RETURNING cmin::text::bigint, EXISTS (SELECT FROM pg_catalog.pg_cursors WHERE is_holdable)
