"""Shares one result among simultaneous requests for the same data."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_TIMES = 100


class Shared(Generic[T]):
    """Reads once at a time: callers that arrive meanwhile get the same result, or the same error. A
    result is valid for `seconds`; a caller that accepts an older one gets it at once, while it is
    renewed. With `slow`, a result that took long is valid for longer: a hundred times as long as it
    took, up to `slow` seconds."""

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
        """`older`: the age in seconds up to which a result is accepted."""
        age = math.inf if self._known is None else self._now() - self._known[0]
        if self._known is not None and age < self._seconds:
            return self._known[1]
        if self._asking is None:
            self._began = self._now()
            self._asking = asyncio.create_task(ask())
            self._asking.add_done_callback(self._learn)
        if self._known is not None and age < older:
            return self._known[1]
        # The first caller may be cancelled: the others still need the result.
        return await asyncio.shield(self._asking)

    def _learn(self, asking: asyncio.Task[T]) -> None:
        self._asking = None
        if not asking.cancelled() and asking.exception() is None:
            self._known = self._now(), asking.result()
            took = self._now() - self._began
            self._seconds = max(self._least, min(took * _TIMES, self._slow))


class SharedBy(Generic[T]):
    """Shared results by key; only the most recent keys are remembered."""

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
