"""Cleanup: which expired rows are deleted and when; what is done with cleanups is declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import InputError
from rota.model.cleanup import CleanupCount, CleanupInfo, RecipeInfo
from rota.web.context import Page
from rota.web.operations import path_of, routes_of
from rota.web.page_scope import PageScope
from rota.web.pages.schedules import path_of as schedule_path
from rota.web.words import refusal
from rota.web.zones import NAMES


@dataclass(frozen=True, slots=True)
class CleanupsPage(Page):
    template: ClassVar[str] = "cleanup/list.html"
    section: ClassVar[str] = "cleanup"

    cleanups: list[tuple[CleanupInfo, str]]
    recipes: list[RecipeInfo]

    @property
    def title(self) -> str:
        return "Cleanup"


@dataclass(frozen=True, slots=True)
class CleanupPage(Page):
    """`counts` is None until it is requested: counting reads the tables."""

    template: ClassVar[str] = "cleanup/one.html"
    section: ClassVar[str] = "cleanup"

    cleanup: CleanupInfo
    path: str
    schedule_path: str
    counts: list[CleanupCount] | None
    error: str | None = None

    @property
    def title(self) -> str:
        return self.cleanup.name


async def list_cleanups(request: Request) -> Response:
    scope = PageScope(request)
    found = [(one, path_of("cleanup", one.name)) for one in await scope.cleanup.list()]
    return await scope.show(CleanupsPage(found, await scope.cleanup.recipes()))


async def show_cleanup(request: Request) -> Response:
    scope = PageScope(request)
    found = await scope.cleanup.get(scope.name())
    path, counts, error = path_of("cleanup", found.name), None, None
    if "count" in request.query_params:
        try:
            counts = await scope.cleanup.plan(found.name)
        except InputError as refused:
            error = refusal(refused)
    page = CleanupPage(found, path, schedule_path(found.name, ""), counts, error)
    return await scope.show(page)


async def _suggest(scope: PageScope) -> Mapping[str, Sequence[str]]:
    tables = await scope.cleanup.tables()
    return {
        "table": [one.name for one in tables],
        "column": sorted({column for one in tables for column in one.times}),
        "timezone": NAMES,
    }


async def _suggest_recipe(scope: PageScope) -> Mapping[str, Sequence[str]]:
    found = await scope.cleanup.recipes()
    return {"recipe": [it.name for it in found], "prefix": sorted({it.prefix for it in found})}


routes = [
    Route("/cleanup", list_cleanups),
    *routes_of("cleanup", suggests={"add": _suggest, "add_recipe": _suggest_recipe}),
    Route("/cleanup/{name}", show_cleanup),
]
