"""The claim connection: prepares a claim in advance, sends it, and places its runs.

Each step between a call and the handler adds to the latency of a run. So an idle worker has its
claim prepared and sends it the moment a call arrives; and if a claim is sent without ends, its runs
are in the slots while the server still flushes the commit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import psycopg

from rota.engine.claiming.ends import EndBuffer
from rota.engine.claiming.slots import ClaimCommit, Slots, take_all
from rota.model.run import Claim
from rota.postgres.pipeline.claims import ClaimRequest, ReadyClaim
from rota.postgres.pipeline.ends import Ends
from rota.postgres.pipeline.exchange import Exchange
from rota.postgres.queues import busy_queues
from rota.postgres.runs import claimed


class ClaimConnection:
    """Sends one claim at a time, and holds the runs that are claimed and have not started: in the
    slots, or in the batch ahead of them."""

    def __init__(self, feed: Exchange, slots: Slots) -> None:
        self._feed = feed
        self._slots = slots
        self.is_claiming = True
        self._prepared: ReadyClaim | None = None
        self._sent: ReadyClaim | None = None
        self._commit: ClaimCommit | None = None
        self._ahead: deque[Claim] = deque()
        self.ahead_batch = 0
        self.handed_back = 0  # runs in all

    # A claim that is prepared before a call, and sent by it.

    def prepare(self, request: ClaimRequest) -> None:
        self._prepared = self._feed.ready(request)

    def discard_prepared(self) -> None:
        self._prepared = None

    def send_prepared(self, queue: str) -> bool:
        """Sends the prepared claim, if there is one and it visits this queue. After True, `receive`
        or `call_off` must be called."""
        prepared, self._prepared = self._prepared, None
        if prepared is None or queue not in prepared.request.queues or self._slots.ready:
            return False
        commit = ClaimCommit(self._add_uncommitted)
        if prepared.send(commit):
            self._sent, self._commit = prepared, commit
        return self.is_sent

    @property
    def is_sent(self) -> bool:
        return self._sent is not None

    async def receive(self) -> tuple[ClaimRequest, list[Claim]]:
        """The response to the prepared claim that was sent."""
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

    # A claim that is built and sent now.

    async def exchange(
        self, request: ClaimRequest | None, ends: EndBuffer, *, is_alone: bool
    ) -> list[Claim] | None:
        """Do one round trip, with the ends unless `is_alone`. Returns the claimed runs; None if the
        request was not carried out."""
        try:
            if is_alone and request is not None:
                _, claims = await self._feed.exchange(Ends(), request)
            else:
                early = self._begin(request, ends)
                claims = await ends.exchange(self._feed, request, early)
        except BaseException:
            self._break_off()
            raise
        if claims is None:
            self._break_off()
        return claims

    def _begin(self, request: ClaimRequest | None, ends: EndBuffer) -> ClaimCommit | None:
        """Return the commit whose runs are added before it is confirmed. Only a claim for free
        slots, without ends, passes on its runs before they are committed."""
        if request is None or request.batch is not None or ends or self._slots.ready:
            return None
        self._commit = ClaimCommit(self._add_uncommitted)
        return self._commit

    def _break_off(self) -> None:
        """The claim was not committed, or that is unknown: none of its runs starts."""
        commit, self._commit = self._commit, None
        if commit is not None and commit.has_added:
            take_all(self._slots.ready)
            commit.broke_off()

    # The runs of a claim.

    def take(self, request: ClaimRequest, claims: Sequence[Claim]) -> bool:
        """Places the runs of a committed claim in the slots, or ahead of them. Returns whether the
        slots had no run left to start."""
        was_starved = not self._slots.ready
        if request.start_batch is not None:
            self._slots.add(take_all(self._ahead))
        commit, self._commit = self._commit, None
        if commit is not None and commit.has_added:
            pass  # they were added before the commit
        elif not self.is_claiming:
            # Claiming was paused while the claim was under way: the next action hands them back.
            self._ahead.extend(claims)
        elif request.batch is None:
            self._slots.add(sorted(claims, key=_position))
        else:
            self._ahead.extend(sorted(claims, key=_position))
            self.ahead_batch = request.batch
        return was_starved

    def _add_uncommitted(self, claims: Sequence[Claim], commit: ClaimCommit) -> bool:
        """Adds nothing if claiming was paused meanwhile; returns whether it did."""
        if self.is_claiming:
            self._slots.add(sorted(claims, key=_position), commit)
        return self.is_claiming

    @property
    def ahead(self) -> int:
        return len(self._ahead)

    def held_ids(self) -> set[int]:
        """Runs that are claimed and have not ended."""
        return self._slots.held_ids() | {claim.id for claim in self._ahead}

    def take_unstarted(self) -> list[Claim]:
        """Removes the runs that have not started. The heartbeat's thread calls this too: see
        `take_all`."""
        return take_all(self._ahead) + take_all(self._slots.ready)

    # Other statements.

    async def hand_back(self) -> None:
        """Returns runs that have not started to their queues."""
        claims = self.take_unstarted()
        # Counted first: whoever stops the worker may look while the statement is on its way.
        self.handed_back += len(claims)
        try:
            await self._hand_back([(claim.id, claim.attempt) for claim in claims])
        except BaseException:
            self.handed_back -= len(claims)
            raise

    async def recover(self, ends: EndBuffer) -> None:
        """Open the connection anew after an error, and hand back runs that only the database knows
        to be this worker's."""
        await self._feed.close()
        try:
            ours = await self._feed.fetch(claimed.strays(self._feed.worker))
            held = self.held_ids() | ends.ids()
            await self._hand_back([run for run in ours if run.run not in held])
        except (psycopg.Error, OSError):
            await self._feed.close()

    async def _hand_back(self, runs: Sequence[tuple[int, int]]) -> None:
        if runs:
            await self._feed.fetch(claimed.hand_back(self._feed.worker, runs))

    async def find_queues(self) -> list[str]:
        """The queues that have runs."""
        return await self._feed.fetch(busy_queues())

    def set_jobs(self, jobs: Sequence[str]) -> None:
        self._feed.set_jobs(jobs)

    async def keep(self, ends: EndBuffer) -> None:
        await ends.keep_all(self._feed)

    async def end(self) -> None:
        await self._feed.end()


def _position(claim: Claim) -> tuple[int, int]:
    return claim.priority, claim.seq
