"""The state of an API, and the context of each request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import Depends, Request

from rota.api.paced_changes import PacedChanges
from rota.api.shared import Shared
from rota.api.slots import Archive, StreamSlots
from rota.api.stream import MOST_LISTENERS, Hub
from rota.operations.commands import Commands

if TYPE_CHECKING:
    from rota.app import App
    from rota.model.metrics import Metrics
    from rota.operations.cleanup import Cleanup
    from rota.operations.clock import Clock
    from rota.operations.events import Events
    from rota.operations.jobs import Jobs
    from rota.operations.limits import Limits
    from rota.operations.logs.logs import Logs
    from rota.operations.queues.queues import Queues
    from rota.operations.reports.attention import Attention
    from rota.operations.reports.audit import Audit
    from rota.operations.reports.doctor import Doctor
    from rota.operations.reports.find import Find
    from rota.operations.reports.overview import Overview
    from rota.operations.reports.stats import Stats
    from rota.operations.reports.why import Why
    from rota.operations.retention import RetentionPasses
    from rota.operations.runs.bulk_actions import BulkActions
    from rota.operations.runs.error_groups import Errors
    from rota.operations.runs.runs import Runs
    from rota.operations.runs.views import RunViews
    from rota.operations.schedules.calendars import Calendars
    from rota.operations.schedules.schedules import Schedules
    from rota.operations.schedules.templates import Templates
    from rota.operations.tenants.tenants import Tenants
    from rota.operations.watches import Watches
    from rota.operations.workers import Workers

F = TypeVar("F", bound=Commands)
MOST_WAITS = 500
MOST_TAILS = 20
# Each reads all tables of tenants, with its own thread and connection.
MOST_EXPORTS = 4
_PATIENCE = 5.0


@dataclass
class ApiState:
    """`stopping` is set when the server is stopped; streams then end."""

    app: App
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    routes: list[Any] = field(default_factory=list)
    # The OpenAPI document; made on the first request for it.
    describe: Callable[[], dict[str, Any]] = dict
    # However often they are requested, `/metrics` reads once a second and `/ready` once at a time:
    # both are open to unauthenticated clients.
    metrics: Shared[Metrics] = field(default_factory=lambda: Shared(seconds=1.0))
    readiness: Shared[None] = field(default_factory=Shared)
    listeners: StreamSlots = field(
        default_factory=lambda: StreamSlots(MOST_LISTENERS, "listeners are connected")
    )
    tails: StreamSlots = field(default_factory=lambda: StreamSlots(MOST_TAILS, "tails are open"))
    exports: StreamSlots = field(
        default_factory=lambda: StreamSlots(MOST_EXPORTS, "exports are in progress")
    )
    waits: StreamSlots = field(
        default_factory=lambda: StreamSlots(MOST_WAITS, "requests are waiting for runs")
    )

    def __post_init__(self) -> None:
        stats = self.app.stats.within(self.app.config.server.statement_seconds)
        self.hub = Hub(PacedChanges(stats.changes), self.stopping)


class RequestScope:
    """The use cases on behalf of the caller of a request, each with a time limit."""

    def __init__(self, state: ApiState, actor: str | None) -> None:
        self.app = state.app
        self._state = state
        self.actor = actor

    def ask(self, face: F) -> F:
        """Return any command class of the application, acting for the caller."""
        return face.by(self.actor).within(self.app.config.server.statement_seconds)

    async def until_ended(self, run_id: int, seconds: float) -> None:
        """Return when the run has ended, the time is over, or the server stops."""
        with self._state.waits.take():
            waiting = asyncio.ensure_future(self.runs.waits.end(run_id, seconds))
            stop = asyncio.ensure_future(self._state.stopping.wait())
            try:
                await asyncio.wait((waiting, stop), return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (waiting, stop):
                    task.cancel()
                await asyncio.gather(waiting, stop, return_exceptions=True)

    async def export_tenant(self, name: str) -> Archive:
        """Return all data of a tenant, as one archive that is sent while it is written."""
        return Archive(await self.tenants.stream(name), self._state.exports, name)

    async def metrics(self) -> Metrics:
        """Return the metrics of the whole system, for `/metrics`."""
        most = self.app.config.server.metrics_tenants
        return await self._state.metrics.get(partial(self.stats.metrics, most_tenants=most))

    async def check_ready(self) -> None:
        """Raise an error unless the database answers and its schema fits this release."""
        await self._state.readiness.get(self._check_ready)

    async def _check_ready(self) -> None:
        async with asyncio.timeout(_PATIENCE):
            await self.clock.now()
            await asyncio.to_thread(self.app.check_schema)

    @property
    def runs(self) -> Runs:
        return self.ask(self.app.runs)

    @property
    def bulk(self) -> BulkActions:
        return self.ask(self.app.bulk)

    @property
    def views(self) -> RunViews:
        return self.ask(self.app.views)

    @property
    def jobs(self) -> Jobs:
        return self.ask(self.app.jobs)

    @property
    def schedules(self) -> Schedules:
        return self.ask(self.app.schedules)

    @property
    def calendars(self) -> Calendars:
        return self.ask(self.app.calendars)

    @property
    def templates(self) -> Templates:
        return self.ask(self.app.templates)

    @property
    def limits(self) -> Limits:
        return self.ask(self.app.limits)

    @property
    def queues(self) -> Queues:
        return self.ask(self.app.queues)

    @property
    def workers(self) -> Workers:
        return self.ask(self.app.workers)

    @property
    def tenants(self) -> Tenants:
        return self.ask(self.app.tenants)

    @property
    def stats(self) -> Stats:
        return self.ask(self.app.stats)

    @property
    def logs(self) -> Logs:
        return self.ask(self.app.logs)

    @property
    def retention(self) -> RetentionPasses:
        return self.ask(self.app.retention)

    @property
    def cleanup(self) -> Cleanup:
        return self.ask(self.app.cleanup)

    @property
    def watches(self) -> Watches:
        return self.ask(self.app.watches)

    @property
    def audit(self) -> Audit:
        return self.ask(self.app.audit)

    @property
    def events(self) -> Events:
        return self.ask(self.app.events)

    @property
    def overview(self) -> Overview:
        return self.ask(self.app.overview)

    @property
    def errors(self) -> Errors:
        return self.ask(self.app.errors)

    @property
    def attention(self) -> Attention:
        return self.ask(self.app.attention)

    @property
    def why(self) -> Why:
        return self.ask(self.app.why)

    @property
    def find(self) -> Find:
        return self.ask(self.app.find)

    @property
    def doctor(self) -> Doctor:
        return self.ask(self.app.doctor)

    @property
    def clock(self) -> Clock:
        return self.ask(self.app.clock)


async def _scope(request: Request) -> RequestScope:
    return RequestScope(request.app.state.rota, request.scope.get("rota.actor"))


Scoped = Annotated[RequestScope, Depends(_scope)]
