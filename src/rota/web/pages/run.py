"""One run: its life, its attempts, what it said, and what can be done with it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import PayloadError
from rota.model.attempt import AttemptInfo
from rota.model.details import Isolation, RunDetails
from rota.model.log import LogLine
from rota.model.run import RunInfo
from rota.web.context import Page
from rota.web.desk import WebDesk
from rota.web.forms import read_form, read_payload
from rota.web.frames import Part, parts_of
from rota.web.life import LifeStep, steps_of
from rota.web.run_words import can_cancel, can_delete, can_retry, counted

Endpoint = Callable[[Request], Awaitable[Response]]
_LOG_LINES = 500


@dataclass(frozen=True, slots=True)
class ShownAttempt:
    attempt: AttemptInfo
    trace: list[Part]


@dataclass(frozen=True, slots=True)
class RunDetailPage(Page):
    template: ClassVar[str] = "runs/one.html"
    section: ClassVar[str] = "runs"

    run: RunInfo
    path: str
    isolation: Isolation | None
    attempts: list[ShownAttempt]
    logs: list[LogLine]
    steps: list[LifeStep]
    used: int
    can_cancel: bool
    can_retry: bool
    can_delete: bool

    @property
    def title(self) -> str:
        return f"{self.run.job} {self.run.id}"


@dataclass(frozen=True, slots=True)
class RunQuestion(Page):
    """Asks before a run is cancelled, retried or deleted."""

    template: ClassVar[str] = "runs/question.html"
    section: ClassVar[str] = "runs"

    run: RunInfo
    path: str
    verb: str
    payload: str
    error: str | None = None

    @property
    def title(self) -> str:
        return f"{self.verb.capitalize()} run {self.run.id}"


async def show_run(request: Request) -> Response:
    desk, run_id = WebDesk(request), request.path_params["id"]
    details = await desk.runs.details(run_id, log_lines=_LOG_LINES)
    return await desk.show(_page(details, await desk.clock.now()))


def _page(details: RunDetails, now: datetime) -> RunDetailPage:
    run = details.run
    attempts = [
        ShownAttempt(one, parts_of(one.traceback) if one.traceback else [])
        for one in reversed(details.attempts)
    ]
    return RunDetailPage(
        run=run,
        path=f"/runs/{run.id}",
        isolation=details.isolation,
        attempts=attempts,
        logs=details.logs,
        steps=steps_of(run, details.attempts, now),
        used=counted(run),
        can_cancel=can_cancel(run),
        can_retry=can_retry(run),
        can_delete=can_delete(run),
    )


def asking(verb: str) -> Endpoint:
    async def ask(request: Request) -> Response:
        desk = WebDesk(request)
        run = await desk.runs.get(request.path_params["id"])
        payload = json.dumps(run.payload, indent=2, ensure_ascii=False)
        return await desk.show(RunQuestion(run, f"/runs/{run.id}", verb, payload))

    return ask


async def cancel(request: Request) -> Response:
    desk, run_id = WebDesk(request), request.path_params["id"]
    desk.check("runs.cancel")
    answer = await desk.runs.cancel(run_id, (await read_form(request)).text("reason"))
    said = (
        f"Run {run_id} is cancelled" if answer == "cancelled" else f"Run {run_id} is told to stop"
    )
    return desk.go(f"/runs/{run_id}", said)


async def retry(request: Request) -> Response:
    desk, run_id = WebDesk(request), request.path_params["id"]
    desk.check("runs.retry")
    form = await read_form(request)
    run = await desk.runs.get(run_id)
    given = form.get("payload", "")
    try:
        payload = read_payload(given)
        edited = None if payload == run.payload else payload
        await desk.runs.retry(run_id, form.text("reason"), payload=edited)
    except PayloadError as error:
        question = RunQuestion(run, f"/runs/{run_id}", "retry", given, str(error))
        return await desk.show(question, status=422)
    return desk.go(f"/runs/{run_id}", f"Run {run_id} goes back to work")


async def delete(request: Request) -> Response:
    desk, run_id = WebDesk(request), request.path_params["id"]
    desk.check("runs.delete")
    await desk.runs.delete(run_id, (await read_form(request)).text("reason"))
    return desk.go("/runs", f"Run {run_id} is deleted")


routes = [Route("/runs/{id:int}", show_run)]
for _verb, _act in (("cancel", cancel), ("retry", retry), ("delete", delete)):
    routes += [
        Route(f"/runs/{{id:int}}/{_verb}", asking(_verb)),
        Route(f"/runs/{{id:int}}/{_verb}", _act, methods=["POST"]),
    ]
