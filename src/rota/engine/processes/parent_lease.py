"""The supervisor's side of its workers' leases: renews them while their processes live, and marks a
worker as lost as soon as its process has ended.

A thread with one connection, so that a database that does not respond prevents the supervisor
neither from handling signals nor from restarting processes.
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

from rota.engine.lease.beat import Beat, HeldRow
from rota.engine.processes.worker_page import Overdue, SharedPage
from rota.postgres.queries import Query
from rota.postgres.runs import claimed
from rota.postgres.runs.moves import rescue
from rota.postgres.sessions.pool import Conn, Database
from rota.postgres.workers import leases
from rota.telemetry.logger import get_logger

T = TypeVar("T")
_LOOK_SECONDS = 0.1
_RETRY_SECONDS = 1.0
_RESCUED_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class EndedWorker:
    """A worker id whose process has ended, and its attempts past their timeout, if it was killed
    because of them."""

    worker: int
    overdue: tuple[Overdue, ...]


class ParentLease:
    """Call `watch` for each new page and its process; `ended` when the process has ended."""

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
        # Short: one row that another transaction holds must not cost the other workers their
        # leases.
        self._answer_seconds = max(1.0, lease_seconds / 10)
        self._beat = Beat(self._fetch, self._log, answer_seconds=self._answer_seconds)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Record the workers that have ended, if that succeeds within this time."""
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
        """Renew leases that are due, and record workers that have ended. Return False if the
        database could not be reached; the next try follows after a pause."""
        if time.monotonic() < self._quiet_until and not self._stopping.is_set():
            return False
        try:
            # First: live workers keep their leases, whatever fails afterwards.
            self._renew_due()
            while self._ended:
                self._tell_ended(self._ended[0])
                self._ended.popleft()
        except Exception as error:
            # Catch everything: without this thread all leases would expire.
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
            self._close()  # no worker has registered yet, or all sleep
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
                    # The leases of other workers are due too.
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

    # Workers that have ended.

    def _tell_ended(self, ended: EndedWorker) -> None:
        """Safe to repeat: every statement names the worker, and affects only its runs."""
        worker = ended.worker
        for attempt in ended.overdue:
            self._time_out(worker, attempt)
        try:
            if not self._fetch(leases.declare_lost(worker)):
                return
        except errors.LockNotAvailable:
            # Its lease will expire, and any worker then declares it lost.
            self._beat.tell_holder(
                worker, "a worker whose process has ended cannot be declared lost"
            )
            return
        self._log.warning("worker is lost, its process has ended", worker=worker)
        # Its open transactions would block the attempts that follow.
        self._fetch(leases.end_backends(worker))
        self._rescue()

    def _time_out(self, worker: int, overdue: Overdue) -> None:
        try:
            self._fetch(claimed.time_out(worker, overdue.run, overdue.attempt, overdue.timeout))
        except (psycopg.OperationalError, psycopg.InterfaceError):
            raise
        except psycopg.Error:
            # The attempt will be recorded as lost instead of timed out.
            self._log.exception("a timeout could not be recorded", run=overdue.run)

    def _rescue(self) -> None:
        """The supervisor rescues, because there may be no other worker."""
        while True:
            rescued = self._fetch(rescue(_RESCUED_AT_ONCE, everywhere=False))
            for run in rescued:
                self._log.info("rescued", **run._asdict())
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
    """The time at which the lease of a page's worker is due; the page's worker id may change."""

    pid: int
    worker: int = 0
    due_at: float = 0.0
    is_stuck: bool = False
