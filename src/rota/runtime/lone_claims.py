"""Claims that go alone, into free slots: how a worker that rests picks a run up.

Each step between the call and the body is part of a run's latency. So the claim is ready before
anybody calls and is sent in the moment of the call, and its runs are made ready while the server
still flushes their commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rota.model.run import Claim
from rota.runtime.slots import Slots, take_all
from rota.runtime.unflushed import Unflushed
from rota.store.claims import ClaimRequest, ReadyClaim
from rota.store.feed import Feed


class LoneClaims:
    """One at a time. `add` puts runs into the slots, unless somebody has said stop."""

    def __init__(self, feed: Feed, slots: Slots, add: Callable[[Sequence[Claim]], bool]) -> None:
        self._feed = feed
        self._slots = slots
        self._add = add
        self._ready: ReadyClaim | None = None
        self._sent: ReadyClaim | None = None
        self.unflushed: Unflushed | None = None  # the claim whose commit runs must wait for

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
        unflushed = Unflushed(self._add)
        if ready.send(unflushed):
            self._sent, self.unflushed = ready, unflushed
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

    def start(self) -> Unflushed | None:
        """Of a claim that goes out now: who hears of its runs before their commit."""
        self.unflushed = None if self._slots.ready else Unflushed(self._add)
        return self.unflushed

    def end(self) -> bool:
        """It was committed. Whether its runs are in the slots already."""
        unflushed, self.unflushed = self.unflushed, None
        return unflushed is not None and unflushed.has_added

    def break_off(self) -> None:
        """It was not committed, or nobody knows: nothing of it starts."""
        unflushed, self.unflushed = self.unflushed, None
        if unflushed is not None and unflushed.has_added:
            take_all(self._slots.ready)
            unflushed.broke_off()
