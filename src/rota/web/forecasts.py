"""The forecast of the coming load, computed at most once a minute for all viewers."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from rota.model.list_filters import ScheduleFilters
from rota.timing.load import Load

if TYPE_CHECKING:
    from rota.web.page_scope import PageScope

# How long a page waits for a forecast that has to be counted first.
PATIENCE = 0.08
# Counting many schedules takes a second of CPU: limit it to a fiftieth of the time.
_FRESH, _SHARE = 60.0, 50
_GOOD, _MOST = 600.0, 32
Key = tuple[int, str, tuple[tuple[str, object], ...]]


class _Kept:
    """One forecast. An older one is shown while a new one is counted, but not a much older one."""

    def __init__(self) -> None:
        self._load: Load | None = None
        self._at = self._fresh_until = 0.0
        self._counting: asyncio.Task[None] | None = None

    async def get(
        self, scope: PageScope, days: int, zone: str, filters: ScheduleFilters
    ) -> Load | None:
        now = time.monotonic()
        if self._load is not None and now >= self._at + _GOOD:
            self._load = None
        if self._load is None or now >= self._fresh_until:
            counting = self._counting
            if counting is None:
                counting = asyncio.create_task(self._count(scope, days, zone, filters))
                counting.add_done_callback(self._end)
                self._counting = counting
            if self._load is None:
                await asyncio.wait((counting,), timeout=PATIENCE)
                if counting.done():
                    counting.result()  # raise its error in the request that waits for it
        return self._load

    async def _count(
        self, scope: PageScope, days: int, zone: str, filters: ScheduleFilters
    ) -> None:
        began = time.monotonic()
        # In a thread, so that it does not block other requests.
        simulate = scope.schedules.sync.simulate
        self._load = await asyncio.to_thread(simulate, days, timezone=zone, **filters)
        self._at = time.monotonic()
        self._fresh_until = self._at + max(_FRESH, _SHARE * (self._at - began))

    def _end(self, counting: asyncio.Task[None]) -> None:
        self._counting = None
        if not counting.cancelled():
            counting.exception()


class Forecasts:
    """The forecasts, by days, zone and filters."""

    def __init__(self) -> None:
        self._known: OrderedDict[Key, _Kept] = OrderedDict()

    async def get(
        self, scope: PageScope, days: int, zone: str, filters: ScheduleFilters | None = None
    ) -> Load | None:
        """Return None while the forecast is being counted."""
        given: ScheduleFilters = filters or {}
        key = (days, zone, tuple(sorted(given.items())))
        kept = self._known.setdefault(key, _Kept())
        self._known.move_to_end(key)
        while len(self._known) > _MOST:
            self._known.popitem(last=False)
        return await kept.get(scope, days, zone, given)
