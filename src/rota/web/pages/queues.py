"""Queues: waiting and running runs; pause and resume; the cap of waiting runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.model.fields import facts_of
from rota.model.queue import QueueDetails, QueueSettings
from rota.model.trend import Trend
from rota.web.context import Page
from rota.web.operations import others_of, path_of, routes_of
from rota.web.page_scope import PageScope, zone_of
from rota.web.plots import Plot
from rota.web.trend_plots import SPANS, plots_of
from rota.web.why import WhyPanel, why_of

# Operations whose buttons depend on the state of the queue.
_PLACED = ("pause", "resume", "set", "reset")


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue in the list, with the runs that ended in it in the last minute."""

    name: str
    path: str
    is_paused: bool
    pause: str | None
    paused_until: datetime | None
    waiting: int
    held: int
    scheduled: int
    running: int
    oldest_seconds: float | None
    per_minute: int
    workers: int
    cap: int | None
    is_full: bool

    @property
    def state(self) -> str:
        if self.is_paused:
            return "paused"
        return "late" if self.is_full else "active"


@dataclass(frozen=True, slots=True)
class QueuesPage(Page):
    template: ClassVar[str] = "queues/list.html"
    section: ClassVar[str] = "queues"

    queues: list[QueueRow]

    @property
    def title(self) -> str:
        return "Queues"


@dataclass(frozen=True, slots=True)
class QueuePage(Page):
    template: ClassVar[str] = "queues/one.html"
    section: ClassVar[str] = "queues"

    details: QueueDetails
    path: str
    why: WhyPanel
    span: str
    spans: dict[str, tuple[str, int]]
    trend: Trend
    plots: list[Plot]
    settings: list[tuple[str, str]]
    others: list[tuple[str, str]]

    @property
    def title(self) -> str:
        return self.details.queue.name


async def list_queues(request: Request) -> Response:
    scope = PageScope(request)
    rows = [
        QueueRow(
            name=queue.queue.name,
            path=path_of("queues", queue.queue.name),
            is_paused=queue.queue.is_paused,
            pause=_pause(queue.queue.paused_by, queue.queue.pause_reason),
            paused_until=queue.queue.paused_until,
            waiting=queue.queue.queued,
            held=queue.queue.held,
            scheduled=queue.queue.scheduled,
            running=queue.queue.running,
            oldest_seconds=queue.queue.oldest_seconds,
            per_minute=round(queue.per_second * 60),
            workers=queue.queue.workers,
            cap=queue.queue.max_waiting,
            is_full=queue.queue.full_since is not None,
        )
        for queue in await scope.overview.queues()
    ]
    return await scope.show(QueuesPage(rows))


def _pause(by: str | None, reason: str | None) -> str | None:
    if by is None:
        return None
    return f"by {by}: {reason}" if reason else f"by {by}"


async def show_queue(request: Request) -> Response:
    scope = PageScope(request)
    name = scope.name()
    details = await scope.queues.get(name)
    asked = request.query_params.get("range", "1h")
    span = asked if asked in SPANS else "1h"
    trend = await scope.web.watch.trend(timedelta(hours=SPANS[span][1]), queue=name)
    why = await why_of(scope, name, "queue")
    plots = plots_of(trend, zone_of(request))
    settings = facts_of(details.queue, QueueSettings)
    return await scope.show(
        QueuePage(
            details,
            path_of("queues", name),
            why,
            span,
            SPANS,
            trend,
            plots,
            settings,
            others_of("queues", _PLACED),
        )
    )


routes = [
    Route("/queues", list_queues),
    Route("/queues/{name}", show_queue),
    *routes_of("queues"),
]
