"""Queues: what waits and runs in them; pause and resume; how many may wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, cast
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import InputError, TimingError
from rota.model.queue import QueueDetails
from rota.model.trend import Trend
from rota.web import words
from rota.web.context import Page
from rota.web.forms import read_form, read_time
from rota.web.page_scope import PageScope, zone_of
from rota.web.plots import Plot
from rota.web.refusals import refusal
from rota.web.trend_plots import SPANS, plots_of
from rota.web.why import WhyPanel, why_of

Endpoint = Callable[[Request], Awaitable[Response]]
WHEN_FULL = {
    "refuse": "new runs are refused",
    "drop_lowest": "the runs with the lowest priority are dropped",
}


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue in the list, with what ended in it in the last minute."""

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

    @property
    def title(self) -> str:
        return self.details.queue.name


@dataclass(frozen=True, slots=True)
class QueueQuestion(Page):
    """Asks before a queue is paused or resumed; says what that means for what waits."""

    template: ClassVar[str] = "queues/question.html"
    section: ClassVar[str] = "queues"

    details: QueueDetails
    path: str
    verb: str
    reason: str = ""
    until: str = ""
    error: str | None = None
    time_error: str | None = None

    @property
    def title(self) -> str:
        return f"{self.verb.capitalize()} queue {self.details.queue.name}"


@dataclass(frozen=True, slots=True)
class CapQuestion(Page):
    """Asks how many runs may wait in a queue."""

    template: ClassVar[str] = "queues/cap.html"
    section: ClassVar[str] = "queues"

    details: QueueDetails
    path: str
    max_waiting: str
    when_full: str
    reason: str = ""
    error: str | None = None
    reason_error: str | None = None
    choices: ClassVar[dict[str, str]] = WHEN_FULL

    @property
    def title(self) -> str:
        return f"Cap of queue {self.details.queue.name}"


def path_of(name: str) -> str:
    return f"/queues/{quote(name, safe='')}"


async def list_queues(request: Request) -> Response:
    scope = PageScope(request)
    rows = [
        QueueRow(
            name=one.queue.name,
            path=path_of(one.queue.name),
            is_paused=one.queue.is_paused,
            pause=_pause(one.queue.paused_by, one.queue.pause_reason),
            paused_until=one.queue.paused_until,
            waiting=one.queue.queued,
            held=one.queue.held,
            scheduled=one.queue.scheduled,
            running=one.queue.running,
            oldest_seconds=one.queue.oldest_seconds,
            per_minute=round(one.per_second * 60),
            workers=one.queue.workers,
            cap=one.queue.max_waiting,
            is_full=one.queue.full_since is not None,
        )
        for one in await scope.overview.queues()
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
    return await scope.show(QueuePage(details, path_of(name), why, span, SPANS, trend, plots))


def asking(verb: str) -> Endpoint:
    async def ask(request: Request) -> Response:
        scope = PageScope(request)
        details = await scope.queues.get(scope.name())
        return await scope.show(QueueQuestion(details, path_of(scope.name()), verb))

    return ask


async def pause(request: Request) -> Response:
    scope = PageScope(request)
    name = scope.name()
    scope.check("queues.pause")
    form = await read_form(request)
    reason, until = form.text("reason"), form.text("until")
    if reason is None:
        error = "Enter a reason. It is shown while the queue is paused."
        return await _ask_again(scope, until=until or "", error=error)
    try:
        is_changed = await scope.queues.pause(name, reason, read_time(until, zone_of(request)))
    except TimingError as error:
        return await _ask_again(scope, reason=reason, until=until or "", time_error=refusal(error))
    return scope.go(path_of(name), f"Queue {name} {'is' if is_changed else 'was already'} paused")


async def _ask_again(scope: PageScope, **given: str) -> Response:
    details = await scope.queues.get(scope.name())
    question = QueueQuestion(details, path_of(scope.name()), "pause", **given)
    return await scope.show(question, status=422)


async def resume(request: Request) -> Response:
    scope = PageScope(request)
    name = scope.name()
    scope.check("queues.resume")
    is_changed = await scope.queues.resume(name, (await read_form(request)).text("reason"))
    return scope.go(
        path_of(name), f"Queue {name} {'is resumed' if is_changed else 'was not paused'}"
    )


async def ask_cap(request: Request) -> Response:
    scope = PageScope(request)
    details = await scope.queues.get(scope.name())
    most = details.queue.max_waiting
    text = "" if most is None else str(most)
    page = CapQuestion(details, path_of(scope.name()), text, details.queue.when_full)
    return await scope.show(page)


async def set_cap(request: Request) -> Response:
    scope = PageScope(request)
    name = scope.name()
    scope.check("queues.set")
    form = await read_form(request)
    text, when_full = form.text("max_waiting") or "", form.text("when_full") or "refuse"
    reason = form.text("reason")
    error: str | None = None
    missing = None if reason else "Enter a reason. It is kept in the audit."
    if missing is None and form.get("reset") == "1":
        await scope.queues.reset(name, reason)
        return scope.go(path_of(name), f"The cap of queue {name} is reset to the code")
    if missing is None:
        try:
            found = await scope.queues.set(
                name, reason, max_waiting=_whole(text), when_full=cast(Any, when_full)
            )
            most = found.max_waiting
            told = "Any number of runs" if most is None else words.plural(most, "run")
            return scope.go(path_of(name), f"{told} may wait in queue {name}")
        except InputError as refused:
            error = refusal(refused)
    details = await scope.queues.get(name)
    again = CapQuestion(
        details, path_of(name), text, when_full, reason or "", error, missing
    )  # fmt: skip
    return await scope.show(again, status=422)


def _whole(text: str) -> int | None:
    """Empty: no cap."""
    if not text:
        return None
    try:
        return int(text.replace(",", "").replace("_", ""))
    except ValueError:
        raise InputError(f"the cap must be a whole number, not {text!r}") from None


routes = [
    Route("/queues", list_queues),
    Route("/queues/{name}", show_queue),
    Route("/queues/{name}/pause", asking("pause")),
    Route("/queues/{name}/pause", pause, methods=["POST"]),
    Route("/queues/{name}/resume", asking("resume")),
    Route("/queues/{name}/resume", resume, methods=["POST"]),
    Route("/queues/{name}/cap", ask_cap),
    Route("/queues/{name}/cap", set_cap, methods=["POST"]),
]
