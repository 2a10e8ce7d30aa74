"""Claims runs for the slots, one claim at a time: prepares it in advance, sends it, and sees to its
commit.

Each step between a call and the body adds to a run's latency. So an idle worker has its claim ready
before a call and sends it the moment it is called; and if a claim is sent alone, its runs are in
the slots while the server still flushes the commit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import psycopg

from rota.model.run import Claim
from rota.runtime.claiming.claim_commit import ClaimCommit
from rota.runtime.claiming.end_buffer import EndBuffer
from rota.runtime.claiming.slots import Slots, take_all
from rota.store.pipeline.claims import ClaimRequest, ReadyClaim
from rota.store.pipeline.ends import Ends
from rota.store.pipeline.feed import Feed
from rota.store.runs import claimed


class Claimer:
    """Holds what is claimed and has not started: in the slots, or ahead of them."""

    def __init__(self, feed: Feed, slots: Slots) -> None:
        self._feed = feed
        self._slots = slots
        self.is_claiming = True
        self._ready: ReadyClaim | None = None
        self._sent: ReadyClaim | None = None
        self._commit: ClaimCommit | None = None
        self._ahead: deque[Claim] = deque()
        self.ahead_batch = 0

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
        commit = ClaimCommit(self._add)
        if ready.send(commit):
            self._sent, self._commit = ready, commit
        return self.is_sent

    @property
    def is_sent(self) -> bool:
        return self._sent is not None

    async def receive(self) -> tuple[ClaimRequest, list[Claim]]:
        """What the claim that was sent has brought."""
        sent, self._sent = self._sent, None
        assert sent is not None
        try:
            return sent.request, await sent.receive()
        except BaseException:
            self._break_off()
            raise

    async def call_off(self) -> None:
        if self._sent is not None:
            await self._sent.call_off()
            self._break_off()

    # A claim that goes out now.

    async def exchange(
        self, request: ClaimRequest | None, ends: EndBuffer, *, is_alone: bool
    ) -> tuple[list[Claim] | None, bool]:
        """One round trip, with the ends unless they are written elsewhere. Returns as `EndBuffer`
        does: the claims, and whether some run was put off until later."""
        try:
            if is_alone and request is not None:
                _, claims = await self._feed.exchange(Ends(), request)
                has_later = False
            else:
                early = self._begin(request, ends)
                claims, has_later = await ends.exchange(self._feed, request, early)
        except BaseException:
            self._break_off()
            raise
        if claims is None:
            self._break_off()
        return claims, has_later

    def _begin(self, request: ClaimRequest | None, ends: EndBuffer) -> ClaimCommit | None:
        """Only a claim for free slots and without ends tells of its runs before their commit."""
        if request is None or request.batch is not None or ends or self._slots.ready:
            return None
        self._commit = ClaimCommit(self._add)
        return self._commit

    def _break_off(self) -> None:
        """It was not committed, or nobody knows: nothing of it starts."""
        commit, self._commit = self._commit, None
        if commit is not None and commit.has_added:
            take_all(self._slots.ready)
            commit.broke_off()

    # What a claim brought.

    def take(self, request: ClaimRequest, claims: Sequence[Claim]) -> bool:
        """Of a claim that is committed: into the slots, or ahead of them. Returns whether the slots
        had nothing left to start."""
        was_starved = not self._slots.ready
        if request.start_batch is not None:
            self._slots.add(take_all(self._ahead))
        commit, self._commit = self._commit, None
        if commit is not None and commit.has_added:
            pass  # they were in the slots before it
        elif not self.is_claiming:
            # Somebody said stop while the claim was under way: the next step hands it back.
            self._ahead.extend(claims)
        elif request.batch is None:
            self._slots.add(sorted(claims, key=_place))
        else:
            self._ahead.extend(sorted(claims, key=_place))
            self.ahead_batch = request.batch
        return was_starved

    def _add(self, claims: Sequence[Claim], commit: ClaimCommit) -> bool:
        """Before the commit; not when somebody has said stop meanwhile."""
        if self.is_claiming:
            self._slots.add(sorted(claims, key=_place), commit)
        return self.is_claiming

    # What has not started.

    @property
    def has_ahead(self) -> bool:
        return bool(self._ahead)

    @property
    def has_unstarted(self) -> bool:
        return bool(self._ahead or self._slots.ready)

    def held_ids(self) -> set[int]:
        """What is claimed and has not ended."""
        return self._slots.held_ids() | {claim.id for claim in self._ahead}

    def take_unstarted(self) -> list[Claim]:
        """What is claimed and has not started, also for the heartbeat's thread: see take_all."""
        return take_all(self._ahead) + take_all(self._slots.ready)

    async def hand_back(self) -> int:
        """Give back what was claimed and has not started; no attempt is spent."""
        claims = self.take_unstarted()
        await self._hand_back([(claim.id, claim.attempt) for claim in claims])
        return len(claims)

    async def recover(self, ends: EndBuffer) -> None:
        """After a broken connection: what the database thinks we hold and we do not, goes back."""
        await self._feed.close()
        try:
            ours = await self._feed.fetch(claimed.strays(self._feed.worker))
            held = self.held_ids() | ends.ids()
            await self._hand_back([one for one in ours if one.run not in held])
        except (psycopg.Error, OSError):
            await self._feed.close()

    async def _hand_back(self, runs: Sequence[tuple[int, int]]) -> None:
        if runs:
            await self._feed.fetch(claimed.hand_back(self._feed.worker, runs))


def _place(claim: Claim) -> tuple[int, int]:
    return claim.priority, claim.seq
