"""Suggestions for the filter of the list of runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.model.states import RUN_STATES
from rota.web.context import Page
from rota.web.page_scope import PageScope, zone_of
from rota.web.run_query import KEYS, TIMES, RunQuery

_MOST = 8
_MEANT = {
    "state": "its state", "job": "its job", "queue": "its queue",
    "tag": "one of its tags", "tenant": "its tenant", "key": "its idempotency key",
    "schedule": "its schedule", "since": "created within this time",
    "until": "created before this time", "ended_since": "finished within this time",
    "ended_until": "finished before this time", "worker": "the worker that ran it",
    "text": "text in its payload or error", "error": "text in its error",
    "group": "its error group", "payload": "a payload field and its value",
    "handled": "whether it was handled",
}  # fmt: skip
_PLACES = {
    "text": "in payload or error", "error": "in the error", "payload": "in the payload",
}  # fmt: skip
_SPANS = ("15min", "1h", "24h", "7d", "30d")
# How many of the newest runs are read to find values that no table lists.
_RECENT = 200


@dataclass(frozen=True, slots=True)
class Offer:
    """`path` is the list filtered by this value; without it the user continues typing."""

    key: str
    value: str
    path: str | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class CompletionPage(Page):
    template: ClassVar[str] = "runs/complete.html"
    section: ClassVar[str] = "runs"

    offers: list[Offer]

    @property
    def title(self) -> str:
        return "Filters"


async def complete(request: Request) -> Response:
    scope = PageScope(request)
    query = RunQuery.read(request.query_params, zone_of(request))
    word = request.query_params.get("q", "").split(" ")[-1][:200]
    key, colon, start = word.partition(":")
    if colon and key in KEYS:
        values = await _values(scope, key, start.strip('"'))
        offers = [Offer(key, value, query.plus(key, value), note) for value, note in values]
    elif word.isdecimal():
        offers = [Offer("run", word, f"/runs/{word[:18]}", "open this run")]
    else:
        keys = [name for name in KEYS if name.startswith(word.lower())]
        offers = [Offer(name, "", None, _MEANT.get(name, "")) for name in keys]
        if word:
            jobs = await _values(scope, "job", word)
            offers += [Offer("job", name, query.plus("job", name), note) for name, note in jobs]
            offers = [
                *offers[: _MOST - 1],
                Offer("text", word, query.plus("text", word), "in payload or error"),
            ]
    return await scope.show(CompletionPage(offers[: len(KEYS)]))


async def _values(scope: PageScope, key: str, start: str) -> list[tuple[str, str]]:
    if key == "state":
        return _fitting(((state, "") for state in RUN_STATES), start)
    if key == "handled":
        return _fitting((("no", "failed, not handled"), ("yes", "failed, handled")), start)
    if key == "group":
        groups = await scope.errors.list(limit=100)
        return _fitting(((one.id, f"{one.error_type}: {one.error}"[:80]) for one in groups), start)
    if key == "worker":
        workers = await scope.workers.list()
        return _fitting(((str(worker.id), worker.name) for worker in workers), start)
    if key in _PLACES:
        is_whole = bool(start) and (key != "payload" or "=" in start or ":" in start)
        return [(start, _PLACES[key])] if is_whole else []
    if key in TIMES:
        return _fitting(((span, "ago") for span in _SPANS), start)
    if key == "job":
        return _fitting(((job.name, job.queue) for job in await scope.jobs.list()), start)
    if key == "queue":
        queues = await scope.queues.list()
        return _fitting(((queue.name, f"{queue.queued:,} queued") for queue in queues), start)
    return _fitting(await _recent(scope, key), start)


async def _recent(scope: PageScope, key: str) -> Iterable[tuple[str, str]]:
    """Suggest values of the newest runs."""
    found: Counter[str] = Counter()
    for run in (await scope.runs.page(limit=_RECENT)).runs:
        value = run.tags if key == "tag" else getattr(run, key, None)
        found.update(value if isinstance(value, list) else [value] if value else [])
    return [(value, f"{runs} of the newest runs") for value, runs in found.most_common()]


def _fitting(values: Iterable[tuple[str, str]], start: str) -> list[tuple[str, str]]:
    """Return values that begin with the text first, then those that contain it."""
    low = start.lower()
    held = [value for value in values if low in value[0].lower()]
    return sorted(held, key=lambda one: not one[0].lower().startswith(low))[:_MOST]


routes = [Route("/runs/complete", complete)]
