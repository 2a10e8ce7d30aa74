"""Bulk actions: their progress and history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.api.schemas.values import read_cursor
from rota.model.audit import AuditEntry
from rota.model.bulk_action import BulkAction
from rota.model.cursors import write_cursor
from rota.web.context import Page
from rota.web.filters.runs import RunQuery
from rota.web.operations import routes_of
from rota.web.page_scope import PageScope

PAGE_SIZE = 50
_KIND = "bulk"


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

    @property
    def title(self) -> str:
        return f"{self.shown.action.verb.capitalize()} runs, bulk action {self.shown.action.id}"


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
    scope, action_id = PageScope(request), request.path_params["id"]
    action = await scope.bulk.get(action_id)
    deeds = await scope.audit.list(object_type="bulk", object_id=str(action_id), order="oldest")
    return await scope.show(BulkPage(ShownAction.of(action), deeds))


routes = [
    Route("/bulk", list_actions),
    Route("/bulk/{id:int}", show_action),
    *routes_of("bulk"),
]
