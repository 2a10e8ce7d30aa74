-- Its end is written in it, whatever the server's default.
BEGIN READ WRITE;
{session/lend}
