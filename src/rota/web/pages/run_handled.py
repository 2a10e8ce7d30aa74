"""Marking a failed run as handled, and reopening it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.model.run import RunInfo
from rota.web.context import Page
from rota.web.forms import read_form
from rota.web.page_scope import PageScope

Endpoint = Callable[[Request], Awaitable[Response]]
_SAID = {"handle": "is handled", "reopen": "is reopened"}


@dataclass(frozen=True, slots=True)
class HandledQuestion(Page):
    template: ClassVar[str] = "runs/handled.html"
    section: ClassVar[str] = "runs"

    run: RunInfo
    path: str
    verb: str

    @property
    def title(self) -> str:
        return f"{self.verb.capitalize()} run {self.run.id}"


def asking(verb: str) -> Endpoint:
    async def ask(request: Request) -> Response:
        scope = PageScope(request)
        run = await scope.runs.get(request.path_params["id"])
        return await scope.show(HandledQuestion(run, f"/runs/{run.id}", verb))

    return ask


def doing(verb: str) -> Endpoint:
    async def do(request: Request) -> Response:
        scope, run_id = PageScope(request), request.path_params["id"]
        scope.check(f"runs.{verb}")
        reason = (await read_form(request)).text("reason")
        await (scope.runs.handle if verb == "handle" else scope.runs.reopen)(run_id, reason)
        return scope.go(f"/runs/{run_id}", f"Run {run_id} {_SAID[verb]}")

    return do


routes = [
    Route("/runs/{id:int}/handle", asking("handle")),
    Route("/runs/{id:int}/handle", doing("handle"), methods=["POST"]),
    Route("/runs/{id:int}/reopen", asking("reopen")),
    Route("/runs/{id:int}/reopen", doing("reopen"), methods=["POST"]),
]
