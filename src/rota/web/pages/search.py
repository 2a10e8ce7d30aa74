"""Search: jump to anything by name or id, and act on it. A script shows it as a palette."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.model.search_result import SearchResult
from rota.model.states import OPEN_STATES, RETRIABLE_STATES
from rota.operations.reports.find import MOST_TEXT
from rota.web import nav
from rota.web.context import Page
from rota.web.filters.audit import EventQuery
from rota.web.filters.errors import ErrorQuery
from rota.web.filters.list_query import address
from rota.web.filters.logs import LogQuery
from rota.web.filters.runs import RunQuery
from rota.web.filters.words import Word, read_words
from rota.web.page_scope import PageScope
from rota.web.pages.schedules import path_of

# The actions on each kind of record: verb, permission, states.
_VERBS: dict[str, tuple[tuple[str, str, tuple[str, ...]], ...]] = {
    "run": (
        ("retry", "runs.retry", RETRIABLE_STATES),
        ("cancel", "runs.cancel", OPEN_STATES),
    ),
    "schedule": (
        ("trigger", "schedules.trigger", ("active", "paused", "disabled", "parked")),
        ("pause", "schedules.pause", ("active",)),
        ("resume", "schedules.resume", ("paused",)),
        ("enable", "schedules.enable", ("disabled",)),
    ),
    "queue": (
        ("pause", "queues.pause", ("active",)),
        ("resume", "queues.resume", ("paused",)),
    ),
    "worker": (("drain", "workers.drain", ("live",)),),
    "job": (),
}
_ALL_VERBS = {verb for verbs in _VERBS.values() for verb, _, _ in verbs}
_TITLES = {
    "run": "Runs",
    "schedule": "Schedules",
    "job": "Jobs",
    "queue": "Queues",
    "worker": "Workers",
}


@dataclass(frozen=True, slots=True)
class PaletteEntry:
    """One line of the palette: a page, or an action with a confirmation."""

    text: str
    detail: str
    path: str
    icon: str
    state: str = ""
    is_action: bool = False


_OTHER_PAGES = (
    PaletteEntry("Live tail of logs", "", "/logs/tail", "follow"),
    PaletteEntry("API reference", "", "/api/docs", "jobs"),
    PaletteEntry("Keys", "", "/keys", "settings"),
)


_SEARCHES = (
    (RunQuery.PLACE, "runs"),
    (LogQuery.PLACE, "logs"),
    (ErrorQuery.PLACE, "errors"),
    (EventQuery.PLACE, "events"),
)


@dataclass(frozen=True, slots=True)
class Group:
    title: str
    ways: list[PaletteEntry]


@dataclass(frozen=True, slots=True)
class SearchPage(Page):
    template: ClassVar[str] = "search.html"
    section: ClassVar[str] = ""

    text: str
    groups: list[Group]

    @property
    def title(self) -> str:
        return "Search"


async def search(request: Request) -> Response:
    scope = PageScope(request)
    text = " ".join(request.query_params.get("q", "").replace("\0", "").split())[:MOST_TEXT]
    verb, _, rest = text.partition(" ")
    verb = verb.lower()
    hits: list[SearchResult] = await scope.find.named(text) if text else []
    if rest and verb in _ALL_VERBS:
        others = await scope.find.named(rest)
        groups = [Group("Do", list(_actions(scope, others, verb))), *_groups(scope, hits)]
    else:
        does = list(_actions(scope, hits[:4], None)) if len(hits) <= 4 else []
        groups = [*_groups(scope, hits), Group("Do", does)]
    groups.append(Group("Go to", _pages(text)))
    if text:
        groups.append(Group("Search", list(_searches(text))))
    return await scope.show(SearchPage(text, [group for group in groups if group.ways]))


def _groups(scope: PageScope, hits: list[SearchResult]) -> Iterator[Group]:
    for kind, title in _TITLES.items():
        ways = [
            PaletteEntry(hit.text, _detail(hit), path(hit), f"{kind}s", hit.state)
            for hit in hits
            if hit.kind == kind
        ]
        yield Group(title, ways)


def _detail(hit: SearchResult) -> str:
    return " · ".join(part for part in (hit.detail, hit.tenant) if part)


def path(hit: SearchResult, verb: str = "") -> str:
    """Return the page of a record, or the confirmation of an action."""
    tail = f"/{verb}" if verb else ""
    if hit.kind == "schedule":
        return path_of(hit.name, hit.tenant, verb)
    if hit.kind == "job" and not any(section and section.key == "jobs" for section in nav.items()):
        return f"/runs?job={quote(hit.name, safe='')}"
    return f"/{hit.kind}s/{quote(hit.name, safe='')}{tail}"


def _actions(
    scope: PageScope, hits: list[SearchResult], only: str | None
) -> Iterator[PaletteEntry]:
    for hit in hits:
        for verb, permission, states in _VERBS[hit.kind]:
            if only in (None, verb) and hit.state in states and scope.viewer.may(permission):
                text = f"{verb.capitalize()} {hit.kind} {hit.text}…"
                yield PaletteEntry(text, _detail(hit), path(hit, verb), "play", "", is_action=True)


def _searches(text: str) -> Iterator[PaletteEntry]:
    """Searches of texts that are no names: payloads, errors, lines of logs and events."""
    for place, title in _SEARCHES:
        words = [_word(word) for word in read_words(text)]
        path = address(place, [("q", text)] if place == LogQuery.PLACE else words)
        yield PaletteEntry(f"Search {title} for “{text}”", "", path, "search")


def _word(word: Word) -> tuple[str, str]:
    """A filter by a word, even if it looks like a name and a value."""
    value = f"{word.name}:{word.value}" if word.name else word.value
    return "-text" if word.is_not else "text", value


def _pages(text: str) -> list[PaletteEntry]:
    """Return pages whose title, or a word of it, begins with the text."""
    wanted = text.lower()
    sections = [
        PaletteEntry(one.title, "", one.path, one.icon) for one in nav.items() if one is not None
    ]
    return [
        way
        for way in (*sections, *_OTHER_PAGES)
        if any(word.startswith(wanted) for word in (way.text.lower(), *way.text.lower().split()))
    ]


@dataclass(frozen=True, slots=True)
class KeysPage(Page):
    template: ClassVar[str] = "keys.html"

    @property
    def title(self) -> str:
        return "Keys"


async def keys(request: Request) -> Response:
    return await PageScope(request).show(KeysPage())


routes = [Route("/search", search), Route("/keys", keys)]
