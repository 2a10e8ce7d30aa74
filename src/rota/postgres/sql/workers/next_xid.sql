-- Every transaction that could not see the flag just committed has an id below this, which is taken for it. The
-- snapshot's xmax is not that number: it follows the last transaction that has ended, and one that began before may
-- have a higher one.
SELECT pg_current_xact_id()::text::bigint
