"""Data that many pages poll, read once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from rota.api.shared import Shared, SharedBy
from rota.errors import RotaError, UnknownJob
from rota.model.attention import Attention
from rota.model.error_group import OPEN, ErrorGroup
from rota.model.finding import Report
from rota.model.overview import ComingSchedule
from rota.model.stats import Activity
from rota.model.trend import Trend
from rota.operations.commands import Commands

if TYPE_CHECKING:
    from rota.app import App

T = TypeVar("T")
F = TypeVar("F", bound=Commands)
SECONDS = 3.0
# Slow reads, because many runs wait or run, are repeated less often. A page reloads after five
# seconds; changes of attention are pushed to it.
SLOW, SLOW_ATTENTION = 4.5, 10.0
# A page does not wait for a recent value: a value up to this many times as old is shown while it is
# renewed.
_OLDER = 3
_HOUR, _MONTH = timedelta(hours=1), timedelta(days=30)
_MOST_KINDS = 30
_REPORT_SECONDS, _OLD_REPORT = 30.0, 120.0
_LATELY, _USUAL_SECONDS = timedelta(days=7), 30.0
_MOST_WORKERS = 200


class SharedReads:
    """The data of one server: however many dashboards are open, each value is read once in a few
    seconds."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._known: dict[Any, Shared[Any]] = {}
        self.changes = 0  # made through this server
        self._usual: SharedBy[Activity | None] = SharedBy(_USUAL_SECONDS)
        self._reports: Shared[Report] = Shared(_REPORT_SECONDS)

    async def attention(self) -> Attention | None:
        """Return None if it cannot be read: no page fails because of its navigation."""
        try:
            ask = self._limited(self._app.attention).get
            return await self._once("attention", ask, slow=SLOW_ATTENTION)
        except RotaError:
            return None

    async def trend(
        self, span: timedelta, *, job: str | None = None, queue: str | None = None
    ) -> Trend:
        def ask() -> Coroutine[Any, Any, Trend]:
            return self._limited(self._app.stats).trend(span=span, job=job, queue=queue)

        return await self._once(("trend", span, job, queue), ask)

    async def coming(self) -> list[ComingSchedule]:
        def ask() -> Coroutine[Any, Any, list[ComingSchedule]]:
            return self._limited(self._app.overview).coming(limit=7)

        return await self._once("coming", ask)

    async def errors(self) -> list[ErrorGroup]:
        """Return the most frequent error groups of the last hour, without handled ones."""

        def ask() -> Coroutine[Any, Any, list[ErrorGroup]]:
            errors = self._limited(self._app.errors)
            return errors.list(since=_HOUR, order="most", limit=8, standings=OPEN)

        return await self._once("errors", ask)

    async def kinds(self, job: str | None) -> list[ErrorGroup]:
        """Return the most frequent error groups of the last month, of one job or of all."""

        def ask() -> Coroutine[Any, Any, list[ErrorGroup]]:
            errors = self._limited(self._app.errors)
            return errors.list(since=_MONTH, job=job, order="most", limit=_MOST_KINDS)

        return await self._once(("kinds", job), ask)

    async def workers(self) -> dict[int, str]:
        """Return the names of the latest workers, by id."""

        async def ask() -> dict[int, str]:
            workers = self._limited(self._app.workers)
            found = await workers.page(include_gone=True, limit=_MOST_WORKERS)
            return {worker.id: worker.name for worker in found.items}

        return await self._once("workers", ask)

    async def usual(self, job: str) -> Activity | None:
        """Return a job's recent activity, to compare runs with; None for an unknown job."""

        async def ask() -> Activity | None:
            stats = self._limited(self._app.stats)
            try:
                return (await stats.get(job=job, since=_LATELY, most_jobs=1)).total
            except UnknownJob:
                return None

        return await self._usual.get(job, ask)

    async def report(self, *, new: bool = False, older: float = 0.0) -> Report:
        """Return the report of `rota doctor`; `new` makes a new one."""
        if new:
            self._reports = Shared(_REPORT_SECONDS)
        return await self._reports.get(self._limited(self._app.doctor).get, older)

    async def findings(self) -> Report | None:
        """Return the report for the navigation; None if it cannot be read."""
        try:
            return await self.report(older=_OLD_REPORT)
        except RotaError:
            return None

    def forget(self) -> None:
        """Discard the values after a change by a user, so that the next reads are new."""
        self._known.clear()
        self.changes += 1

    async def _once(
        self, key: Any, ask: Callable[[], Coroutine[Any, Any, T]], slow: float | None = None
    ) -> T:
        if len(self._known) > 100:
            self._known.clear()
        slow = SLOW if slow is None else slow
        shared: Shared[T] = self._known.setdefault(key, Shared(SECONDS, slow=slow))
        return await shared.get(ask, older=max(_OLDER * SECONDS, slow + SECONDS))

    def _limited(self, face: F) -> F:
        return face.within(self._app.config.server.statement_seconds)
