"""Shares one result among requests that ask for the same at the same time."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_TIMES = 100


class Shared(Generic[T]):
    """Asks once at a time: who comes meanwhile gets that answer, or that error. An answer is good
    for so many seconds; an older one is given at once to whom it will do, and renewed meanwhile.
    With `slow` seconds an answer that took long is good for longer, up to those: a hundred times as
    long as it took."""

    def __init__(
        self,
        seconds: float = 0.0,
        now: Callable[[], float] = time.monotonic,
        *,
        slow: float = 0.0,
    ) -> None:
        self._least = self._seconds = seconds
        self._slow = slow
        self._began = 0.0
        self._now = now
        self._asking: asyncio.Task[T] | None = None
        self._known: tuple[float, T] | None = None

    async def get(self, ask: Callable[[], Coroutine[Any, Any, T]], older: float = 0.0) -> T:
        """`older`: the age in seconds up to which an answer will do."""
        age = math.inf if self._known is None else self._now() - self._known[0]
        if self._known is not None and age < self._seconds:
            return self._known[1]
        if self._asking is None:
            self._began = self._now()
            self._asking = asyncio.create_task(ask())
            self._asking.add_done_callback(self._learn)
        if self._known is not None and age < older:
            return self._known[1]
        # Whoever asked first may go away: the others still want to know.
        return await asyncio.shield(self._asking)

    def _learn(self, asking: asyncio.Task[T]) -> None:
        self._asking = None
        if not asking.cancelled() and asking.exception() is None:
            self._known = self._now(), asking.result()
            took = self._now() - self._began
            self._seconds = max(self._least, min(took * _TIMES, self._slow))


class SharedBy(Generic[T]):
    """The same for many questions, of which the last so many are remembered."""

    def __init__(self, seconds: float, most: int = 100) -> None:
        self._seconds = seconds
        self._most = most
        self._known: dict[str, Shared[T]] = {}

    async def get(self, key: str, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        shared = self._known.pop(key, None) or Shared(self._seconds)
        self._known[key] = shared
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]
        return await shared.get(ask)
