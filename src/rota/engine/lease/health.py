"""The health of a worker's loops: a worker whose loops only fail, or are blocked, does not keep its
lease.

Health is checked when the lease is renewed, which proves that the database is available: an outage
is no fault of the worker.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from psycopg.errors import LockNotAvailable

from rota.postgres.sessions.outage import Outage, is_unwritable, said_by_driver

_TEXT_LENGTH = 200


class Trouble(NamedTuple):
    """A loop that has not done its work for too long."""

    loop: str
    seconds: float
    errors: int
    reason: str
    is_standing: bool

    def __str__(self) -> str:
        return f"{self.loop}: {self.reason}"


class HealthReport(NamedTuple):
    """The part of a worker's health that is stored. Times are of the monotonic clock."""

    claimed_at: float | None = None
    finished_at: float | None = None
    errors: int = 0
    trouble: str | None = None


class Health:
    """Loops report the begin and the result of each turn; a loop that rests between turns is
    healthy."""

    def __init__(
        self, outage: Outage, *, patience: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._outage = outage
        self.patience = patience
        self._clock = clock
        self._turns: dict[str, Turns] = {}
        self._judged_since = clock()
        self._claimed_at: float | None = None
        self._finished_at: float | None = None
        self.report = HealthReport()

    # Reports of loops.

    def of(self, loop: str, extra: float = 0.0) -> Turns:
        """Return the turns of one loop, which may take `extra` seconds longer than others."""
        return self._turns.setdefault(loop, Turns(loop, self, extra))

    def claimed(self) -> None:
        """A claim was answered by the database."""
        self._claimed_at = self._clock()

    def finished(self) -> None:
        """Ends were written."""
        self._finished_at = self._clock()

    @property
    def loops(self) -> set[str]:
        return set(self._turns)

    # Queries of the worker.

    def excuse(self) -> None:
        """Ignore everything until now: the database may have been unavailable."""
        self._judged_since = self._clock()

    def look(self) -> list[Trouble]:
        """Return every trouble that has lasted too long, the longest first."""
        now = self._clock()
        found = [trouble for turns in self._turns.values() if (trouble := turns.trouble(now))]
        found.sort(key=lambda trouble: -trouble.seconds)
        errors = max((turns.errors for turns in self._turns.values()), default=0)
        text = "; ".join(map(str, found))[:_TEXT_LENGTH] or None
        self.report = HealthReport(self._claimed_at, self._finished_at, errors, text)
        return found

    def is_too_long(self, since: float, now: float, extra: float = 0.0) -> bool:
        return now - max(since, self._judged_since) > self.patience + extra

    def is_excused(self, error: BaseException, loop: str) -> bool:
        """Return whether the error is part of an outage, which is logged elsewhere. A server that
        refuses writes is no fault of a worker that can still renew its lease."""
        error = said_by_driver(error)
        if is_unwritable(error):
            self.excuse()
        return self._outage.note(error, loop)

    def recovered(self, loop: str) -> None:
        self._outage.written(loop)

    @property
    def clock(self) -> Callable[[], float]:
        return self._clock


class Turns:
    """The turns of one loop."""

    def __init__(self, loop: str, health: Health, extra: float) -> None:
        self._loop = loop
        self._health = health
        self._extra = extra
        self._began: float | None = None
        self._bad_since: float | None = None
        self._reason = ""
        self.errors = 0  # in a row

    def begin(self) -> None:
        self._began = self._health.clock()

    def went_well(self) -> None:
        self._began = self._bad_since = None
        self.errors = 0
        self._health.recovered(self._loop)

    def failed(self, error: BaseException) -> bool:
        """Return whether to log the error."""
        now = self._health.clock()
        # Another transaction holds a row that the loop needs: this is no fault of the worker, and
        # registering again would not help.
        if not isinstance(said_by_driver(error), LockNotAvailable):
            self._bad_since = self._bad_since or self._began or now
        self._began = None
        self.errors += 1
        self._reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        return not self._health.is_excused(error, self._loop)

    def forget(self) -> None:
        """The loop was stopped, or another process does its work."""
        self._began = self._bad_since = None
        self.errors = 0
        self._health.recovered(self._loop)

    def trouble(self, now: float) -> Trouble | None:
        began, bad_since = self._began, self._bad_since
        if began is not None and self._health.is_too_long(began, now, self._extra):
            return Trouble(self._loop, now - began, self.errors, "it is stuck", True)
        if bad_since is not None and self._health.is_too_long(bad_since, now):
            return Trouble(self._loop, now - bad_since, self.errors, self._reason, False)
        return None
