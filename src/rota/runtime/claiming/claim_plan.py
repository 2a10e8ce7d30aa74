"""How many runs to claim, from which queues and from which position on, based on earlier claims."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import count

from rota.model.run import Claim
from rota.store.pipeline.claims import ClaimRequest

PRIORITIES = 10
_FAST_MS = 5.0
_UNHINTED_SHARE = 20
_QUEUES_AT_ONCE = 100
_ACTIVE_SECONDS = 2.0
_GROWTH = 4


class ClaimPlan:
    """Follows the rate: no more is claimed than will start within about one round trip.

    For slow runs that is the number of free slots. For runs of a few milliseconds it grows to
    hundreds, claimed ahead while the ones before still run.
    """

    def __init__(self, *, concurrency: int, most: int, queues: Sequence[str]) -> None:
        self._least = min(concurrency, most)
        self._most = most
        self.size = self._least
        self.may_have_more = True
        self._queues: list[str] = list(queues)
        self._turn = 0
        self._unvisited = 0
        self._called: dict[str, None] = {}
        self._active: dict[str, float] = {}
        self._hints: dict[str, list[int]] = {}
        self._lane = ""  # whose runs the hints are about
        self._next_unhinted = 0.0
        self._is_unhinted = False
        self._owes_full_look = False
        self._average_ms: float | None = None
        self._batches = count(1)

    # What is known about durations.

    def took(self, duration_ms: float) -> None:
        average = self._average_ms
        self._average_ms = duration_ms if average is None else average * 0.95 + duration_ms * 0.05

    @property
    def is_fast(self) -> bool:
        return self._average_ms is not None and self._average_ms < _FAST_MS

    @property
    def has_backlog(self) -> bool:
        """More than was claimed waits, or may wait, and nobody knows the runs to be slow."""
        return self.may_have_more and (self._average_ms is None or self.is_fast)

    # Which queues.

    def add_queue(self, queue: str) -> None:
        """Somebody called for this queue: it comes first next time."""
        self._called[queue] = None
        if queue not in self._queues:
            self._queues.append(queue)

    def set_queues(self, queues: Iterable[str]) -> None:
        self._queues = list(queues)
        self._unvisited = len(self._queues)
        self._hints = {name: self._hints[name] for name in self._queues if name in self._hints}

    # The next claim.

    def request(
        self, *, free: int = 0, is_ahead: bool = False, start_batch: int | None = None
    ) -> ClaimRequest:
        limit = min((self.size if self.is_fast else 0) if is_ahead else free, self._most)
        queues = self._rotated()
        return ClaimRequest(
            limit=limit,
            queues=queues,
            quota=max(1, -(-limit // max(1, min(len(queues), self._count_active())))),
            hints=self._hints_for(queues),
            batch=next(self._batches) if is_ahead else None,
            start_batch=start_batch,
            lane=self._lane,
        )

    def _rotated(self) -> list[str]:
        """Another queue is first each time, so that none starves behind the others; of very many
        each claim visits some."""
        many = len(self._queues) > _QUEUES_AT_ONCE
        step = _QUEUES_AT_ONCE if many else 1
        self._turn = (self._turn + step) % max(1, len(self._queues))
        called, self._called = self._called, {}
        turned = self._queues[self._turn :] + self._queues[: self._turn]
        return list(called | dict.fromkeys(turned))[:_QUEUES_AT_ONCE]

    def _count_active(self) -> int:
        """Queues that had work lately: they share a claim; the others may take what they have."""
        if len(self._active) > 1:
            now = time.monotonic()
            self._active = {name: until for name, until in self._active.items() if until > now}
        return len(self._active)

    def _hints_for(self, queues: Sequence[str]) -> list[int]:
        """The places up to which this worker has looked; every so often none, because a
        transaction that commits late brings runs with lower places."""
        self._is_unhinted = time.monotonic() >= self._next_unhinted
        if self._is_unhinted:
            return []
        zeros = [0] * PRIORITIES
        return [hint for name in queues for hint in self._hints.get(name, zeros)]

    def _follow(self, claims: Sequence[Claim]) -> None:
        """While only one tenant has work its runs are claimed by hints, as nobody's are."""
        if claims and claims[-1].tenant != self._lane:
            tenants = {claim.tenant for claim in claims}
            if len(tenants) == 1:
                (self._lane,) = tenants
                self._hints = {}

    # What a claim taught.

    def learn(
        self, request: ClaimRequest, claims: list[Claim], seconds: float, *, is_starved: bool
    ) -> None:
        if request.limit == 0:
            return
        # What a hinted claim did not look at must be looked at before long: a run that was
        # committed late has a lower place, and its call may already have been heard.
        self._owes_full_look = not self._is_unhinted
        if self._is_unhinted:
            # At most a twentieth of the time goes into walks over what is already claimed.
            self._next_unhinted = time.monotonic() + min(_UNHINTED_SHARE * seconds, 5.0)
        by_queue = Counter(claim.queue for claim in claims)
        self._active |= dict.fromkeys(by_queue, time.monotonic() + _ACTIVE_SECONDS)
        self._follow(claims)
        for claim in claims:
            if claim.tenant != self._lane:
                continue  # tenants share a queue without hints
            hints = self._hints.setdefault(claim.queue, [0] * PRIORITIES)
            if claim.seq > hints[claim.priority]:
                hints[claim.priority] = claim.seq
        self._unvisited = len(self._queues) if claims else self._unvisited
        self._unvisited -= len(request.queues)
        is_full = len(claims) >= request.limit
        self.may_have_more = (
            is_full
            or self._unvisited > 0
            or any(taken >= request.quota for taken in by_queue.values())
        )
        if is_full and is_starved:
            self.size = min(self.size * _GROWTH, self._most)

    @property
    def seconds_to_full_look(self) -> float | None:
        """When a claim without hints is due; None: the last one was without."""
        if not self._owes_full_look:
            return None
        return max(0.0, self._next_unhinted - time.monotonic())

    def shrink(self) -> None:
        self.size = self._least
        self._average_ms = None
