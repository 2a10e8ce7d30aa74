"""The supervisor, as a worker sees it that was started by one.

The supervisor renews the lease from its own process, so that no handler can keep it from that by
holding this interpreter; see supervisor.py for its side.
"""

from __future__ import annotations

import os
import socket
import time

from rota.model.outcome import Outcome
from rota.runtime.attempts.attempt import RunningAttempt
from rota.runtime.lease.health import HealthReport
from rota.runtime.processes.worker_page import SharedPage

# `pid:descriptor:descriptor:channel`: of the supervisor, of the page, and of the socket over which
# it passes on the calls of this channel.
VARIABLE = "ROTA_SUPERVISOR"


class ShownTimeouts:
    """Puts attempts with a timeout on the page, from their first moment on: a body that holds the
    interpreter leaves no later one. Observes attempts."""

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
    """Says that the loop turns, and knows what the supervisor found out about the lease."""

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
        """The supervisor that started this process, if one did. Asked once: whatever this
        process starts is not the supervisor's child."""
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
        """From now on the supervisor renews the lease of this identity."""
        self._registered_at = time.monotonic_ns()
        self._page.stamp()
        self._page.is_drowsy = self._page.is_asleep = False
        self._page.worker = worker

    def stamp(self, report: HealthReport) -> None:
        self._page.stamp()
        if report is not self._reported:
            self._reported = self._page.report = report

    def unregistered(self) -> None:
        """It signs off to sleep: there is no lease to renew until it registers again."""
        self._page.worker = 0
        self._page.is_asleep = True

    @property
    def has_duty(self) -> bool:
        """Whether this worker does the upkeep for all of the supervisor's."""
        return self._page.has_duty

    def set_willing(self, is_willing: bool) -> None:
        self._page.is_willing = is_willing

    def may_sleep(self, is_drowsy: bool) -> bool:
        """The workers of one supervisor sleep together: else those that are awake would have to
        do the work of all."""
        self._page.is_drowsy = is_drowsy
        return is_drowsy and self._page.is_night

    def leave(self) -> None:
        self._page.leave()

    def retire(self) -> None:
        """An operator wants this worker to stop: it shall not be replaced."""
        self._page.retire()

    def has_lost(self, worker: int) -> bool:
        """Whether the supervisor was told that this identity is not live."""
        return self._page.lost_worker == worker

    @property
    def is_weak(self) -> bool:
        """Whether the lease was not renewed for two thirds of it, be it that the database is
        away or that the supervisor itself stands still."""
        renewed_at = max(self._page.renewed_at, self._registered_at)
        return time.monotonic_ns() - renewed_at > self._lease_seconds * 2 / 3 * 1e9

    def show(self) -> ShownTimeouts:
        """Who shows the supervisor the timeouts of running attempts."""
        return ShownTimeouts(self._page)
