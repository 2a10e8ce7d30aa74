"""When to look for work: called when quiet, polling when busy.

A NOTIFY in each commit makes one queue of all commits of the server, so enqueuers call only
while some worker says that it waits. A worker sets that flag, commits, and then keeps looking
until every transaction that could not see the flag has ended: no call is lost. Called more than
a hundred times a second it clears the flag and looks every few milliseconds instead.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

_BUSY_CALLS_PER_SECOND = 100
_BUSY_LOOK_SECONDS = 0.004
_QUIET_SECONDS = 1.0
_SETTLE_STEPS = (0.002, 0.004, 0.008, 0.016, 0.032, 0.05)
_SETTLE_LIMIT = 2.0


class Waiting:
    """The clock of claims. `say` runs a statement about this worker and answers its rows."""

    def __init__(self, *, poll_seconds: float, say: Callable[..., Awaitable[list[Any]]]) -> None:
        self._poll = poll_seconds
        self._say = say
        self._next_look = 0.0
        self._is_called = False
        self._is_flagged = False
        self._is_listening = False
        self._calls = 0
        self._calls_since = time.monotonic()
        self._busy_until = 0.0
        self._settle_until = 0.0
        self._settle_step = 0
        self._settle_xid: int | None = None

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

    @property
    def is_busy(self) -> bool:
        return time.monotonic() < self._busy_until

    @property
    def is_quiet(self) -> bool:
        """The next reason to look will be a call."""
        return self._is_flagged and self._settle_xid is None and not self.is_busy

    def is_claim_due(self, may_have_more: bool) -> bool:
        return may_have_more or self._is_called or time.monotonic() >= self._next_look

    def seconds_to_claim(self, may_have_more: bool) -> float:
        if may_have_more or self._is_called:
            # There is work but no free slot: its end wakes the feeder.
            return self._poll
        return max(0.0, self._next_look - time.monotonic())

    def asked(self) -> None:
        """A claim is on its way: who calls from now on may have come too late for it."""
        self._is_called = False

    def claimed(self, count: int) -> None:
        """A claim was made: when is the next one due?"""
        now = time.monotonic()
        if count and now < self._busy_until:
            self._busy_until = now + _QUIET_SECONDS
        if now < self._busy_until:
            self._next_look = now + _BUSY_LOOK_SECONDS
        elif self._settle_xid is not None:
            step = _SETTLE_STEPS[min(self._settle_step, len(_SETTLE_STEPS) - 1)]
            self._settle_step += 1
            self._next_look = now + step
        else:
            self._next_look = now + self._poll

    async def update(self) -> None:
        """Say whether we want to be called, and follow up on having said so."""
        if self.is_busy:
            if self._is_flagged:
                await self._set_flag(False)
        elif not self._is_listening:
            self._is_flagged = False
        elif not self._is_flagged:
            await self._set_flag(True)
            rows = await self._say("workers/next_xid")
            self._settle_xid, self._settle_step = rows[0][0], 0
            self._settle_until = time.monotonic() + _SETTLE_LIMIT
            self.look_now()
        elif self._settle_xid is not None:
            rows = await self._say("workers/oldest_xid")
            # A long transaction anywhere would keep us here: the poll is the truth after that.
            if rows[0][0] >= self._settle_xid or time.monotonic() > self._settle_until:
                self._settle_xid = None
                self.look_now()

    async def _set_flag(self, is_waiting: bool) -> None:
        await self._say("workers/set_waiting", waiting=is_waiting)
        self._is_flagged = is_waiting
