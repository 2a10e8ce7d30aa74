"""Error groups: the list, and one group."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.model.audit import AuditEntry
from rota.model.error_group import ErrorDetails, ErrorFacet, ErrorGroup
from rota.model.run_counts import RunCounts
from rota.web import frames
from rota.web.context import Page
from rota.web.filters.errors import RANGE_WORDS, RANGES, TABS, ErrorQuery
from rota.web.operations import routes_of
from rota.web.page_scope import PageScope, zone_of
from rota.web.pages.runs import RunRow

PAGE_SIZE = 50
_SHOWN_RUNS = 10
# The style of a standing, and its word.
LOOKS = {
    "new": ("failed", "new"),
    "back": ("failed", "back again"),
    "known": ("warn", "known"),
    "handled": ("succeeded", "handled"),
    "quiet": ("skipped", "quiet"),
}


@dataclass(frozen=True, slots=True)
class Tab:
    key: str
    name: str
    path: str
    count: int
    look: str | None


@dataclass(frozen=True, slots=True)
class Choice:
    name: str
    path: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Row:
    """A group in the list."""

    group: ErrorGroup
    path: str
    retry_path: str
    look: str
    word: str
    about: str

    @classmethod
    def of(cls, group: ErrorGroup) -> Row:
        look, word = LOOKS[group.standing]
        return cls(group, f"/errors/{group.id}", _retry(group.id), look, word, _about(group))


@dataclass(frozen=True, slots=True)
class ErrorsPage(Page):
    template: ClassVar[str] = "errors/list.html"
    section: ClassVar[str] = "errors"

    query: ErrorQuery
    rows: list[Row]
    tabs: list[Tab]
    ranges: list[Choice]
    orders: list[Choice]
    failures: int
    older: str | None

    @property
    def title(self) -> str:
        return "Errors"


@dataclass(frozen=True, slots=True)
class ErrorPage(Page):
    template: ClassVar[str] = "errors/one.html"
    section: ClassVar[str] = "errors"

    details: ErrorDetails
    path: str
    look: str
    word: str
    span_words: str
    ranges: list[Choice]
    trace: list[frames.Part]
    traits: list[ErrorFacet]
    failed: RunCounts
    runs: list[RunRow]
    runs_path: str
    retry_path: str
    history: list[AuditEntry]

    @property
    def title(self) -> str:
        group = self.details.group
        return f"{group.error_type} in {group.function or ', '.join(group.jobs)}"


async def list_errors(request: Request) -> Response:
    scope = PageScope(request)
    query = ErrorQuery.read(request.query_params, zone_of(request))
    if request.query_params.get("q", "").strip() and not query.error:
        return scope.go(query.path())
    # Handled and quiet groups are listed whatever range is counted.
    is_active = query.tab in ("open", "news")
    found = await scope.errors.page(
        since=RANGES[query.span] if is_active else None,
        counted=RANGES[query.span],
        order="most" if query.is_most else "last",
        cursor=query.place,
        limit=PAGE_SIZE,
        **query.listed,
    )
    standings = found.standings
    if is_active:
        standings = await scope.errors.standings(**query.listed) | standings
    page = ErrorsPage(
        query=query,
        rows=[Row.of(group) for group in found.groups],
        tabs=[_tab(key, query, standings) for key in TABS],
        ranges=_ranges(query.span, lambda key: query.path(range=key)),
        orders=[
            Choice("Most recent", query.path(order=None), not query.is_most),
            Choice("Most failures", query.path(order="most"), query.is_most),
        ],
        failures=found.failures,
        older=query.at(None if found.cursor is None else json.dumps(found.cursor)),
    )
    return await scope.show_list(page, query)


async def show_error(request: Request) -> Response:
    scope = PageScope(request)
    span = request.query_params.get("range", "24h")
    span = span if span in RANGES else "24h"
    details = await scope.errors.get(scope.name("group"), since=RANGES[span])
    group = details.group
    path = f"/errors/{group.id}"
    look, word = LOOKS[group.standing]
    runs = await scope.runs.page(error_group=group.id, limit=_SHOWN_RUNS)
    now = await scope.now()
    history = await scope.audit.page(object_type="error", object_id=group.id, limit=10)
    page = ErrorPage(
        details=details,
        path=path,
        look=look,
        word=word,
        span_words=RANGE_WORDS[span],
        ranges=_ranges(span, lambda key: path if key == "24h" else f"{path}?range={key}"),
        trace=frames.parts_of(details.traceback) if details.traceback else [],
        traits=[trait for trait in details.traits if trait.name != "job" or len(trait.shares) > 1],
        failed=await _failed(scope, group.id),
        runs=[RunRow.of(run, now, {}) for run in runs.runs],
        runs_path=f"/runs?{urlencode({'group': group.id})}",
        retry_path=_retry(group.id),
        history=list(history.items),
    )
    return await scope.show(page)


async def _failed(scope: PageScope, group: str) -> RunCounts:
    """Count the runs that a retry of all would take."""
    return await scope.bulk.preview("retry", error_group=group, states=["failed"])


def _retry(group: str) -> str:
    asked = {"verb": "retry", "all": "1", "group": group, "state": "failed"}
    return f"/runs/selected?{urlencode(asked)}"


def _tab(key: str, query: ErrorQuery, standings: dict[str, int]) -> Tab:
    name, wanted = TABS[key]  # type: ignore[index]
    count = sum(number for it, number in standings.items() if wanted is None or it in wanted)
    looks = {"news": "failed", "handled": "succeeded", "quiet": "skipped"}
    return Tab(key, name, query.path(tab=key), count, looks.get(key))


def _ranges(chosen: str, path: Callable[[str], str]) -> list[Choice]:
    names = {"1h": "1 h", "24h": "24 h", "7d": "7 d", "30d": "30 d"}
    return [Choice(names[key], path(key), key == chosen) for key in RANGES]


def _about(group: ErrorGroup) -> str:
    """Return job and place in one line."""
    jobs = ", ".join(group.jobs[:3]) + (
        f" and {len(group.jobs) - 3} more" if group.jobs[3:] else ""
    )
    return " · ".join(part for part in (jobs, group.place) if part)


routes = [
    Route("/errors", list_errors),
    Route("/errors/{group}", show_error),
    *routes_of("errors"),
]
