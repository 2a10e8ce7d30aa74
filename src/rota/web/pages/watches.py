"""Watched tables, and the jobs that are bound to events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.model.event import BindingInfo
from rota.model.table_watch import WatchInfo
from rota.web.context import Page
from rota.web.operations import routes_of
from rota.web.page_scope import PageScope


@dataclass(frozen=True, slots=True)
class WatchesPage(Page):
    template: ClassVar[str] = "events/watches.html"
    section: ClassVar[str] = "events"

    watches: list[WatchInfo]
    bindings: list[BindingInfo]

    @property
    def title(self) -> str:
        return "Watched tables"


async def list_watches(request: Request) -> Response:
    scope = PageScope(request)
    return await _show(scope, await scope.watches.list())


async def show_watch(request: Request) -> Response:
    """The same page, with this watch only."""
    scope = PageScope(request)
    number = min(request.path_params["id"], 2**63 - 1)
    return await _show(scope, [await scope.watches.get(number)])


async def _show(scope: PageScope, found: list[WatchInfo]) -> Response:
    return await scope.show(WatchesPage(found, await scope.events.bindings()))


routes = [
    Route("/watches", list_watches),
    *routes_of("watches"),
    Route("/watches/{id:int}", show_watch),
]
