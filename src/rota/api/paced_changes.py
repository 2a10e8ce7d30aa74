"""Reads the figures that the live stream compares, at a bounded cost even with a large backlog."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

from rota.model.metrics import Changes
from rota.model.stats import QueueDepth

ReadChanges = Callable[[int | None, Mapping[str, QueueDepth] | None], Awaitable[Changes]]
# With this many runs waiting, one more is no news, so counting may take a hundredth of the time.
_SHARE, _LONGEST, _MANY = 100, 5.0, 2000


class PacedChanges:
    """Counts waiting and running runs less often the longer counting takes, and repeats the last
    count between: thousands of runs wait when the server is busiest."""

    def __init__(self, read: ReadChanges, now: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._now = now
        self._depths: Mapping[str, QueueDepth] | None = None
        self._until = 0.0

    async def __call__(self, after_audit: int | None) -> Changes:
        began = self._now()
        known = self._depths if began < self._until else None
        found = await self._read(after_audit, known)
        if known is None:
            self._depths = found.depths
            now = self._now()
            pause = min((now - began) * _SHARE, _LONGEST)
            self._until = now + pause if _is_much(found.depths.values()) else 0.0
        return found


def _is_much(depths: Iterable[QueueDepth]) -> bool:
    return sum(one.queued + one.scheduled + one.blocked + one.running for one in depths) >= _MANY
