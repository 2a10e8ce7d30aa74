"""Cleanup: which expired rows are deleted and when; add, count, run, remove."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import InputError, TemplateNotFound, TimingError, WrongState
from rota.model.cleanup import CleanupCount, CleanupInfo, CleanupTable, RecipeInfo
from rota.web.cleanup_form import UNITS, CleanupDraft, age_of, read_cleanup
from rota.web.context import Page
from rota.web.forms import read_form
from rota.web.page_scope import PageScope
from rota.web.pages.schedules import path_of as schedule_path
from rota.web.refusals import refusal
from rota.web.zones import NAMES

_REASON = "Enter a reason. Deleted rows cannot be restored."


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


@dataclass(frozen=True, slots=True)
class CleanupEditor(Page):
    template: ClassVar[str] = "cleanup/edit.html"
    section: ClassVar[str] = "cleanup"

    draft: CleanupDraft
    tables: list[CleanupTable]
    error: str | None = None
    units: ClassVar[dict[str, int]] = UNITS
    zones: ClassVar[tuple[str, ...]] = NAMES

    @property
    def title(self) -> str:
        return "New cleanup"

    @property
    def columns(self) -> list[str]:
        return sorted({column for table in self.tables for column in table.times})


@dataclass(frozen=True, slots=True)
class CleanupQuestion(Page):
    """Confirms the removal or the immediate run of a cleanup."""

    template: ClassVar[str] = "cleanup/question.html"
    section: ClassVar[str] = "cleanup"

    cleanup: CleanupInfo
    path: str
    verb: str
    error: str | None = None

    @property
    def title(self) -> str:
        return f"{self.verb.capitalize()} cleanup {self.cleanup.name}"


@dataclass(frozen=True, slots=True)
class RecipeQuestion(Page):
    template: ClassVar[str] = "cleanup/recipe.html"
    section: ClassVar[str] = "cleanup"

    recipe: RecipeInfo
    error: str | None = None

    @property
    def title(self) -> str:
        return f"Add {self.recipe.name}"


def path_of(name: str) -> str:
    return f"/cleanup/{quote(name, safe='')}"


async def list_cleanups(request: Request) -> Response:
    scope = PageScope(request)
    found = [(rule, path_of(rule.name)) for rule in await scope.cleanup.list()]
    return await scope.show(CleanupsPage(found, await scope.cleanup.recipes()))


async def show_cleanup(request: Request) -> Response:
    scope = PageScope(request)
    found = await scope.cleanup.get(scope.name())
    counts, error = None, None
    if "count" in request.query_params:
        try:
            counts = await scope.cleanup.plan(found.name)
        except InputError as refused:
            error = refusal(refused)
    page = CleanupPage(found, path_of(found.name), schedule_path(found.name, ""), counts, error)
    return await scope.show(page)


async def new(request: Request) -> Response:
    return await _edit(PageScope(request), CleanupDraft())


async def _edit(scope: PageScope, draft: CleanupDraft, error: str | None = None) -> Response:
    page = CleanupEditor(draft, await scope.cleanup.tables(), error)
    return await scope.show(page, status=422 if error else 200)


async def create(request: Request) -> Response:
    scope = PageScope(request)
    scope.check("cleanup.add")
    draft = read_cleanup(await read_form(request))
    if not draft.reason:
        return await _edit(scope, draft, _REASON)
    try:
        made = await scope.cleanup.add(
            draft.table, column=draft.column, older_than=age_of(draft), where=draft.where,
            name=draft.name or None, cron=draft.cron, timezone=draft.timezone, reason=draft.reason,
        )  # fmt: skip
    except (InputError, TimingError, WrongState) as refused:
        return await _edit(scope, draft, refusal(refused))
    return scope.go(path_of(made.name), f"Cleanup {made.name} is added")


async def ask_recipe(request: Request) -> Response:
    scope = PageScope(request)
    return await scope.show(RecipeQuestion(await _recipe(scope)))


async def use_recipe(request: Request) -> Response:
    scope = PageScope(request)
    scope.check("cleanup.add")
    recipe, reason = await _recipe(scope), (await read_form(request)).text("reason")
    error = None if reason else _REASON
    if error is None:
        try:
            made = await scope.cleanup.add_recipe(recipe.name, prefix=recipe.prefix, reason=reason)
            return scope.go(path_of(made.name), f"Cleanup {made.name} is added")
        except WrongState as refused:
            error = refusal(refused)
    return await scope.show(RecipeQuestion(recipe, error), status=422)


async def _recipe(scope: PageScope) -> RecipeInfo:
    name, prefix = scope.name(), scope.request.query_params.get("prefix")
    for recipe in await scope.cleanup.recipes():
        if recipe.name == name and prefix in (None, recipe.prefix):
            return recipe
    raise TemplateNotFound(f'recipe "{name}" does not match the tables of this database')


async def ask_run(request: Request) -> Response:
    return await _ask(PageScope(request), "run")


async def ask_remove(request: Request) -> Response:
    return await _ask(PageScope(request), "remove")


async def _ask(scope: PageScope, verb: str, error: str | None = None) -> Response:
    found = await scope.cleanup.get(scope.name())
    page = CleanupQuestion(found, path_of(found.name), verb, error)
    return await scope.show(page, status=422 if error else 200)


async def run(request: Request) -> Response:
    scope = PageScope(request)
    scope.check("cleanup.run")
    reason = (await read_form(request)).text("reason")
    done = await scope.cleanup.run(scope.name(), reason=reason)
    text = f"Run {done.run_id} of {done.schedule} is enqueued"
    return scope.go(path_of(done.schedule), text, see=f"/runs/{done.run_id}")


async def remove(request: Request) -> Response:
    scope = PageScope(request)
    scope.check("cleanup.remove")
    name, reason = scope.name(), (await read_form(request)).text("reason")
    try:
        await scope.cleanup.remove(name, reason=reason)
    except WrongState as refused:
        return await _ask(scope, "remove", refusal(refused))
    return scope.go("/cleanup", f"Cleanup {name} is removed")


routes = [
    Route("/cleanup", list_cleanups),
    Route("/cleanup/new", new),
    Route("/cleanup/new", create, methods=["POST"]),
    Route("/cleanup/recipes/{name}", ask_recipe),
    Route("/cleanup/recipes/{name}", use_recipe, methods=["POST"]),
    Route("/cleanup/{name}", show_cleanup),
    Route("/cleanup/{name}/run", ask_run),
    Route("/cleanup/{name}/run", run, methods=["POST"]),
    Route("/cleanup/{name}/remove", ask_remove),
    Route("/cleanup/{name}/remove", remove, methods=["POST"]),
]
