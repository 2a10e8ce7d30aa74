"""What can be done with one run, each after a question."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import PayloadError
from rota.model.run import RunInfo
from rota.web.context import Page
from rota.web.desk import WebDesk
from rota.web.forms import read_form, read_payload

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class RunQuestion(Page):
    """Asks before a run is cancelled, retried or deleted. `payload` is there to be edited."""

    template: ClassVar[str] = "runs/question.html"
    section: ClassVar[str] = "runs"

    run: RunInfo
    path: str
    verb: str
    payload: str | None = None
    error: str | None = None

    @property
    def title(self) -> str:
        return f"{self.verb.capitalize()} run {self.run.id}"


def asking(verb: str) -> Endpoint:
    async def ask(request: Request) -> Response:
        desk = WebDesk(request)
        run = await desk.runs.get(request.path_params["id"])
        payload = None
        if verb == "retry" and request.query_params.get("edit") == "1":
            payload = (await desk.runs.documents(run.id)).payload
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


async def _edited(desk: WebDesk, run: RunInfo, text: str) -> dict[str, Any] | None:
    """The payload that somebody typed; None where it is the run's own, whatever digits it has."""
    text = text.replace("\r\n", "\n").strip()
    if not text or text == (await desk.runs.documents(run)).payload:
        return None
    payload = read_payload(text)
    return None if payload == run.payload else payload


async def retry(request: Request) -> Response:
    desk, run_id = WebDesk(request), request.path_params["id"]
    desk.check("runs.retry")
    form = await read_form(request)
    given, run = form.get("payload", ""), await desk.runs.get(run_id)
    try:
        edited = await _edited(desk, run, given)
        await desk.runs.retry(run_id, form.text("reason"), payload=edited)
    except PayloadError as error:
        question = RunQuestion(run, f"/runs/{run_id}", "retry", given, str(error))
        return await desk.show(question, status=422)
    said = f"Run {run_id} goes back to work"
    return desk.go(f"/runs/{run_id}", said if edited is None else f"{said} with another payload")


async def delete(request: Request) -> Response:
    desk, run_id = WebDesk(request), request.path_params["id"]
    desk.check("runs.delete")
    await desk.runs.delete(run_id, (await read_form(request)).text("reason"))
    return desk.go("/runs", f"Run {run_id} is deleted")


routes = []
for _verb, _act in (("cancel", cancel), ("retry", retry), ("delete", delete)):
    routes += [
        Route(f"/runs/{{id:int}}/{_verb}", asking(_verb)),
        Route(f"/runs/{{id:int}}/{_verb}", _act, methods=["POST"]),
    ]
