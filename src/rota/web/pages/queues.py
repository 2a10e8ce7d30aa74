"""Queues: what waits and runs in them; pause and resume."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.model.queue import QueueDetails
from rota.model.stats import Activity, Step
from rota.web.context import Page
from rota.web.desk import WebDesk
from rota.web.forms import read_form

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue in the list, with what ended in it in the last minute."""

    name: str
    path: str
    is_paused: bool
    pause: str | None
    waiting: int
    held: int
    scheduled: int
    running: int
    oldest_seconds: float | None
    per_minute: int
    workers: int

    @property
    def state(self) -> str:
        return "paused" if self.is_paused else "active"


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
    activity: Activity
    series: list[Step]

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
    error: str | None = None

    @property
    def title(self) -> str:
        return f"{self.verb.capitalize()} queue {self.details.queue.name}"


def path_of(name: str) -> str:
    return f"/queues/{quote(name, safe='')}"


async def list_queues(request: Request) -> Response:
    desk = WebDesk(request)
    seen = await desk.overview.get(limit=1)
    rows = [
        QueueRow(
            name=one.queue.name,
            path=path_of(one.queue.name),
            is_paused=one.queue.is_paused,
            pause=_pause(one.queue.paused_by, one.queue.pause_reason),
            waiting=one.queue.queued,
            held=one.queue.held,
            scheduled=one.queue.scheduled,
            running=one.queue.running,
            oldest_seconds=one.queue.oldest_seconds,
            per_minute=round(one.per_second * 60),
            workers=one.queue.workers,
        )
        for one in seen.queues
    ]
    return await desk.show(QueuesPage(rows))


def _pause(by: str | None, reason: str | None) -> str | None:
    if by is None:
        return None
    return f"by {by}: {reason}" if reason else f"by {by}"


async def show_queue(request: Request) -> Response:
    desk = WebDesk(request)
    name = desk.name()
    details = await desk.queues.get(name)
    stats = await desk.stats.get(queue=name, most_jobs=1)
    return await desk.show(QueuePage(details, path_of(name), stats.total, stats.series))


def asking(verb: str) -> Endpoint:
    async def ask(request: Request) -> Response:
        desk = WebDesk(request)
        details = await desk.queues.get(desk.name())
        return await desk.show(QueueQuestion(details, path_of(desk.name()), verb))

    return ask


async def pause(request: Request) -> Response:
    desk = WebDesk(request)
    name = desk.name()
    desk.check("queues.pause")
    reason = (await read_form(request)).text("reason")
    if reason is None:
        error = "Say why: whoever finds the queue paused will want to know."
        details = await desk.queues.get(name)
        return await desk.show(QueueQuestion(details, path_of(name), "pause", error), status=422)
    await desk.queues.pause(name, reason)
    return desk.go(path_of(name), f"Queue {name} is paused")


async def resume(request: Request) -> Response:
    desk = WebDesk(request)
    name = desk.name()
    desk.check("queues.resume")
    await desk.queues.resume(name, (await read_form(request)).text("reason"))
    return desk.go(path_of(name), f"Queue {name} goes on")


routes = [
    Route("/queues", list_queues),
    Route("/queues/{name}", show_queue),
    Route("/queues/{name}/pause", asking("pause")),
    Route("/queues/{name}/pause", pause, methods=["POST"]),
    Route("/queues/{name}/resume", asking("resume")),
    Route("/queues/{name}/resume", resume, methods=["POST"]),
]
