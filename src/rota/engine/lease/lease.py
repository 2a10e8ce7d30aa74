"""The worker's lease: a thread with its own connection, so that a handler which blocks the event
loop does not lose it. The thread also watches for a blocked event loop."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

import psycopg

from rota.engine.lease.beat import Beat, HeldRow
from rota.engine.lease.health import HealthReport
from rota.postgres.queries import Query
from rota.postgres.runs import claimed
from rota.postgres.sessions.outage import Outage, is_shortage
from rota.postgres.sessions.pool import Conn, Database
from rota.telemetry.logger import get_logger

T = TypeVar("T")
_TIMEOUT_GRACE = 5.0
# The share of the lease that may have passed by the next try; above it the worker claims nothing.
_WEAK_FROM = 0.8
EXIT_STUCK = 70


class Borrow(Protocol):
    def __call__(self, query: Query[T], seconds: float, /) -> T: ...


class Watched(Protocol):
    """The actions of the watchdog on a worker whose event loop is blocked. Called from the
    thread."""

    def take_unstarted(self) -> list[tuple[int, int]]:
        """Return run and attempt of all claimed runs that have not started; they will not start
        here."""

    def overdue(self, grace: float) -> list[tuple[int, int, float]]:
        """Return run, attempt and timeout of attempts that should have ended long ago."""


class Lease:
    """Renews the lease every third of its duration, from `start` until `stop`.

    `on_lost`, `on_weak` (two thirds of the lease have passed without a renewal: stop claiming) and
    `borrow` are called from the thread. `borrow` executes a statement over a connection of the
    pool, for when the server has none left for the thread.
    """

    def __init__(
        self,
        database: Database,
        worker: int,
        *,
        seconds: float,
        watched: Watched,
        on_lost: Callable[[], object],
        on_weak: Callable[[bool], object],
        may_exit: bool,
        report: Callable[[], HealthReport],
        borrow: Borrow,
    ) -> None:
        self._report = report
        self._borrow = borrow
        self._outage: Outage = database.outage
        self._database = database
        self._worker = worker
        self._seconds = seconds
        self._watched = watched
        self._on_lost = on_lost
        self._on_weak = on_weak
        self._may_exit = may_exit
        self._log = get_logger("lease")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rota lease", daemon=True)
        self._stamp = time.monotonic()
        self._renewed = time.monotonic()
        self._is_weak = False
        self._is_stuck = False
        self._is_due = False
        self._conn: Conn | None = None
        # Early enough for the next try.
        self._answer_seconds = max(1.0, seconds / 3)
        self._beat = Beat(self._fetch, self._log, answer_seconds=self._answer_seconds)

    def stamp(self) -> None:
        """Note that the event loop is running."""
        self._stamp = time.monotonic()

    def start(self, *, is_due: bool = False) -> None:
        """Start the thread; harmless if it runs already. With `is_due` the first heartbeat is sent
        at once, because the supervisor renewed the lease until now."""
        if self._thread.ident is None:
            self._is_due = is_due
            self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def join(self) -> None:
        # The thread was never started if a supervisor renews the lease.
        if self._thread.ident is not None:
            self._thread.join(timeout=5)

    def _run(self) -> None:
        try:
            while not self._stopping.wait(0 if self._is_due else self._seconds / 3):
                self._is_due = False
                if not self._turn():
                    return
        finally:
            self._close()

    def _turn(self) -> bool:
        """Send one heartbeat. Return False if there will be no other."""
        self._watch()
        try:
            if not self._beat.renew(
                self._worker, self._report(), pid=os.getpid(), is_stuck=self._is_stuck
            ):
                self._log.error("the lease is lost", worker=self._worker)
                self._on_lost()
                return False
            self._renewed = time.monotonic()
            self._outage.written("lease")
        except HeldRow:
            pass  # already logged; the connection works
        except (psycopg.Error, OSError) as error:
            if not self._outage.note(error, "lease"):
                self._log.warning("the lease could not be renewed", error=error)
            self._close()
        # Before the next try could be too late: a try that waits for a held row takes time.
        next_try = time.monotonic() + self._seconds / 3
        is_weak = next_try - self._renewed > self._seconds * _WEAK_FROM
        if is_weak != self._is_weak:
            self._is_weak = is_weak
            self._on_weak(is_weak)
        return True

    def _fetch(self, query: Query[T]) -> T:
        if self._conn is None or self._conn.closed:
            name = f"rota lease {self._worker}"
            try:
                # Past a pooler, which may have lent all its connections to long transactions.
                self._conn = self._database.connect_sync(name, self._answer_seconds, session=True)
            except psycopg.OperationalError as error:
                if is_shortage(error) and not self._is_stuck:
                    return self._borrow(query, self._answer_seconds)
                raise
        return self._database.fetch_on_sync(self._conn, query)

    def _close(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.close()

    # The watchdog.

    def _watch(self) -> None:
        silent = time.monotonic() - self._stamp
        was_stuck, self._is_stuck = self._is_stuck, silent > self._seconds
        if not self._is_stuck:
            return
        if not was_stuck:
            self._log.error("the event loop is blocked", worker=self._worker, seconds=silent)
        try:
            self._hand_back()
            self._end_overdue()
        except (psycopg.Error, OSError) as error:
            self._log.warning("the watchdog could not reach the database", error=error)

    def _hand_back(self) -> None:
        runs = self._watched.take_unstarted()
        if runs:
            self._fetch(claimed.hand_back(self._worker, runs))

    def _end_overdue(self) -> None:
        """A handler blocks the event loop past its timeout: no other thread can end its attempt."""
        overdue = self._watched.overdue(_TIMEOUT_GRACE)
        if not overdue:
            return
        if not self._may_exit:
            # The worker is part of another program: stop renewing, so that other workers rescue the
            # runs.
            self._stopping.set()
            return
        for run, attempt, timeout in overdue:
            self._fetch(claimed.time_out(self._worker, run, attempt, timeout))
        self._log.critical("ending this process: a handler blocks the event loop past its timeout")
        os._exit(EXIT_STUCK)
