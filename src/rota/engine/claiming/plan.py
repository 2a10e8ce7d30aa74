"""The content of a claim: how many runs, from which queues, and from which position on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import count

from rota.engine.pace import Pace
from rota.model.run import Claim
from rota.postgres.pipeline.claims import ClaimRequest

PRIORITIES = 10
_FAST_MS = 5.0
_UNHINTED_SHARE = 20
_QUEUES_AT_ONCE = 100
_ACTIVE_SECONDS = 2.0
_GROWTH = 4
# Between two searches for queues; an idle worker learns of new queues by calls.
_SEARCH_SECONDS = 1.0
_RESTING_SECONDS = 30.0


class ClaimPlan:
    """The size of the next claim, which follows the rate: no more runs than will start within about
    one round trip.

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
        self._lane = ""  # the tenant whose runs the hints are about
        self._next_unhinted = 0.0
        self._is_unhinted = False
        self._owes_full_claim = False
        self._average_ms: float | None = None
        self._batches = count(1)

    # Durations.

    def took(self, duration_ms: float) -> None:
        average = self._average_ms
        self._average_ms = duration_ms if average is None else average * 0.95 + duration_ms * 0.05

    @property
    def is_fast(self) -> bool:
        return self._average_ms is not None and self._average_ms < _FAST_MS

    @property
    def has_backlog(self) -> bool:
        """Return whether more runs may wait than were claimed, and are not known to be slow."""
        return self.may_have_more and (self._average_ms is None or self.is_fast)

    # Queues.

    def add_queue(self, queue: str) -> None:
        """The worker was called for this queue: the next claim visits it first."""
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
        """The queues of the next claim, in an order that puts another one first each time, so that
        no queue starves. If there are very many, each claim visits some of them."""
        many = len(self._queues) > _QUEUES_AT_ONCE
        step = _QUEUES_AT_ONCE if many else 1
        self._turn = (self._turn + step) % max(1, len(self._queues))
        called, self._called = self._called, {}
        turned = self._queues[self._turn :] + self._queues[: self._turn]
        return list(called | dict.fromkeys(turned))[:_QUEUES_AT_ONCE]

    def _count_active(self) -> int:
        """The number of queues that had runs lately. They share a claim; from the other queues a
        claim may take all runs."""
        if len(self._active) > 1:
            now = time.monotonic()
            self._active = {name: until for name, until in self._active.items() if until > now}
        return len(self._active)

    def _hints_for(self, queues: Sequence[str]) -> list[int]:
        """The positions up to which this worker has searched; every so often none, because a
        transaction that commits late adds runs at lower positions."""
        self._is_unhinted = time.monotonic() >= self._next_unhinted
        if self._is_unhinted:
            return []
        zeros = [0] * PRIORITIES
        return [hint for name in queues for hint in self._hints.get(name, zeros)]

    def _follow(self, claims: Sequence[Claim]) -> None:
        """While only one tenant has runs, they are claimed with hints, as runs without tenant
        are."""
        if claims and claims[-1].tenant != self._lane:
            tenants = {claim.tenant for claim in claims}
            if len(tenants) == 1:
                (self._lane,) = tenants
                self._hints = {}

    # What a claim has shown.

    def learn(
        self, request: ClaimRequest, claims: list[Claim], seconds: float, *, is_starved: bool
    ) -> None:
        """`is_starved`: the slots had no run left to start when the claim came back."""
        if request.limit == 0:
            return
        # A claim with hints skips lower positions, which must be searched before long: a run that
        # was committed late may be there, and its call may have been received already.
        self._owes_full_claim = not self._is_unhinted
        if self._is_unhinted:
            # At most a twentieth of the time goes into searching what is already claimed.
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
    def seconds_to_full_claim(self) -> float | None:
        """Return when a claim without hints is due; None if the last one had none."""
        if not self._owes_full_claim:
            return None
        return max(0.0, self._next_unhinted - time.monotonic())

    def shrink(self) -> None:
        self.size = self._least
        self._average_ms = None


class QueueSearch:
    """Decides when a worker that serves all queues asks the database which of them have runs.

    `queues` are those that the worker is restricted to, if any; `own` are the queues of its
    declared jobs, which it always visits.
    """

    def __init__(self, *, queues: Sequence[str], own: Sequence[str], pace: Pace) -> None:
        self._is_needed = not queues
        self._own = list(own)
        self._pace = pace
        self._next = 0.0

    def search_now(self) -> None:
        self._next = 0.0

    @property
    def is_due(self) -> bool:
        return self._is_needed and time.monotonic() >= self._next

    def found(self, busy: Iterable[str]) -> list[str]:
        """The queues to visit from now on, given those that have runs."""
        self._next = time.monotonic() + self._pace.seconds(_SEARCH_SECONDS, _RESTING_SECONDS)
        return list(dict.fromkeys([*self._own, *busy]))
