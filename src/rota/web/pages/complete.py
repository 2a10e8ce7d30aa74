"""Suggestions for the filter of a list: names of filters, and values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from typing import Any, ClassVar

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.api.errors import ProblemError
from rota.model.exclusion import can_exclude
from rota.model.fields import Argument
from rota.web.context import Page
from rota.web.filters.audit import AuditQuery, EventQuery
from rota.web.filters.errors import ErrorQuery
from rota.web.filters.list_query import ListQuery
from rota.web.filters.logs import LogQuery
from rota.web.filters.runs import RunQuery
from rota.web.page_scope import PageScope, zone_of
from rota.web.payload_text import arguments_in

_READERS: Mapping[str, Callable[[QueryParams, tzinfo], ListQuery]] = {
    "runs": RunQuery.read,
    "logs": LogQuery.read,
    "tail": partial(LogQuery.read, place="/logs/tail"),
    "errors": ErrorQuery.read,
    "events": EventQuery.read,
    "audit": AuditQuery.read,
}
_MOST = 8
_SPANS = ("15min", "1h", "24h", "7d", "30d")
# How many of the newest records are read to find values that no table lists.
_RECENT = 200
Values = Iterable[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Offer:
    """`path` is the list filtered by this value; without it the user continues typing after
    `typed`."""

    key: str
    value: str
    path: str | None = None
    note: str = ""
    typed: str = ""


@dataclass(frozen=True, slots=True)
class CompletionPage(Page):
    template: ClassVar[str] = "complete.html"
    section: ClassVar[str] = "runs"

    offers: list[Offer]

    @property
    def title(self) -> str:
        return "Filters"


async def complete(request: Request) -> Response:
    scope = PageScope(request)
    many = request.path_params["many"]
    if many not in _READERS:
        raise ProblemError(404, "not-found", f"there is no list {many}")
    # What is typed already is not a part of the address yet.
    text = request.query_params.get("q", "")
    given = QueryParams([pair for pair in request.query_params.multi_items() if pair[0] != "q"])
    query = _READERS[many](given, zone_of(request))
    return await scope.show(CompletionPage(await _offers(scope, many, query, text)))


async def _offers(scope: PageScope, many: str, query: ListQuery, text: str) -> list[Offer]:
    before, _, word = text[:1000].rpartition(" ")
    earlier, _, last = before.rpartition(" ")
    is_not = word.startswith("-") or last == "not"
    rest = query.with_text(earlier if last == "not" else before)
    query = query if rest.error else rest
    minus = "-" if word.startswith("-") else ""
    key, colon, start = word.removeprefix("-").partition(":")
    words = {
        name: argument
        for name, argument in query.words().items()
        if can_exclude(argument) or not is_not
    }
    if colon and key in query.words() and key not in words:
        return []
    if colon and key in words:
        return await _values_of(scope, many, query, key, start.strip('"'), is_not)
    if word.isdecimal() and many == "runs":
        return [Offer("run", word, f"/runs/{word[:18]}", "open this run")]
    names = [
        Offer(name, "", note=argument.field.help, typed=f"{minus}{name}:")
        for name, argument in words.items()
        if name.startswith(key.lower())
    ]
    if not word:
        return names
    jobs: list[Offer] = []
    if "job" in words:
        jobs = await _values_of(scope, many, query, "job", key, is_not)
    offers = [*names, *jobs][: _MOST - 1]
    if query.BARE in words and key:
        path = query.plus(query.BARE, key, is_not=is_not)
        offers.append(Offer(query.BARE, key, path, words[query.BARE].field.help))
    return offers


async def _values_of(
    scope: PageScope, many: str, query: ListQuery, word: str, start: str, is_not: bool
) -> list[Offer]:
    argument = query.words()[word]
    if argument.kind == "pairs":
        return await _of_payload(scope, query, word, start, is_not)
    values = await _values(scope, many, argument, start)
    return [
        Offer(word, value, query.plus(word, value, is_not=is_not), note) for value, note in values
    ]


async def _of_payload(
    scope: PageScope, query: ListQuery, word: str, start: str, is_not: bool
) -> list[Offer]:
    """The fields that jobs take, by their schemas; after one of them, its latest values."""
    name, sign, value = start.replace(":", "=", 1).partition("=")
    minus = "-" if is_not else ""
    if not sign:
        jobs = await scope.jobs.list()
        wanted = query.get("job")
        fields = _fields(one.payload_schema for one in jobs if wanted in ("", one.name))
        shown = _fitting(fields.items(), start)
        return [
            Offer(word, f"{it}=", note=note, typed=f"{minus}{word}:{it}=") for it, note in shown
        ]
    found: Counter[str] = Counter()
    filters: Any = {"job": query.get("job") or None}
    for run in (await scope.runs.page(limit=_RECENT, **filters)).runs:
        held = _inside(run.payload, name)
        if isinstance(held, str | int | float) and len(str(held)) <= 100:
            found[str(held).lower() if isinstance(held, bool) else str(held)] += 1
    values = [(it, f"{runs} of the newest runs") for it, runs in found.most_common()]
    offers = _fitting(values, value) or [(value, "in the payload")] * bool(value)
    return [
        Offer(word, f"{name}={it}", query.plus(word, f"{name}={it}", is_not=is_not), note)
        for it, note in offers
    ]


def _inside(payload: Any, path: str) -> Any:
    for name in path.split("."):
        payload = payload.get(name) if isinstance(payload, Mapping) else None
    return payload


def _fields(schemas: Iterable[Any]) -> dict[str, str]:
    """The names of payload fields, with their types."""
    found: dict[str, str] = {}
    for schema in schemas:
        for name, field in arguments_in(schema)[0].items():
            kind = field.get("type") if isinstance(field, Mapping) else None
            found.setdefault(name, kind if isinstance(kind, str) else "a field of the payload")
    return found


async def _values(
    scope: PageScope, many: str, argument: Argument, start: str
) -> list[tuple[str, str]]:
    if argument.words:
        return _fitting(((word, "") for word in argument.words), start)
    if argument.kind == "flag":
        return _fitting((("yes", ""), ("no", "")), start)
    if argument.kind == "moment":
        return _fitting(((span, "ago") for span in _SPANS), start)
    if argument.name in _LISTED:
        return _fitting(await _LISTED[argument.name](scope), start)
    if argument.name in ("text", "error"):
        return [(start, argument.field.help)] if start else []
    return _fitting(await _recent(scope, many, argument.name), start)


async def _recent(scope: PageScope, many: str, name: str) -> Iterator[tuple[str, str]]:
    """Suggest values of the newest records."""
    if many not in ("runs", "events", "audit"):
        return iter(())
    page = await getattr(scope, many).page(limit=_RECENT)
    found: Counter[str] = Counter()
    for record in page.runs if many == "runs" else page.items:
        value = record.tags if name == "tag" else getattr(record, name, None)
        found.update(map(str, value if isinstance(value, list) else [value] if value else []))
    what = "entries" if many == "audit" else many
    return ((value, f"{times} of the newest {what}") for value, times in found.most_common())


async def _jobs(scope: PageScope) -> Values:
    return [(job.name, job.queue) for job in await scope.jobs.list()]


async def _queues(scope: PageScope) -> Values:
    return [(queue.name, f"{queue.queued:,} queued") for queue in await scope.queues.list()]


async def _workers(scope: PageScope) -> Values:
    return [(str(worker.id), worker.name) for worker in await scope.workers.list()]


async def _groups(scope: PageScope) -> Values:
    groups = await scope.errors.list(limit=100)
    return [(one.id, f"{one.error_type}: {one.error}"[:80]) for one in groups]


_LISTED: Mapping[str, Callable[[PageScope], Awaitable[Values]]] = {
    "job": _jobs,
    "queue": _queues,
    "worker": _workers,
    "error_group": _groups,
}


def _fitting(values: Values, start: str) -> list[tuple[str, str]]:
    """Return values that begin with the text first, then those that contain it."""
    low = start.lower()
    held = [value for value in values if low in value[0].lower()]
    return sorted(held, key=lambda one: not one[0].lower().startswith(low))[:_MOST]


routes = [Route("/complete/{many}", complete)]
