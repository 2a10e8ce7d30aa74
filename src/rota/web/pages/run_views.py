"""Saving the filter of the list of runs as a view, and deleting a view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import FilterError
from rota.web.context import Page
from rota.web.filters.runs import RunQuery
from rota.web.forms import read_form
from rota.web.page_scope import PageScope, zone_of
from rota.web.words import refusal


@dataclass(frozen=True, slots=True)
class ViewQuestion(Page):
    """Asks for the name of a view, or confirms its deletion."""

    template: ClassVar[str] = "runs/view.html"
    section: ClassVar[str] = "runs"

    query: RunQuery
    name: str
    is_deleting: bool
    action: str
    error: str | None = None

    @property
    def title(self) -> str:
        return f"Delete view {self.name}" if self.is_deleting else "Save a view"


async def ask_save(request: Request) -> Response:
    query = RunQuery.read(request.query_params, zone_of(request))
    return await PageScope(request).show(ViewQuestion(query, "", False, "/runs/views"))


async def save(request: Request) -> Response:
    scope, form = PageScope(request), await read_form(request)
    scope.check("views.save")
    query = RunQuery.read(QueryParams(form.pairs), zone_of(request))
    name = form.get("name", "").strip()
    try:
        query.checked()
        await scope.views.save(name, query.path().partition("?")[2], form.text("reason"))
    except FilterError as error:
        question = ViewQuestion(query, name, False, "/runs/views", refusal(error))
        return await scope.show(question, status=422)
    return scope.go(query.path(), f"View {name} is saved")


async def ask_delete(request: Request) -> Response:
    scope = PageScope(request)
    name = scope.name()
    views = {view.name: view for view in await scope.views.list()}
    query = RunQuery.read(QueryParams(views[name].query if name in views else ""))
    path = request.url.path.removeprefix(scope.root)
    return await scope.show(ViewQuestion(query, name, True, path))


async def delete(request: Request) -> Response:
    scope = PageScope(request)
    scope.check("views.delete")
    form = await read_form(request)
    await scope.views.delete(scope.name(), form.text("reason"))
    return scope.go("/runs", f"View {scope.name()} is deleted")


routes = [
    Route("/runs/views", ask_save),
    Route("/runs/views", save, methods=["POST"]),
    Route("/runs/views/{name}/delete", ask_delete),
    Route("/runs/views/{name}/delete", delete, methods=["POST"]),
]
