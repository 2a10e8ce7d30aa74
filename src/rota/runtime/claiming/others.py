"""Tells other workers of the same queues, so that calling one worker is enough: that there is more
than this one can do, or that one of them does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from rota.model.run import Claim
from rota.runtime.claiming.waiting import Waiting

# Runs of a few milliseconds are over by then, and their slots free.
_SHORT_SECONDS = 0.005


class Others:
    """`is_short` returns whether there may be more than this worker can do; `on_news` hears that
    there is something to tell."""

    def __init__(
        self, waiting: Waiting, *, is_short: Callable[[], bool], on_news: Callable[[], None]
    ) -> None:
        self._waiting = waiting
        self._is_short = is_short
        self._on_news = on_news
        self._timer: asyncio.TimerHandle | None = None
        self._taken: dict[str, None] = {}
        self._to_call: dict[str, None] = {}
        self._to_pass_over: dict[str, None] = {}

    @property
    def has_news(self) -> bool:
        return bool(self._to_call or self._to_pass_over)

    def call(self, queue: str) -> None:
        """Somebody shall come for this queue: this worker cannot."""
        self._to_call[queue] = None

    def claimed(self, claims: Sequence[Claim], *, is_short: bool) -> None:
        if not claims or not self._waiting.is_flagged:
            return
        queues = dict.fromkeys(claim.queue for claim in claims)
        if self._waiting.is_lookout:
            self._to_pass_over |= queues
        if is_short:
            self._taken |= queues
            if self._timer is None:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(_SHORT_SECONDS, self._look)

    def _look(self) -> None:
        """A moment after it took all that it had room for."""
        self._timer = None
        taken, self._taken = self._taken, {}
        if self._is_short() and self._waiting.is_flagged:
            self._to_call |= taken
            self._on_news()

    async def tell(self) -> None:
        passed, self._to_pass_over = self._to_pass_over, {}
        if passed:
            await self._waiting.pass_over(list(passed))
        called, self._to_call = self._to_call, {}
        if called:
            await self._waiting.pass_on(list(called))

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
