"""The supervisor, as seen by a worker that it started.

The supervisor renews the lease from its own process, so that no handler can prevent that by
blocking this interpreter; see supervisor.py for its side.
"""

from __future__ import annotations

import os
import socket
import time

from rota.engine.attempts.attempt import RunningAttempt
from rota.engine.lease.health import HealthReport
from rota.engine.processes.worker_page import SharedPage
from rota.model.outcome import Outcome

# `pid:descriptor:descriptor:channel`: of the supervisor, of the page, of the socket over which the
# supervisor relays calls, and the channel of these calls.
VARIABLE = "ROTA_SUPERVISOR"


class ShownTimeouts:
    """Writes attempts with a timeout on the page when they begin: a handler that blocks the
    interpreter allows no later time. Observes attempts."""

    def __init__(self, page: SharedPage) -> None:
        self._page = page
        self._places: dict[int, int] = {}

    def began(self, attempt: RunningAttempt) -> None:
        if attempt.timeout is not None:
            claim = attempt.claim
            place = self._page.add_attempt(
                claim.id, claim.attempt, attempt.started, attempt.timeout
            )
            if place is not None:
                self._places[claim.id] = place

    def ended(self, attempt: RunningAttempt, _outcome: Outcome | None) -> None:
        place = self._places.pop(attempt.claim.id, None)
        if place is not None:
            self._page.remove_attempt(place)


class Parent:
    """Reports that the event loop is running, and reads the state of the lease."""

    def __init__(
        self, page: SharedPage, pid: int, lease_seconds: float, end: socket.socket, channel: str
    ) -> None:
        self._page = page
        self.end = end
        self.channel = channel
        self._pid = pid
        self._lease_seconds = lease_seconds
        self._registered_at = time.monotonic_ns()
        self._reported: HealthReport | None = None

    @classmethod
    def inherited(cls, lease_seconds: float) -> Parent | None:
        """Return the supervisor that started this process, if any. Works once, because processes
        started by this one are not the supervisor's children."""
        words = os.environ.pop(VARIABLE, "")
        if not words:
            return None
        pid, fd, end, channel = words.split(":")
        page = SharedPage.open(int(fd))
        if page is None:
            return None
        os.close(int(fd))
        return cls(page, int(pid), lease_seconds, socket.socket(fileno=int(end)), channel)

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def is_gone(self) -> bool:
        return os.getppid() != self._pid

    def registered(self, worker: int) -> None:
        """The supervisor renews the lease of this worker id from now on."""
        self._registered_at = time.monotonic_ns()
        self._page.stamp()
        self._page.is_drowsy = self._page.is_asleep = False
        self._page.worker = worker

    def stamp(self, report: HealthReport) -> None:
        self._page.stamp()
        if report is not self._reported:
            self._reported = self._page.report = report

    def unregistered(self) -> None:
        """The worker signs off to sleep: there is no lease to renew until it registers again."""
        self._page.worker = 0
        self._page.is_asleep = True

    @property
    def has_duty(self) -> bool:
        """Return whether this worker performs the upkeep for all workers of the supervisor."""
        return self._page.has_duty

    def set_willing(self, is_willing: bool) -> None:
        self._page.is_willing = is_willing

    def may_sleep(self, is_drowsy: bool) -> bool:
        """Return whether to sleep now. The workers of one supervisor sleep together; otherwise
        those awake would have to do the work of all."""
        self._page.is_drowsy = is_drowsy
        return is_drowsy and self._page.is_night

    def leave(self) -> None:
        self._page.leave()

    def retire(self) -> None:
        """An operator stops this worker: do not replace it."""
        self._page.retire()

    def has_lost(self, worker: int) -> bool:
        """Return whether the supervisor found that this worker id is not live."""
        return self._page.lost_worker == worker

    @property
    def is_weak(self) -> bool:
        """Return whether two thirds of the lease have passed without a renewal, because the
        database is unavailable or the supervisor is blocked."""
        renewed_at = max(self._page.renewed_at, self._registered_at)
        return time.monotonic_ns() - renewed_at > self._lease_seconds * 2 / 3 * 1e9

    def show(self) -> ShownTimeouts:
        """Return the observer that shows the supervisor the timeouts of running attempts."""
        return ShownTimeouts(self._page)
