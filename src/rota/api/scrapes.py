"""Figures for `/metrics`, read at most once a second however often they are asked for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from rota.model.figures import Figures

_KEPT_SECONDS = 1.0


class Scrapes:
    """One read at a time: who comes meanwhile gets its answer."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._turn = asyncio.Lock()
        self._kept: tuple[float, Figures] | None = None

    async def get(self, read: Callable[[], Awaitable[Figures]]) -> Figures:
        async with self._turn:
            if self._kept is None or self._now() - self._kept[0] >= _KEPT_SECONDS:
                self._kept = self._now(), await read()
            return self._kept[1]
