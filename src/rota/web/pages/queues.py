"""Queues: waiting and running runs; pause and resume; the cap of waiting runs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import ClassVar
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import FilterError
from rota.model.fields import facts_of
from rota.model.queue import QueueDetails, QueueInfo, QueueSettings
from rota.model.trend import Trend
from rota.web.context import Page
from rota.web.operations import others_of, path_of, routes_of
from rota.web.page_scope import PageScope, zone_of
from rota.web.plots import Plot
from rota.web.selected import selected_of
from rota.web.trend_plots import SPANS, plots_of
from rota.web.why import WhyPanel, why_of

# Operations whose buttons depend on the state of the queue.
STATES = ("paused", "full", "unserved")
PAGE_SIZE = 100
_OLD_SECONDS = 300
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
    backlog: list[int] = field(default_factory=list)

    @property
    def state(self) -> str:
        """What is wrong with it; empty if nothing is."""
        if self.is_paused:
            return "paused"
        if self.is_full:
            return "full"
        return "unserved" if self.waiting and not self.workers else ""

    @property
    def top(self) -> int:
        """The top of the picture of its backlog: the cap, if it has one."""
        return max(4, self.cap or 0, *self.backlog)

    @property
    def is_old(self) -> bool:
        return (self.oldest_seconds or 0) >= _OLD_SECONDS

    @property
    def is_odd(self) -> bool:
        return bool(self.state) or self.is_old

    @property
    def verbs(self) -> str:
        """What a selection may do with it."""
        return " ".join(fitting(self))

    @property
    def rank(self) -> tuple[bool, bool, str]:
        """Those with trouble first."""
        return not self.state, not self.is_old, self.name


def fitting(one: QueueRow | QueueInfo) -> tuple[str, ...]:
    """The verbs that fit its state."""
    return ("resume" if one.is_paused else "pause",)


@dataclass(frozen=True, slots=True)
class QueueQuery:
    """The filter in the address."""

    text: str | None = None
    state: str | None = None

    @classmethod
    def read(cls, given: QueryParams) -> QueueQuery:
        state = given.get("state") or None
        if state not in (None, *STATES):
            raise FilterError(f"unknown state {state!r}", hint=f"choose from {', '.join(STATES)}")
        return cls(given.get("text", "").strip()[:200] or None, state)

    def path(self, **changes: str | None) -> str:
        given = {"text": self.text, "state": self.state} | changes
        pairs = {key: value for key, value in given.items() if value}
        return f"/queues?{urlencode(pairs)}" if pairs else "/queues"

    def takes(self, row: QueueRow) -> bool:
        return self.text is None or self.text.casefold() in row.name.casefold()


@dataclass(frozen=True, slots=True)
class QueuesPage(Page):
    template: ClassVar[str] = "queues/list.html"
    section: ClassVar[str] = "queues"

    queues: list[QueueRow]
    query: QueueQuery
    tabs: list[tuple[str, int]]
    left: int

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
    scope, query = PageScope(request), QueueQuery.read(request.query_params)
    rows = sorted(filter(query.takes, await _rows(scope)), key=lambda row: row.rank)
    tabs = [(state, sum(row.state == state for row in rows)) for state in STATES]
    found = [row for row in rows if query.state in (None, row.state)]
    shown = found[:PAGE_SIZE]
    backlogs = await scope.overview.backlogs([row.name for row in shown])
    shown = [replace(row, backlog=backlogs[row.name]) for row in shown]
    tabs = [("", len(rows)), *tabs]
    return await scope.show(QueuesPage(shown, query, tabs, len(found) - len(shown)))


async def _rows(scope: PageScope) -> list[QueueRow]:
    return [
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
    *selected_of("queues", ("pause", "resume"), fitting),
    Route("/queues/{name}", show_queue),
    *routes_of("queues"),
]
