"""An outage is one thing, however many notice it: said once when it begins, once when it ends."""

from __future__ import annotations

import threading
import time

import psycopg

from rota.telemetry.logging import get_logger

# The server is going, gone or coming; without a code the connection itself broke.
_AWAY = ("57P01", "57P02", "57P03", "57P05")


def is_away(error: BaseException) -> bool:
    """Whether it says that the server was not reached, and not what it thinks of a statement."""
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        code = error.sqlstate
        return code is None or code in _AWAY or code.startswith("08")
    return isinstance(error, OSError)


class Outage:
    """Of one database, as this process sees it."""

    def __init__(self) -> None:
        self._log = get_logger("database")
        self._changing = threading.Lock()
        self._since: float | None = None

    def note(self, error: BaseException) -> bool:
        """Whether the error is part of an outage, so that nobody else has to speak of it."""
        if not is_away(error):
            return False
        with self._changing:
            is_new, self._since = self._since is None, self._since or time.monotonic()
        if is_new:
            self._log.warning("the database is away, trying again", error=error)
        return True

    def over(self) -> None:
        """A connection was made."""
        if self._since is None:
            return
        with self._changing:
            since, self._since = self._since, None
        if since is not None:
            seconds = round(time.monotonic() - since, 1)
            self._log.info("the database is back", seconds=seconds)
