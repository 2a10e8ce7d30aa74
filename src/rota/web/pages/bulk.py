"""Bulk actions: their progress and history; throttle, pause, resume, stop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.api.schemas.values import read_cursor
from rota.errors import FilterError
from rota.model.audit import AuditEntry
from rota.model.bulk_action import BulkAction
from rota.model.cursors import write_cursor
from rota.web.context import Page
from rota.web.forms import read_form
from rota.web.page_scope import PageScope
from rota.web.refusals import refusal
from rota.web.run_query import RunQuery

Endpoint = Callable[[Request], Awaitable[Response]]
PAGE_SIZE = 50
_KIND = "bulk"
_SAID = {"pause": "is paused", "resume": "is resumed", "stop": "is stopped"}


@dataclass(frozen=True, slots=True)
class ShownAction:
    action: BulkAction
    path: str
    query: RunQuery

    @classmethod
    def of(cls, action: BulkAction) -> ShownAction:
        return cls(action, f"/bulk/{action.id}", RunQuery.of(action.filter))


@dataclass(frozen=True, slots=True)
class BulkListPage(Page):
    template: ClassVar[str] = "bulk/list.html"
    section: ClassVar[str] = "runs"

    actions: list[ShownAction]
    is_first: bool
    next: str | None

    @property
    def title(self) -> str:
        return "Bulk actions"


@dataclass(frozen=True, slots=True)
class BulkPage(Page):
    template: ClassVar[str] = "bulk/one.html"
    section: ClassVar[str] = "runs"

    shown: ShownAction
    deeds: list[AuditEntry]
    error: str | None = None

    @property
    def title(self) -> str:
        return f"{self.shown.action.verb.capitalize()} runs, bulk action {self.shown.action.id}"


@dataclass(frozen=True, slots=True)
class BulkQuestion(Page):
    template: ClassVar[str] = "bulk/question.html"
    section: ClassVar[str] = "runs"

    shown: ShownAction
    verb: str

    @property
    def title(self) -> str:
        return f"{self.verb.capitalize()} bulk action {self.shown.action.id}"


async def list_actions(request: Request) -> Response:
    scope = PageScope(request)
    given = request.query_params.get("cursor")
    found = await scope.bulk.page(limit=PAGE_SIZE, cursor=read_cursor(_KIND, given, int))
    cursor = None if found.cursor is None else write_cursor(_KIND, found.cursor)
    page = BulkListPage(
        actions=[ShownAction.of(action) for action in found.items],
        is_first=given is None,
        next=None if cursor is None else f"/bulk?cursor={cursor}",
    )
    return await scope.show(page)


async def show_action(request: Request) -> Response:
    return await _show(PageScope(request), request.path_params["id"])


async def _show(scope: PageScope, action_id: int, error: str | None = None) -> Response:
    action = await scope.bulk.get(action_id)
    deeds = await scope.audit.list(object_type="bulk", object_id=str(action_id), order="oldest")
    page = BulkPage(ShownAction.of(action), deeds, error)
    return await scope.show(page, status=422 if error else 200)


def asking(verb: str) -> Endpoint:
    async def ask(request: Request) -> Response:
        scope = PageScope(request)
        action = await scope.bulk.get(request.path_params["id"])
        return await scope.show(BulkQuestion(ShownAction.of(action), verb))

    return ask


def steering(verb: str) -> Endpoint:
    async def steer(request: Request) -> Response:
        scope, action_id = PageScope(request), request.path_params["id"]
        scope.check(f"bulk.{verb}")
        reason = (await read_form(request)).text("reason")
        step = {"pause": scope.bulk.pause, "resume": scope.bulk.resume, "stop": scope.bulk.stop}
        await step[verb](action_id, reason)
        return scope.go(f"/bulk/{action_id}", f"Bulk action {action_id} {_SAID[verb]}")

    return steer


async def throttle(request: Request) -> Response:
    scope, action_id = PageScope(request), request.path_params["id"]
    scope.check("bulk.throttle")
    form = await read_form(request)
    text = form.text("rate")
    try:
        await scope.bulk.throttle(action_id, None if text is None else float(text))
    except ValueError:
        return await _show(scope, action_id, "Enter a number of runs per second, such as 50.")
    except FilterError as error:
        return await _show(scope, action_id, refusal(error))
    words = "has no rate limit" if text is None else f"is limited to {text} runs per second"
    return scope.go(f"/bulk/{action_id}", f"Bulk action {action_id} {words}")


routes = [
    Route("/bulk", list_actions),
    Route("/bulk/{id:int}", show_action),
    Route("/bulk/{id:int}/throttle", throttle, methods=["POST"]),
]
for _verb in _SAID:
    routes += [
        Route(f"/bulk/{{id:int}}/{_verb}", asking(_verb)),
        Route(f"/bulk/{{id:int}}/{_verb}", steering(_verb), methods=["POST"]),
    ]
