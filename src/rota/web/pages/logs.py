"""Logs: search, volume over time, download."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from rota.errors import RunNotFound, SearchError
from rota.model.log import LEVELS, LogKey
from rota.model.log_volume import LogVolume
from rota.web.context import Page
from rota.web.filters.logs import RANGES, LogQuery
from rota.web.log_lines import GLYPHS, LogRow, as_json, as_text
from rota.web.page_scope import PageScope, zone_of
from rota.web.words import refusal

PAGE_SIZE = 100
MOST_DOWNLOADED = 10_000
_SECOND = timedelta(seconds=1)
# How long a page searches for rare lines; its last link continues from there.
_BUDGET = 0.06


@dataclass(frozen=True, slots=True)
class Bar:
    """A step of the chart, with a link to its lines."""

    label: str
    path: str


@dataclass(frozen=True, slots=True)
class Choice:
    """A link that narrows the filter, or widens it again."""

    name: str
    path: str
    is_chosen: bool
    count: int | None = None
    glyph: str | None = None


@dataclass(frozen=True, slots=True)
class LogsPage(Page):
    template: ClassVar[str] = "logs/list.html"
    section: ClassVar[str] = "logs"

    query: LogQuery
    lines: list[LogRow]
    volume: LogVolume | None
    bars: list[Bar]
    ranges: list[Choice]
    levels: list[Choice]
    jobs: list[Choice]
    workers: list[Choice]
    searched_to: datetime | None
    older: str | None
    newer: str | None
    wider: str | None
    error: str | None

    @property
    def title(self) -> str:
        return "Logs"


async def search(request: Request) -> Response:
    scope = PageScope(request)
    query = LogQuery.read(request.query_params, zone_of(request))
    if not query.error and request.query_params.get("q", "").strip() not in ("", query.text):
        return scope.go(query.path())  # the address then has each part of the typed text
    try:
        page = await _found(scope, query)
    except SearchError as error:
        return await scope.show(_nothing(query, refusal(error)), status=422)
    return await scope.show(page, status=query.status)


async def _found(scope: PageScope, query: LogQuery) -> LogsPage:
    found = await scope.logs.search(
        query.text,
        limit=PAGE_SIZE,
        cursor=query.cursor,
        patience_seconds=_BUDGET,
        **query.stretch,
        **query.filters,
    )
    volume = await _volume(scope, query)
    if volume is not None:
        are_all = query.cursor is None and found.cursor is None
        volume = volume.beside(found.lines, are_all=are_all)
    now, zone = await scope.now(), zone_of(scope.request)
    return LogsPage(
        query=query,
        lines=[LogRow.of(line, zone, now, query.marked) for line in found.lines],
        volume=volume,
        bars=_bars(query, volume, zone),
        ranges=_ranges(query),
        levels=levels_of(query, volume),
        jobs=_names(query, "job", volume.jobs if volume else {}),
        workers=await _workers(scope, query, volume.workers if volume else {}),
        searched_to=found.searched_back_to if found.cursor else None,
        older=query.older(found.cursor) if found.cursor else None,
        newer=query.newer(),
        wider=_wider(query),
        error=None,
    )


def _nothing(query: LogQuery, error: str) -> LogsPage:
    return LogsPage(
        query=query,
        lines=[],
        volume=None,
        bars=[],
        ranges=_ranges(query),
        levels=levels_of(query, None),
        jobs=[],
        workers=[],
        searched_to=None,
        older=None,
        newer=None,
        wider=None,
        error=error,
    )


async def _volume(scope: PageScope, query: LogQuery) -> LogVolume | None:
    stretch = query.stretch
    if query.run_id is not None and stretch == {"since": None, "until": None}:
        # For the duration of the run.
        try:
            run = await scope.runs.get(query.run_id)
        except RunNotFound:
            return None
        until = (run.finished_at or await scope.now()) + _SECOND
        stretch = {"since": min(run.created_at, until - _SECOND), "until": until}
    return await scope.logs.volume(query.text, **stretch, **query.filters)


def _bars(query: LogQuery, volume: LogVolume | None, zone: Any) -> list[Bar]:
    if volume is None:
        return []
    step = timedelta(seconds=volume.step_seconds)
    return [
        Bar(
            f"{one.at.astimezone(zone):%H:%M:%S}: {'about ' if one.is_rough else ''}{one.lines:,}",
            query.between(one.at, one.at + step),
        )
        for one in volume.steps
    ]


def _ranges(query: LogQuery) -> list[Choice]:
    return [
        Choice(title, query.with_range(name), name == query.chosen_range)
        for name, title in RANGES.items()
    ]


def levels_of(query: LogQuery, volume: LogVolume | None) -> list[Choice]:
    counts = volume.levels if volume else {}
    return [
        Choice(
            level,
            query.toggled(level),
            level in query.levels,
            counts.get(level, 0)
            if volume and (not query.levels or level in query.levels)
            else None,
            GLYPHS[level],
        )
        for level in reversed(LEVELS)
    ]


def _names(query: LogQuery, key: str, counts: dict[Any, int]) -> list[Choice]:
    chosen = query.get(key)
    return [
        Choice(str(name), query.plus(key, str(name)), str(name) == chosen, count)
        for name, count in counts.items()
    ]


async def _workers(scope: PageScope, query: LogQuery, counts: dict[int, int]) -> list[Choice]:
    """List workers by name, as far as they are still known."""
    known = await scope.web.watch.workers() if counts else {}
    return [
        replace(one, name=f"{one.name} · {known[int(one.name)]}") if int(one.name) in known else one
        for one in _names(query, "worker", counts)
    ]


def _wider(query: LogQuery) -> str | None:
    """Return the next longer range, for an empty result."""
    names = list(RANGES)
    if query.chosen_range not in names[:-1]:
        return None
    return query.with_range(names[names.index(query.chosen_range) + 1])


@dataclass(frozen=True, slots=True)
class LinePage(Page):
    template: ClassVar[str] = "logs/line.html"
    section: ClassVar[str] = "logs"

    line: LogRow
    around: str

    @property
    def title(self) -> str:
        return f"Line of run {self.line.run_id}"


async def line(request: Request) -> Response:
    """Show one line, uncut."""
    scope = PageScope(request)
    key = LogKey.parse(request.path_params["key"])
    before = key._replace(seq=key.seq - 1)
    found = await scope.logs.show(key.run_id, attempt=key.attempt, limit=1, cursor=str(before))
    if not found.lines or found.lines[0].seq != key.seq:
        raise SearchError("there is no such line; retention may have removed it")
    one = found.lines[0]
    now, zone = await scope.now(), zone_of(request)
    minute = timedelta(minutes=1)
    around = LogQuery().between(one.at - minute, one.at + minute)
    return await scope.show(LinePage(LogRow.of(one, zone, now, most=10_000_000), around))


async def download(request: Request) -> Response:
    """Send the lines of the filter as text or as JSON lines, the newest first."""
    scope = PageScope(request)
    query = LogQuery.read(request.query_params, zone_of(request)).checked()
    is_json = request.query_params.get("as") == "json"
    first = await scope.logs.search(query.text, limit=1000, **query.stretch, **query.filters)
    name = "logs.jsonl" if is_json else "logs.txt"
    return StreamingResponse(
        _pages(scope, query, first, as_json if is_json else as_text),
        media_type="application/jsonl" if is_json else "text/plain; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


async def _pages(scope: PageScope, query: LogQuery, found: Any, show: Any) -> AsyncIterator[str]:
    sent = 0
    while True:
        yield "".join(show(row) for row in found.lines)
        sent += len(found.lines)
        if found.cursor is None or sent >= MOST_DOWNLOADED:
            return
        found = await scope.logs.search(
            query.text, limit=1000, cursor=found.cursor, **query.stretch, **query.filters
        )


routes = [
    Route("/logs", search),
    Route("/logs/download", download),
    Route("/logs/line/{key}", line),
]
