"""Events: their source and deliveries; replays."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.api.schemas.values import read_cursor
from rota.model.cursors import write_cursor
from rota.model.event import BindingInfo, EventInfo, where_from
from rota.web.context import Page
from rota.web.filters.audit import EventQuery
from rota.web.operations import routes_of
from rota.web.page_scope import PageScope, zone_of

PAGE_SIZE = 50
_KIND = "events newest"
_MOST_TEXT = 20_000


@dataclass(frozen=True, slots=True)
class EventRow:
    event: EventInfo
    source: str
    started: str

    @property
    def path(self) -> str:
        return f"/events/{self.event.id}"


@dataclass(frozen=True, slots=True)
class EventsPage(Page):
    template: ClassVar[str] = "events/list.html"
    section: ClassVar[str] = "events"

    rows: list[EventRow]
    query: EventQuery
    next: str | None

    @property
    def title(self) -> str:
        return "Events"


@dataclass(frozen=True, slots=True)
class EventPage(Page):
    template: ClassVar[str] = "events/one.html"
    section: ClassVar[str] = "events"

    row: EventRow
    payload: str
    facts: list[tuple[str, str]]
    bindings: list[BindingInfo]

    @property
    def title(self) -> str:
        return f"Event {self.row.event.id}"


def row_of(event: EventInfo) -> EventRow:
    return EventRow(event, where_from(event.source), _started(event))


def _started(event: EventInfo) -> str:
    if event.duplicate_of is not None:
        return f"nothing: event {event.duplicate_of} came first"
    if event.outcome == "unbound":
        return "nothing: no job was bound to it"
    if event.outcome == "filtered":
        return "nothing: no filter matched"
    return ", ".join(delivery.brief for delivery in event.told if delivery.run is not None)


async def list_events(request: Request) -> Response:
    scope = PageScope(request)
    query = EventQuery.read(request.query_params, zone_of(request))
    if request.query_params.get("q", "").strip() and not query.error:
        return scope.go(query.path())
    found = await scope.events.page(
        cursor=read_cursor(_KIND, query.cursor, int), limit=PAGE_SIZE, **query.filters
    )
    onward = query.at(write_cursor(_KIND, *found.cursor) if found.cursor else None)
    return await scope.show_list(
        EventsPage([row_of(it) for it in found.items], query, onward), query
    )


async def show_event(request: Request) -> Response:
    scope = PageScope(request)
    event = await scope.events.get(request.path_params["id"])
    bindings = await scope.events.bindings(event.name)
    page = EventPage(row_of(event), _json(event.payload), _facts(event), bindings)
    return await scope.show(page)


def _facts(event: EventInfo) -> list[tuple[str, str]]:
    facts = (
        ("Tenant", event.tenant),
        ("Key", event.key),
        ("Application's user", event.actor),
        ("Database role", event.role),
        ("From", where_from(event.source)),
        ("Source", _json(event.source) if event.source else ""),
    )
    return [(name, text) for name, text in facts if text]


def _json(value: Any) -> str:
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]} … ({len(text):,} characters)"


async def _jobs(scope: PageScope) -> dict[str, list[str]]:
    return {"job": [job.name for job in await scope.jobs.list()]}


routes = [
    Route("/events", list_events),
    *routes_of("events", suggests={"replay": _jobs}),
    Route("/events/{id:int}", show_event),
]
