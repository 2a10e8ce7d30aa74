"""Actions on one run; a retry may edit the payload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import InputError
from rota.model.run import RunInfo
from rota.web.context import Page
from rota.web.forms import read_form, read_payload
from rota.web.operations import routes_of
from rota.web.page_scope import PageScope
from rota.web.words import refusal


@dataclass(frozen=True, slots=True)
class RetryQuestion(Page):
    """Confirms that a run is retried. `payload` can be edited."""

    template: ClassVar[str] = "runs/retry.html"
    section: ClassVar[str] = "runs"

    run: RunInfo
    path: str
    payload: str | None = None
    error: str | None = None

    @property
    def title(self) -> str:
        return f"Retry run {self.run.id}"


async def ask(request: Request) -> Response:
    scope = PageScope(request)
    run = await scope.runs.get(request.path_params["id"])
    is_edited = request.query_params.get("edit") == "1"
    payload = (await scope.runs.documents(run.id)).payload if is_edited else None
    return await scope.show(RetryQuestion(run, f"/runs/{run.id}", payload))


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
        question = RetryQuestion(run, f"/runs/{run_id}", given, refusal(error))
        return await scope.show(question, status=422)
    text = f"Run {run_id} was requeued"
    return scope.go(f"/runs/{run_id}", text if edited is None else f"{text} with a new payload")


routes = [
    Route("/runs/{id:int}/retry", ask),
    Route("/runs/{id:int}/retry", retry, methods=["POST"]),
    *routes_of("runs"),
]
