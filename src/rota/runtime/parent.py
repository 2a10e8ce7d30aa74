"""The supervisor, as a worker sees it that was started by one.

The supervisor renews the lease from its own process, so that no handler can keep it from that by
holding this interpreter; see supervisor.py for its side.
"""

from __future__ import annotations

import os
import time

from rota.runtime.attempt import RunningAttempt
from rota.runtime.health import Report
from rota.runtime.stamps import Card

# `pid:descriptor` of the supervisor and of the card.
VARIABLE = "ROTA_SUPERVISOR"


class ShownAttempts(dict[int, RunningAttempt]):
    """Running attempts by their run. Those with a timeout are on the card from their first moment
    on: a body that holds the interpreter leaves no later one."""

    def __init__(self, card: Card) -> None:
        super().__init__()
        self._card = card
        self._places: dict[int, int] = {}

    def __setitem__(self, run: int, attempt: RunningAttempt) -> None:
        super().__setitem__(run, attempt)
        if attempt.timeout is not None:
            place = self._card.add_attempt(
                run, attempt.claim.attempt, attempt.started, attempt.timeout
            )
            if place is not None:
                self._places[run] = place

    def __delitem__(self, run: int) -> None:
        super().__delitem__(run)
        place = self._places.pop(run, None)
        if place is not None:
            self._card.remove_attempt(place)


class Parent:
    """Says that the loop turns, and knows what the supervisor found out about the lease."""

    def __init__(self, card: Card, pid: int, lease_seconds: float) -> None:
        self._card = card
        self._pid = pid
        self._lease_seconds = lease_seconds
        self._registered_at = time.monotonic_ns()
        self._reported: Report | None = None

    @classmethod
    def inherited(cls, lease_seconds: float) -> Parent | None:
        """The supervisor that started this process, if one did. Asked once: whatever this
        process starts is not the supervisor's child."""
        words = os.environ.pop(VARIABLE, "")
        if not words:
            return None
        pid, fd = (int(word) for word in words.split(":"))
        card = Card.open(fd)
        if card is None:
            return None
        os.close(fd)
        return cls(card, pid, lease_seconds)

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def is_gone(self) -> bool:
        return os.getppid() != self._pid

    def registered(self, worker: int) -> None:
        """From now on the supervisor renews the lease of this identity."""
        self._registered_at = time.monotonic_ns()
        self._card.stamp()
        self._card.worker = worker

    def stamp(self, report: Report) -> None:
        self._card.stamp()
        if report is not self._reported:
            self._reported = self._card.report = report

    def leave(self) -> None:
        self._card.leave()

    def retire(self) -> None:
        """An operator wants this worker to stop: it shall not be replaced."""
        self._card.retire()

    def has_lost(self, worker: int) -> bool:
        """Whether the supervisor was told that this identity is not live."""
        return self._card.lost_worker == worker

    @property
    def is_weak(self) -> bool:
        """Whether the lease was not renewed for two thirds of it, be it that the database is
        away or that the supervisor itself stands still."""
        renewed_at = max(self._card.renewed_at, self._registered_at)
        return time.monotonic_ns() - renewed_at > self._lease_seconds * 2 / 3 * 1e9

    def show(self) -> ShownAttempts:
        """A place for running attempts in which the supervisor sees their timeouts."""
        return ShownAttempts(self._card)
