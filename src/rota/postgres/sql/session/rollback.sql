-- And give the session back.
ROLLBACK;
{session/reset}
