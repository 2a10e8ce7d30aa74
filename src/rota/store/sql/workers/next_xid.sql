-- Every transaction that could not see the flag just committed has an id below this.
SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint
