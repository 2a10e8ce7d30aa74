"""A supervisor's side of the leases of its workers: renews them while their processes live, and
tells the database at once when one has ended.

A thread with one connection, so that a database that does not answer keeps the supervisor
neither from signals nor from restarting what died.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import psycopg
from psycopg import errors

from rota.runtime.lease.beat import Beat, HeldRow
from rota.runtime.processes.worker_page import Overdue, SharedPage
from rota.store.queries import Query
from rota.store.runs import claimed
from rota.store.runs.moves import rescue
from rota.store.sessions.pool import Conn, Database
from rota.store.workers import leases
from rota.telemetry.logger import get_logger

T = TypeVar("T")
_LOOK_SECONDS = 0.1
_RETRY_SECONDS = 1.0
_RESCUED_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class EndedWorker:
    """An identity whose process is no more, and what it had held past its timeout if it was
    ended because of that."""

    worker: int
    overdue: tuple[Overdue, ...]


class ParentLease:
    """Call `watch` for each new page and its process; `ended` when that was seen to end."""

    def __init__(self, database: Database, *, lease_seconds: float) -> None:
        self._database = database
        self._seconds = lease_seconds
        self._log = get_logger("supervisor")
        self._pages: dict[SharedPage, _Renewal] = {}
        self._ended: deque[EndedWorker] = deque()
        self._changing = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rota leases", daemon=True)
        self._conn: Conn | None = None
        self._quiet_until = 0.0
        # Short: one row that somebody holds must not cost the others their leases.
        self._answer_seconds = max(1.0, lease_seconds / 10)
        self._beat = Beat(self._fetch, self._log, answer_seconds=self._answer_seconds)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """The last word about what has ended is still said, if it can be said in this time."""
        self._stopping.set()
        self._thread.join(timeout)

    def watch(self, page: SharedPage, pid: int) -> None:
        with self._changing:
            self._pages[page] = _Renewal(pid)

    def ended(self, page: SharedPage, overdue: Iterable[Overdue] = ()) -> None:
        with self._changing:
            self._pages.pop(page, None)
        if page.worker:
            self._ended.append(EndedWorker(page.worker, tuple(overdue)))

    def _run(self) -> None:
        try:
            while not self._stopping.wait(_LOOK_SECONDS):
                self.run_once()
            while self._ended and self.run_once():
                pass
        finally:
            self._close()

    def run_once(self) -> bool:
        """Renew what is due, say what has ended. False: the database could not be reached, and
        is left alone for a moment."""
        if time.monotonic() < self._quiet_until and not self._stopping.is_set():
            return False
        try:
            # First: whatever is wrong with the rest, the living keep their leases.
            self._renew_due()
            while self._ended:
                self._tell_ended(self._ended[0])
                self._ended.popleft()
        except Exception as error:
            # Whatever it is: a thread that ended would take all leases with it.
            if not self._database.outage.note(error):
                self._log.warning("the leases could not be renewed", error=error)
            self._close()
            self._quiet_until = time.monotonic() + min(_RETRY_SECONDS, self._seconds / 6)
            return False
        self._database.outage.written()
        return True

    # Renewing.

    def _renew_due(self) -> None:
        with self._changing:
            pages = list(self._pages.items())
        if not any(page.worker for page, _ in pages):
            self._close()  # none has come yet, or all sleep
        for page, renewal in pages:
            worker, now = page.worker, time.monotonic()
            if renewal.worker != worker:
                renewal.worker, renewal.due_at = worker, now + self._seconds / 3
            if worker and now >= renewal.due_at:
                is_stuck = self._is_stuck(page)
                if is_stuck and not renewal.is_stuck:
                    self._log.error("the event loop is blocked", worker=worker)
                renewal.is_stuck = is_stuck
                try:
                    self._renew(page, worker, is_stuck, renewal.pid)
                    renewal.due_at = now + self._seconds / 3
                except HeldRow:
                    # The others' leases are due, too.
                    renewal.due_at = now + min(_RETRY_SECONDS, self._seconds / 6)

    def _is_stuck(self, page: SharedPage) -> bool:
        return (time.monotonic_ns() - page.stamped_at) / 1e9 > self._seconds

    def _renew(self, page: SharedPage, worker: int, is_stuck: bool, pid: int) -> None:
        asked_at = time.monotonic_ns()
        if self._beat.renew(worker, page.report, pid=pid, is_stuck=is_stuck):
            page.renewed_at = asked_at
        elif page.lost_worker != worker and page.worker == worker and not page.is_leaving:
            self._log.error("the lease is lost", worker=worker)
            page.lost_worker = worker

    # What has ended.

    def _tell_ended(self, ended: EndedWorker) -> None:
        """Safe to repeat: every statement names the worker, and touches only what it held."""
        worker = ended.worker
        for one in ended.overdue:
            self._time_out(worker, one)
        try:
            if not self._fetch(leases.declare_lost(worker)):
                return
        except errors.LockNotAvailable:
            # Its lease will run out, and whoever sees that then declares it lost.
            self._beat.tell_holder(
                worker, "a worker whose process has ended cannot be declared lost"
            )
            return
        self._log.warning("worker is lost, its process has ended", worker=worker)
        # Its open transactions would block the attempts that follow.
        self._fetch(leases.end_backends(worker))
        self._rescue()

    def _time_out(self, worker: int, one: Overdue) -> None:
        try:
            self._fetch(claimed.time_out(worker, one.run, one.attempt, one.timeout))
        except (psycopg.OperationalError, psycopg.InterfaceError):
            raise
        except psycopg.Error:
            # It will be lost instead: worse words for the same end, and nobody has to wait.
            self._log.exception("a timeout could not be recorded", run=one.run)

    def _rescue(self) -> None:
        """Not left to the workers: there may be no other."""
        while True:
            rescued = self._fetch(rescue(_RESCUED_AT_ONCE, everywhere=False))
            for one in rescued:
                self._log.info("rescued", **one._asdict())
            if len(rescued) < _RESCUED_AT_ONCE:
                return

    def _fetch(self, query: Query[T]) -> T:
        if self._conn is None or self._conn.closed:
            self._conn = self._database.connect_sync(
                "rota supervisor", self._answer_seconds, session=True
            )
        return self._database.fetch_on_sync(self._conn, query)

    def _close(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.close()


@dataclass(slots=True)
class _Renewal:
    """Whose lease is due when; an identity may change under one page."""

    pid: int
    worker: int = 0
    due_at: float = 0.0
    is_stuck: bool = False
