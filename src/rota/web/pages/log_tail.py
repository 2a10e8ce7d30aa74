"""The log as it is written: a page that follows it, and the stream behind the page."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from functools import partial
from typing import ClassVar

from fastapi.sse import format_sse_event
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from rota.api.slots import EventStream
from rota.api.stream import until_stopped
from rota.errors import SearchError
from rota.model.log import LogKey, LogLine
from rota.operations.logs.logs import Logs
from rota.operations.logs.tail import MOST_LINES, WINDOW_SECONDS
from rota.web.context import Page
from rota.web.filters.logs import LogQuery, Stretch
from rota.web.log_lines import LogRow
from rota.web.page_scope import PageScope, zone_of
from rota.web.pages.logs import Choice, levels_of
from rota.web.render import render_gap, render_lines
from rota.web.words import refusal

FIRST_LINES = 200
_POLL_SECONDS = 1.0
# A client that was disconnected for longer gets a link to search the missed lines.
_LONGEST_AWAY = 600.0


@dataclass(frozen=True, slots=True)
class Gap:
    """Lines between the client's last line and the following ones were left out."""

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class TailPage(Page):
    template: ClassVar[str] = "logs/tail.html"
    section: ClassVar[str] = "logs"

    query: LogQuery
    lines: list[LogRow]
    levels: list[Choice]
    earlier: str | None
    error: str | None

    @property
    def title(self) -> str:
        return "Live tail"


async def tail(request: Request) -> Response:
    scope = PageScope(request)
    query = LogQuery.read(request.query_params, zone_of(request), place="/logs/tail")
    if not query.error and request.query_params.get("q", "").strip() not in ("", query.text):
        return scope.go(query.path())
    try:
        found = await scope.logs.search(query.text, limit=FIRST_LINES, **query.filters)
    except SearchError as error:
        page = TailPage(query, [], levels_of(query, None), None, refusal(error))
        return await scope.show(page, status=422)
    rows = await _rows(scope, query, found.lines)
    earlier = query.path("/logs/earlier") if found.cursor else None
    page = TailPage(query, rows, levels_of(query, None), earlier, None)
    return await scope.show(page, status=query.status)


async def _rows(scope: PageScope, query: LogQuery, newest_first: list[LogLine]) -> list[LogRow]:
    now, zone = await scope.now(), zone_of(scope.request)
    return [LogRow.of(line, zone, now, query.marked) for line in reversed(newest_first)]


async def earlier(request: Request) -> Response:
    """Return the lines before the given key, the oldest first; a tail inserts them on top."""
    scope = PageScope(request)
    query = LogQuery.read(request.query_params, zone_of(request)).checked()
    found = await scope.logs.search(
        query.text, limit=FIRST_LINES, cursor=query.cursor, **query.filters
    )
    rows = await _rows(scope, query, found.lines)
    headers = {"X-Rota-Earlier": found.cursor or ""}
    return HTMLResponse(render_lines(rows, scope.root), headers=headers)


async def stream(request: Request) -> Response:
    """Stream events: `lines` with new lines as HTML, and `beat` if there are none, so that a client
    without either can tell that it is disconnected. `after` is the client's last line; after a long
    absence a `gap` says that lines between it and the next ones are left out."""
    scope = PageScope(request)
    query = LogQuery.read(request.query_params, zone_of(request)).checked()
    logs = scope.ask(scope.app.logs)
    # Refuse an invalid search before the stream begins.
    await logs.recent(query.text, seconds=0, limit=1, **query.filters)
    zone, now = zone_of(request), await scope.now()
    last = _last(request)
    looks = logs.follow(query.text, seconds=_away(now, last), poll=_POLL_SECONDS, **query.filters)
    source = looks if last is None else with_gap(looks, logs, query, last, now)
    show = partial(event_of, query=query, zone=zone, now=now, root=scope.root)
    state = scope.web.api
    return EventStream(until_stopped(source, state.stopping, show), state.tails)


async def with_gap(
    looks: AsyncGenerator[list[LogLine]],
    logs: Logs,
    query: LogQuery,
    last: datetime,
    now: datetime,
) -> AsyncGenerator[list[LogLine] | Gap]:
    """Yield a gap first, if the first lines do not reach back to the client's last line."""
    async with aclosing(looks):
        first = await anext(looks)
        until = now - timedelta(seconds=_LONGEST_AWAY)
        if len(first) >= MOST_LINES:
            until = max(until, first[0].at)
        since = last + timedelta(microseconds=1)
        if since < until and await _has_lines(logs, query, since, until):
            yield Gap(last, until)
        yield first
        async for news in looks:
            yield news


async def _has_lines(logs: Logs, query: LogQuery, since: datetime, until: datetime) -> bool:
    """Return whether there are lines, or may be: a search that ran out of time counts as yes."""
    stretch: Stretch = {"since": since, "until": until}
    found = await logs.search(query.text, limit=1, **stretch, **query.filters)
    return bool(found.lines or found.cursor)


def event_of(
    news: list[LogLine] | Gap, *, query: LogQuery, zone: tzinfo, now: datetime, root: str
) -> bytes:
    if isinstance(news, Gap):
        path = replace(query, place="/logs").between(news.since, news.until)
        html = render_gap(root, path, news.since.astimezone(zone), news.until.astimezone(zone))
        return format_sse_event(event="gap", data_str=html)
    if not news:
        return format_sse_event(event="beat", data_str="")
    html = render_lines([LogRow.of(line, zone, now, query.marked) for line in news], root)
    return format_sse_event(event="lines", data_str=html, id=str(news[-1].key))


def _last(request: Request) -> datetime | None:
    """Return when the client's last line was written."""
    last = request.query_params.get("after") or request.headers.get("last-event-id")
    return LogKey.parse(last).at if last else None


def _away(now: datetime, last: datetime | None) -> float:
    """Return how far back to search: to the client's last line, plus the time in which lines may
    arrive late."""
    if last is None:
        return WINDOW_SECONDS
    return min(max((now - last).total_seconds(), 0.0) + WINDOW_SECONDS, _LONGEST_AWAY)


routes = [
    Route("/logs/tail", tail),
    Route("/logs/earlier", earlier),
    Route("/logs/stream", stream),
]
