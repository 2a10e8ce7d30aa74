"""The commit of a claim whose runs are already known: they are made ready meanwhile, and start
after it.

The flush is half of what a lone run waits for. A body that started before it could have run while
a crash of the server forgets the claim.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from typing import Any

from rota.errors import LeaseLost
from rota.model.run import Claim


class ClaimCommit:
    """One claim under way, and the future of its commit: `await` returns when it is committed, and
    raises LeaseLost when it broke off. `add` gets the runs and this as soon as they are known."""

    def __init__(self, add: Callable[[Sequence[Claim], ClaimCommit], bool]) -> None:
        self._add = add
        self._waiters: list[asyncio.Future[None]] = []
        self.is_committed = False
        self.is_broken_off = False
        self.has_added = False

    @property
    def is_over(self) -> bool:
        return self.is_committed or self.is_broken_off

    def rows(self, rows: Sequence[Claim]) -> None:
        self.has_added = self._add(rows, self)

    def committed(self) -> None:
        self.is_committed = True
        self._tell_waiters()

    def broke_off(self) -> None:
        """Whether it was committed is not known: its runs go back when the feeder has asked."""
        self.is_broken_off = True
        self._tell_waiters()

    def _tell_waiters(self) -> None:
        for waiter in self._waiters:
            self._tell(waiter)

    def _tell(self, waiter: asyncio.Future[None]) -> None:
        if waiter.done():
            return
        if self.is_committed:
            waiter.set_result(None)
        else:
            waiter.set_exception(LeaseLost("the claim was not confirmed"))

    def __await__(self) -> Generator[Any, None, None]:
        # Each run has a future of its own: one that is cancelled cancels none of the others.
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        if self.is_over:
            self._tell(waiter)
        return waiter.__await__()
