"""When to look for work: called when quiet, polling when busy.

A NOTIFY in each commit makes one queue of all commits of the server, so enqueuers call only
while some worker says that it waits. A worker sets that flag, commits, and then keeps looking
until every transaction that could not see the flag has ended: no call is lost. After two seconds of
that it only polls as long as one of them that has changed runs is open. Called more than
two hundred times a second it says that it polls, and looks every few milliseconds instead.

Of all that wait, one is called, on its own channel, and a second one watches: it looks a moment
later, and where it finds something it passes over the first. So a call that reaches a worker which
cannot answer costs that moment; if both cannot, a poll.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Literal

from psycopg import errors

from rota.store.queries import Fetch, Query
from rota.store.workers import calls

# Looking every 4 ms is 250 claims a second: below this many calls, being called is cheaper.
_BUSY_CALLS_PER_SECOND = 200
_BUSY_LOOK_SECONDS = 0.004
_QUIET_SECONDS = 1.0
_SETTLE_STEPS = (0.002, 0.004, 0.008, 0.016, 0.032, 0.05)
_SETTLE_LIMIT = 2.0
# A called worker has claimed long before, unless it cannot.
_WATCH_SECONDS = 0.05
# How long it says nothing after it found its row held by somebody's open transaction.
_HELD_SECONDS = 1.0

Flag = Literal["none", "waiting", "polling"]


class Waiting:
    """The clock of claims. `say` sends what this worker says to others; `channel` is where it hears
    the calls that are meant for it."""

    def __init__(
        self,
        *,
        poll_seconds: float,
        resting_seconds: float = 0.0,
        worker: int,
        say: Fetch,
        channel: str = "",
    ) -> None:
        self._poll = poll_seconds
        self._resting = max(poll_seconds, resting_seconds)
        self._worker = worker
        self._say = say
        self._channel = channel
        self._next_look = 0.0
        self._is_called = False
        self._flag: Flag = "none"
        self._is_listening = False
        self._calls = 0
        self._calls_since = time.monotonic()
        self._busy_until = 0.0
        self._settle_until = 0.0
        self._settle_step = 0
        self._settle_xid: int | None = None
        # The same, where an older transaction with runs of its own stays open.
        self._late_xid: int | None = None
        self._is_late_asked = False
        self._watch_at: float | None = None
        # Whether the claim under way looks for what others should have taken.
        self._is_lookout = False
        self._held_until = 0.0

    def set_listening(self, is_listening: bool) -> None:
        self._is_listening = is_listening
        self.look_now()

    def look_now(self) -> None:
        self._is_called = True

    def called(self) -> bool:
        """Somebody enqueued. False while polling anyway: no need to hurry. The call that makes it
        poll is still one to answer: until then it sleeps as if others would follow."""
        now = time.monotonic()
        was_busy = now < self._busy_until
        self._calls += 1
        if now - self._calls_since >= 1.0:
            self._calls, self._calls_since = 1, now
        if self._calls > _BUSY_CALLS_PER_SECOND:
            self._busy_until = now + _QUIET_SECONDS
        if was_busy:
            return False
        self._is_called = True
        return True

    def watched(self) -> None:
        """Somebody else was called: see whether it has answered."""
        if self._watch_at is None:
            self._watch_at = time.monotonic() + _WATCH_SECONDS

    def passed_over(self) -> None:
        """Others did what it was called for, and it is called no more until it says so again."""
        self._flag = "none"

    @property
    def is_flagged(self) -> bool:
        """Whether others rely on it."""
        return self._flag != "none"

    @property
    def is_busy(self) -> bool:
        return time.monotonic() < self._busy_until

    @property
    def is_quiet(self) -> bool:
        """The next reason to look will be a call."""
        return self._flag == "waiting" and self._settle_xid is None and not self.is_busy

    def is_claim_due(self, may_have_more: bool) -> bool:
        return may_have_more or self._is_called or time.monotonic() >= self._look_at

    @property
    def _look_at(self) -> float:
        return self._next_look if self._watch_at is None else min(self._next_look, self._watch_at)

    def seconds_to_claim(self, may_have_more: bool) -> float:
        if may_have_more or self._is_called:
            # There is work but no free slot: its end wakes the feeder.
            return self._poll
        return max(0.0, self._look_at - time.monotonic())

    def asked(self) -> None:
        """A claim is on its way: who calls from now on may have come too late for it."""
        is_settling = self.is_busy or self._settle_xid is not None
        is_due = time.monotonic() >= self._look_at
        self._is_lookout = is_due and not self._is_called and not is_settling
        self._is_called = False
        self._watch_at = None

    def claimed(self, count: int) -> None:
        """A claim was made: when is the next one due?"""
        now = time.monotonic()
        self._is_late_asked = False
        if count and now < self._busy_until:
            self._busy_until = now + _QUIET_SECONDS
        if now < self._busy_until:
            self._next_look = now + _BUSY_LOOK_SECONDS
        elif self._settle_xid is not None:
            step = _SETTLE_STEPS[min(self._settle_step, len(_SETTLE_STEPS) - 1)]
            self._settle_step += 1
            self._next_look = now + step
        elif self.is_quiet and not count and self._late_xid is None:
            # Others are called too, and one that does not answer is passed over.
            self._next_look = now + self._resting * random.uniform(0.9, 1.1)
        else:
            self._next_look = now + self._poll

    @property
    def is_lookout(self) -> bool:
        """Whether what the last claim has found was left by others, who were called for it."""
        return self._is_lookout and self.is_flagged

    async def update(self) -> None:
        """Say whether we want to be called, and follow up on having said so."""
        if not self._is_listening:
            await self.withdraw()
        elif self.is_busy:
            await self._set_flag("polling")
        elif self._flag != "waiting":
            if not await self._set_flag("waiting"):
                return
            self._settle_xid, self._settle_step = await self._say(calls.next_xid()), 0
            self._settle_until = time.monotonic() + _SETTLE_LIMIT
            self.look_now()
        elif self._settle_xid is not None:
            oldest = await self._say(calls.oldest_xid())
            # A long transaction anywhere would keep us here.
            is_settled = oldest >= self._settle_xid
            if is_settled or time.monotonic() > self._settle_until:
                self._late_xid = None if is_settled else self._settle_xid
                self._settle_xid = None
                self.look_now()
        elif self._late_xid is not None and not self._is_late_asked:
            self._is_late_asked = True
            if not await self._say(calls.late_enqueues(self._late_xid)):
                self._late_xid = None
                self.look_now()

    async def withdraw(self) -> None:
        """Whoever does not claim is not called."""
        await self._set_flag("none")

    async def pass_on(self, queues: Sequence[str]) -> None:
        """There is more than it can do: others are called, and this one no more for now."""
        if await self._write(calls.pass_on(self._worker, queues)):
            self._flag = "none"

    async def pass_over(self, queues: Sequence[str]) -> None:
        """Whoever was called for these did not come."""
        await self._say(calls.pass_over(self._worker, queues))

    async def _set_flag(self, flag: Flag) -> bool:
        """Whether others know it now."""
        if flag == self._flag:
            return True
        said = calls.answer_calls(
            self._worker,
            waiting=flag != "none",
            polling=flag == "polling",
            channel=self._channel,
        )
        is_said = await self._write(said)
        if is_said:
            self._flag = flag
            if flag != "waiting":
                self._settle_xid = self._late_xid = None
        return is_said

    async def _write(self, query: Query[None]) -> bool:
        """False where an open transaction holds this worker's row: the lease says who it is. Calls
        are missed meanwhile, and polls find what they were about."""
        if time.monotonic() < self._held_until:
            return False
        try:
            await self._say(query)
        except errors.LockNotAvailable:
            self._held_until = time.monotonic() + _HELD_SECONDS
            return False
        return True
