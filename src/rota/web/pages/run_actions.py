"""Actions on one run, each after a confirmation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import InputError
from rota.model.run import RunInfo
from rota.web.context import Page
from rota.web.forms import read_form, read_payload
from rota.web.page_scope import PageScope
from rota.web.refusals import refusal

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class RunQuestion(Page):
    """Confirms that a run is cancelled, retried or deleted. `payload` can be edited."""

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
        scope = PageScope(request)
        run = await scope.runs.get(request.path_params["id"])
        payload = None
        if verb == "retry" and request.query_params.get("edit") == "1":
            payload = (await scope.runs.documents(run.id)).payload
        return await scope.show(RunQuestion(run, f"/runs/{run.id}", verb, payload))

    return ask


async def cancel(request: Request) -> Response:
    scope, run_id = PageScope(request), request.path_params["id"]
    scope.check("runs.cancel")
    answer = await scope.runs.cancel(run_id, (await read_form(request)).text("reason"))
    text = (
        f"Run {run_id} is cancelled" if answer == "cancelled" else f"Run {run_id} was asked to stop"
    )
    return scope.go(f"/runs/{run_id}", text)


async def _edited(scope: PageScope, run: RunInfo, text: str) -> dict[str, Any] | None:
    """Return the typed payload; None if it is the run's own, whatever digits its numbers have."""
    text = text.replace("\r\n", "\n").strip()
    if not text or text == (await scope.runs.documents(run)).payload:
        return None
    payload = read_payload(text)
    return None if payload == run.payload else payload


async def retry(request: Request) -> Response:
    scope, run_id = PageScope(request), request.path_params["id"]
    scope.check("runs.retry")
    form = await read_form(request)
    given, run = form.get("payload", ""), await scope.runs.get(run_id)
    try:
        edited = await _edited(scope, run, given)
        await scope.runs.retry(run_id, form.text("reason"), payload=edited)
    except InputError as error:
        question = RunQuestion(run, f"/runs/{run_id}", "retry", given, refusal(error))
        return await scope.show(question, status=422)
    text = f"Run {run_id} was requeued"
    return scope.go(f"/runs/{run_id}", text if edited is None else f"{text} with a new payload")


async def delete(request: Request) -> Response:
    scope, run_id = PageScope(request), request.path_params["id"]
    scope.check("runs.delete")
    await scope.runs.delete(run_id, (await read_form(request)).text("reason"))
    return scope.go("/runs", f"Run {run_id} is deleted")


routes = []
for _verb, _act in (("cancel", cancel), ("retry", retry), ("delete", delete)):
    routes += [
        Route(f"/runs/{{id:int}}/{_verb}", asking(_verb)),
        Route(f"/runs/{{id:int}}/{_verb}", _act, methods=["POST"]),
    ]
