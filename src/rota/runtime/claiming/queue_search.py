"""Which queues a worker looks into that serves all of them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rota.runtime.claiming.pace import Pace
from rota.store.pipeline.feed import Feed
from rota.store.queues import busy_queues

_SECONDS = 1.0
# A call names its queue.
_RESTING_SECONDS = 30.0


class QueueSearch:
    """Asks the database now and then. `queues`: those that it was told to serve, none for all;
    `own`: those of the jobs that it declares, which are looked into in any case."""

    def __init__(
        self, feed: Feed, *, queues: Sequence[str], own: Sequence[str], pace: Pace
    ) -> None:
        self._feed = feed
        self._is_needed = not queues
        self._own = list(own)
        self._pace = pace
        self._next = 0.0

    def look_now(self) -> None:
        self._next = 0.0

    @property
    def is_due(self) -> bool:
        return self._is_needed and time.monotonic() >= self._next

    async def find(self) -> list[str]:
        busy = await self._feed.fetch(busy_queues())
        self._next = time.monotonic() + self._pace.seconds(_SECONDS, _RESTING_SECONDS)
        return list(dict.fromkeys([*self._own, *busy]))
