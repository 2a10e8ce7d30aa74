-- And give the session back.
COMMIT;
{session/reset}
