"""Events: their source and deliveries; replays."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.api.schemas.values import read_cursor
from rota.errors import InputError, TimingError, UnknownJob
from rota.model.cursors import write_cursor
from rota.model.event import BindingInfo, EventInfo, where_from
from rota.model.formatting import plural
from rota.model.table_watch import Replayed
from rota.web.context import Page
from rota.web.event_query import EventQuery
from rota.web.forms import read_form, read_time
from rota.web.page_scope import PageScope, zone_of
from rota.web.words import refusal

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


@dataclass(frozen=True, slots=True)
class ReplayQuestion(Page):
    """Confirms a replay of events to a job, with their number as soon as the job is known."""

    template: ClassVar[str] = "events/replay.html"
    section: ClassVar[str] = "events"

    given: dict[str, str]
    jobs: list[str]
    plan: Replayed | None = None
    error: str | None = None

    @property
    def title(self) -> str:
        return "Replay events"


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
    found = await scope.events.page(
        cursor=read_cursor(_KIND, query.cursor, int), limit=PAGE_SIZE, **query.filters
    )
    onward = found.cursor and query.at(write_cursor(_KIND, *found.cursor))
    return await scope.show(EventsPage([row_of(it) for it in found.items], query, onward or None))


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


def _given(fields: Any) -> dict[str, str]:
    """Read the arguments of a replay from an address or a form."""
    names = ("id", "name", "job", "since", "again", "reason")
    found = {name: str(fields.get(name, "")).strip()[:400] for name in names}
    if not found["id"].isascii() or not found["id"].isdigit() or len(found["id"]) > 18:
        found["id"] = ""
    if not found["id"] and not found["name"]:
        raise InputError("select events by id or by name")
    return found


async def _replay(scope: PageScope, given: dict[str, str], *, dry_run: bool) -> Replayed:
    since = read_time(given["since"] or None, zone_of(scope.request))
    return await scope.events.replay(
        given["job"],
        event=None if given["id"] else given["name"],
        ids=[int(given["id"])] if given["id"] else None,
        since=since,
        again=bool(given["again"]),
        dry_run=dry_run,
        reason=given["reason"] or None,
    )


async def _ask(scope: PageScope, given: dict[str, str], error: str | None = None) -> Response:
    jobs = [job.name for job in await scope.jobs.list()]
    plan = None
    if given["job"] and error is None:
        try:
            plan = await _replay(scope, given, dry_run=True)
        except (UnknownJob, TimingError, InputError) as wrong:
            error = str(wrong)
    status = 200 if error is None else 422
    return await scope.show(ReplayQuestion(given, jobs, plan, error), status=status)


async def ask_replay(request: Request) -> Response:
    return await _ask(PageScope(request), _given(request.query_params))


async def replay(request: Request) -> Response:
    scope = PageScope(request)
    scope.check("events.replay")
    given = _given(await read_form(request))
    if not given["job"]:
        return await _ask(scope, given, "Select the job that gets them.")
    try:
        done = await _replay(scope, given, dry_run=False)
    except (UnknownJob, TimingError, InputError) as error:
        return await _ask(scope, given, refusal(error))
    named = f"/events?{urlencode({'name': given['name']})}"
    back = f"/events/{given['id']}" if given["id"] else named
    return scope.go(back, f"{plural(done.started, 'run')} of {given['job']} started")


routes = [
    Route("/events", list_events),
    Route("/events/replay", ask_replay),
    Route("/events/replay", replay, methods=["POST"]),
    Route("/events/{id:int}", show_event),
]
