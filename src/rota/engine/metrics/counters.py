"""Counters of a worker other than attempts: kept in memory, added to the database with the
roll-ups.

Names and labels are few and fixed by the code; nothing here grows with the number of runs.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from rota.model.histogram import BUCKETS, bucket_of
from rota.model.run import Claim
from rota.postgres.metrics import CounterChange

Key = tuple[str, tuple[tuple[str, str], ...]]


class _Extras(msgspec.Struct):
    """The extras of a run: when a scheduled run was meant to start. The time is text, because a run
    may have a time that Python cannot represent."""

    schedule: str | None = None
    run_at: str | None = None


_read = msgspec.json.Decoder(_Extras).decode


@dataclass(slots=True)
class PendingCounter:
    """The counts of one name and its labels since the last write."""

    amount: int = 0
    seconds: float = 0.0
    buckets: list[int] | None = None

    def observe(self, seconds: float) -> None:
        if self.buckets is None:
            self.buckets = [0] * BUCKETS
        self.amount += 1
        self.seconds += max(0.0, seconds)
        self.buckets[bucket_of(seconds)] += 1

    def add(self, other: PendingCounter) -> None:
        self.amount += other.amount
        self.seconds += other.seconds
        if other.buckets is not None:
            mine = self.buckets or [0] * BUCKETS
            self.buckets = [a + b for a, b in zip(mine, other.buckets, strict=True)]


class Counters:
    """May be used from any thread; `picked_up` only from the event loop."""

    def __init__(self) -> None:
        self._counters: dict[Key, PendingCounter] = {}
        self._pickups: dict[str, PendingCounter] = {}
        self._lock = threading.Lock()

    def note(self, name: str, amount: int = 1, **labels: str) -> None:
        """Add `amount` to the counter."""
        if amount:
            with self._lock:
                self._counter(name, labels).amount += amount

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Count one event that took `seconds`."""
        with self._lock:
            self._counter(name, labels).observe(seconds)

    def picked_up(self, claims: Sequence[Claim]) -> None:
        """Measure how long runs waited for a worker: for each claim its first run, which is mostly
        the oldest; for every scheduled run the delay since its nominal time."""
        if not claims:
            return
        first = claims[0]
        # Kept apart, because every claim passes here: no lock is needed on the event loop.
        waited = self._pickups.get(first.queue)
        if waited is None:
            waited = self._pickups[first.queue] = PendingCounter()
        waited.observe((first.claimed_at - first.enqueued_at).total_seconds())
        for claim in claims:
            if claim.extras is not None and claim.attempt == 1:
                self._lateness(claim, _read(claim.extras))

    def take(self) -> dict[Key, PendingCounter]:
        pickups, self._pickups = self._pickups, {}
        self.put_back(
            {("pickups", (("queue", queue),)): counter for queue, counter in pickups.items()}
        )
        with self._lock:
            taken, self._counters = self._counters, {}
        return taken

    def put_back(self, taken: dict[Key, PendingCounter]) -> None:
        """Keep the counters for the next write."""
        with self._lock:
            for key, counter in taken.items():
                self._counters.setdefault(key, PendingCounter()).add(counter)

    def _counter(self, name: str, labels: dict[str, str]) -> PendingCounter:
        return self._counters.setdefault((name, tuple(sorted(labels.items()))), PendingCounter())

    def _lateness(self, claim: Claim, extras: _Extras) -> None:
        if extras.schedule is not None and extras.run_at is not None:
            due = datetime.fromisoformat(extras.run_at)
            self.observe("schedule_starts", (claim.claimed_at - due).total_seconds())


def changes(counters: dict[Key, PendingCounter]) -> list[CounterChange]:
    """Convert the counters for the database."""
    return [
        CounterChange(name, dict(labels), counter.amount, counter.seconds, counter.buckets)
        for (name, labels), counter in counters.items()
    ]
