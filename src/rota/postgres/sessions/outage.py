"""Logs an outage once when it begins and once when it ends, however many callers notice it."""

from __future__ import annotations

import threading
import time

import psycopg

from rota.errors import RotaError
from rota.postgres.sessions.connection_pools import AllInUse
from rota.postgres.sessions.refusals import code_of
from rota.telemetry.logger import get_logger

# The server is stopping, stopped or starting; without a code the connection itself broke.
_AWAY = ("57P01", "57P02", "57P03", "57P05")
_TOO_MANY = "53300"
_SHORT_SECONDS = 30.0
# The server refuses the login: equivalent to an outage, but it does not resolve by itself.
_NOT_LET_IN = ("28", "3D")
# The server is available but not writable.
_UNWRITABLE = {
    "25006": "the database is read-only, as after a fail-over: waiting until it is writable",
    "53100": "the server's disk is full: waiting for free space",
}
_ANYBODY = ""


def said_by_driver(error: BaseException) -> BaseException:
    """Return the driver's error that caused one of Rota's errors, otherwise the error itself."""
    cause = error.__cause__
    return cause if isinstance(error, RotaError) and isinstance(cause, psycopg.Error) else error


def is_away(error: BaseException) -> bool:
    """Return whether the error means that the server was not reached, rather than that it rejected
    a statement."""
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        code = error.sqlstate
        return code is None or code in _AWAY or code[:2] in ("08", *_NOT_LET_IN)
    return isinstance(error, OSError)


def is_passing(error: BaseException) -> bool:
    """Return whether the error may resolve without a change of configuration: the server is
    unavailable, has no connections left or is not writable."""
    if isinstance(error, psycopg.OperationalError) and (code_of(error) or "")[:2] in _NOT_LET_IN:
        return False
    return is_away(error) or is_shortage(error) or is_unwritable(error)


def is_shortage(error: BaseException) -> bool:
    """Return whether the error means that the server has no connection left."""
    if not isinstance(error, psycopg.OperationalError) or isinstance(error, AllInUse):
        return False
    return code_of(error) == _TOO_MANY


def is_unwritable(error: BaseException | None) -> bool:
    """Return whether the error means that the server accepts no writes at all."""
    return isinstance(error, psycopg.Error) and error.sqlstate in _UNWRITABLE


class Outage:
    """The outages of one database, as this process sees them."""

    def __init__(self) -> None:
        self._log = get_logger("database")
        self._changing = threading.Lock()
        self._since: float | None = None
        self._short_since: float | None = None
        self._refused_at = 0.0
        self._unwritable: str | None = None
        self._unwritable_since = 0.0
        self._held_up: set[str] = set()  # callers that cannot write
        self.wanted = 0  # connections that this process needs, for the log

    @property
    def is_short(self) -> bool:
        """Return whether the server had no connection left a moment ago."""
        return (
            self._short_since is not None and time.monotonic() - self._refused_at < _SHORT_SECONDS
        )

    def note(self, error: BaseException, who: str = _ANYBODY) -> bool:
        """Record an error. Return whether it is part of an outage, which is then already logged."""
        if is_shortage(error):
            self._note_shortage(error)
            return True
        if is_unwritable(error):
            self._note_unwritable(error, who)
            return True
        if not is_away(error):
            return False
        with self._changing:
            is_new, self._since = self._since is None, self._since or time.monotonic()
        if is_new:
            self._log.warning("the database is unavailable, retrying", error=error)
        return True

    def _note_shortage(self, error: BaseException) -> None:
        with self._changing:
            is_new, self._refused_at = self._short_since is None, time.monotonic()
            self._short_since = self._short_since or time.monotonic()
        if is_new:
            text = "the server has no connections left, continuing with the open ones"
            self._log.warning(text, wanted=self.wanted or None, error=error)

    def _note_unwritable(self, error: BaseException, who: str) -> None:
        words = _UNWRITABLE[str(getattr(error, "sqlstate", ""))]
        with self._changing:
            is_new, self._unwritable = self._unwritable != words, words
            self._unwritable_since = self._unwritable_since or time.monotonic()
            self._held_up.add(who)
        if is_new:
            message = getattr(getattr(error, "diag", None), "message_primary", None)
            self._log.warning(words, error=message or str(error))

    def written(self, who: str = _ANYBODY) -> None:
        """Record a successful write by `who`. The outage is over when every blocked caller can
        write again."""
        if not self._held_up:
            return
        with self._changing:
            before, self._held_up = self._held_up, self._held_up - {who, _ANYBODY}
            if self._held_up or not before:
                return
            since, self._unwritable_since, self._unwritable = self._unwritable_since, 0.0, None
        seconds = round(time.monotonic() - since, 1)
        self._log.info("the database is writable again", seconds=seconds)

    def over(self) -> None:
        """Record that a connection was opened."""
        if self._since is None and self._short_since is None:
            return
        with self._changing:
            since, self._since = self._since, None
            short_since, self._short_since = self._short_since, None
        for text, begun in (
            ("the database is available again", since),
            ("the server has free connections again", short_since),
        ):
            if begun is not None:
                self._log.info(text, seconds=round(time.monotonic() - begun, 1))
