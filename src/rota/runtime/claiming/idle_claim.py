"""Claims that go alone, into free slots: how a worker that rests picks a run up.

Each step between the call and the body is part of a run's latency. So the claim is ready before
anybody calls and is sent in the moment of the call, and its runs are made ready while the server
still flushes their commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rota.model.run import Claim
from rota.runtime.claiming.claim_commit import ClaimCommit
from rota.runtime.claiming.slots import Slots, take_all
from rota.store.pipeline.claims import ClaimRequest, ReadyClaim
from rota.store.pipeline.feed import Feed


class IdleClaim:
    """One at a time. `add` puts runs into the slots, unless somebody has said stop."""

    def __init__(self, feed: Feed, slots: Slots, add: Callable[[Sequence[Claim]], bool]) -> None:
        self._feed = feed
        self._slots = slots
        self._add = add
        self._ready: ReadyClaim | None = None
        self._sent: ReadyClaim | None = None
        self.claim_commit: ClaimCommit | None = None  # the claim whose commit runs must wait for

    # Ready before the call.

    def make_ready(self, request: ClaimRequest) -> None:
        self._ready = self._feed.ready(request)

    def forget(self) -> None:
        self._ready = None

    def send(self, queue: str) -> bool:
        """What was made ready, if it looks into this queue. What was sent must be received, or
        called off."""
        ready, self._ready = self._ready, None
        if ready is None or queue not in ready.request.queues or self._slots.ready:
            return False
        claim_commit = ClaimCommit(self._add)
        if ready.send(claim_commit):
            self._sent, self.claim_commit = ready, claim_commit
        return self.is_sent

    @property
    def is_sent(self) -> bool:
        return self._sent is not None

    async def receive(self) -> tuple[ClaimRequest, list[Claim]]:
        sent, self._sent = self._sent, None
        assert sent is not None
        return sent.request, await sent.receive()

    async def call_off(self) -> None:
        if self._sent is not None:
            await self._sent.call_off()
            self.break_off()

    # Ready before the commit.

    def start(self) -> ClaimCommit | None:
        """Of a claim that goes out now: who hears of its runs before their commit."""
        self.claim_commit = None if self._slots.ready else ClaimCommit(self._add)
        return self.claim_commit

    def end(self) -> bool:
        """It was committed. Whether its runs are in the slots already."""
        claim_commit, self.claim_commit = self.claim_commit, None
        return claim_commit is not None and claim_commit.has_added

    def break_off(self) -> None:
        """It was not committed, or nobody knows: nothing of it starts."""
        claim_commit, self.claim_commit = self.claim_commit, None
        if claim_commit is not None and claim_commit.has_added:
            take_all(self._slots.ready)
            claim_commit.broke_off()
