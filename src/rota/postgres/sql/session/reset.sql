-- Behind the end of users' transaction, in the same message: nothing of its session is there for the next one, nor, behind a pooler, left on
-- a connection of somebody else's. DISCARD ALL without its DISCARD PLANS, which nobody can see and which would have every plan made anew.
RESET SESSION AUTHORIZATION;
RESET ROLE;
RESET ALL;
CLOSE ALL;
UNLISTEN *;
DEALLOCATE ALL;
SELECT pg_catalog.pg_advisory_unlock_all();
DISCARD TEMP;
DISCARD SEQUENCES
