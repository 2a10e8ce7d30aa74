"""Runs whose claim is written and not yet flushed: made ready meanwhile, started after it.

The flush is half of what a lone run waits for. A body that started before it could have run while
a crash of the server forgets the claim.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from rota.errors import LeaseLost
from rota.model.run import Claim


class ClaimCommit:
    """One claim under way. `add` gets its runs as soon as they are known."""

    def __init__(self, add: Callable[[Sequence[Claim]], bool]) -> None:
        self._add = add
        self._waiters: list[asyncio.Future[None]] = []
        self.is_over = False
        self.has_added = False

    def rows(self, rows: Sequence[Claim]) -> None:
        self.has_added = self._add(rows)

    def committed(self) -> None:
        self._end(None)

    def broke_off(self) -> None:
        """Whether it was committed is not known: its runs go back when the feeder has asked."""
        self._end(LeaseLost("the claim was not confirmed"))

    def _end(self, error: LeaseLost | None) -> None:
        self.is_over = True
        for waiter in self._waiters:
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)

    async def wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter
