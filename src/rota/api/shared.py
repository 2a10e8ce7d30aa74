"""One answer for all who ask the same at the same time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """Asks once at a time: who comes meanwhile gets that answer, or that error. An answer is good
    for so many seconds."""

    def __init__(self, seconds: float = 0.0, now: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._now = now
        self._asking: asyncio.Task[T] | None = None
        self._known: tuple[float, T] | None = None

    async def get(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self._known is not None and self._now() - self._known[0] < self._seconds:
            return self._known[1]
        if self._asking is None:
            self._asking = asyncio.create_task(ask())
            self._asking.add_done_callback(self._learn)
        # Whoever asked first may go away: the others still want to know.
        return await asyncio.shield(self._asking)

    def _learn(self, asking: asyncio.Task[T]) -> None:
        self._asking = None
        if not asking.cancelled() and asking.exception() is None:
            self._known = self._now(), asking.result()
