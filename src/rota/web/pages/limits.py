"""Limits: their rules, the runs that hold a slot and those that wait; set, remove, unblock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import LimitError, WrongState
from rota.model.limit import LimitDetails, LimitInfo
from rota.web.context import Page
from rota.web.forms import read_form
from rota.web.limit_form import LimitDraft, changes_of, draft_of, read_draft
from rota.web.page_scope import PageScope
from rota.web.refusals import refusal

KINDS = {
    "concurrency": "concurrent runs",
    "rate": "runs per period",
    "sequence": "one after another",
}
ON_FULL = {
    "wait": "the run waits",
    "skip": "the run is skipped",
    "replace": "the run replaces the waiting one",
    "cancel_running": "the oldest running run is cancelled",
}
_REASON = "Enter a reason. It is kept in the audit."


@dataclass(frozen=True, slots=True)
class LimitRow:
    limit: LimitInfo
    path: str

    @property
    def state(self) -> str:
        return "late" if self.limit.waiting else "active"


@dataclass(frozen=True, slots=True)
class LimitsPage(Page):
    template: ClassVar[str] = "limits/list.html"
    section: ClassVar[str] = "limits"

    limits: list[LimitRow]

    @property
    def title(self) -> str:
        return "Limits"


@dataclass(frozen=True, slots=True)
class LimitPage(Page):
    template: ClassVar[str] = "limits/one.html"
    section: ClassVar[str] = "limits"

    details: LimitDetails
    path: str
    query: str
    on_full: dict[str, str]

    @property
    def title(self) -> str:
        return self.details.limit.name


@dataclass(frozen=True, slots=True)
class LimitEditor(Page):
    """`limit` is the stored one, None for a new one."""

    template: ClassVar[str] = "limits/edit.html"
    section: ClassVar[str] = "limits"

    limit: LimitInfo | None
    draft: LimitDraft
    action: str
    back: str
    name: str = ""
    tenant: str = ""
    reason: str = ""
    error: str | None = None
    kinds: ClassVar[dict[str, str]] = KINDS
    choices: ClassVar[dict[str, str]] = ON_FULL

    @property
    def title(self) -> str:
        return f"Change limit {self.limit.name}" if self.limit else "New limit"


@dataclass(frozen=True, slots=True)
class LimitQuestion(Page):
    """Asks before a limit is removed, or a sequence goes on without a run that failed."""

    template: ClassVar[str] = "limits/question.html"
    section: ClassVar[str] = "limits"

    details: LimitDetails
    path: str
    query: str
    verb: str
    error: str | None = None

    @property
    def title(self) -> str:
        return f"{self.verb.capitalize()} limit {self.details.limit.name}"


def path_of(name: str) -> str:
    return f"/limits/{quote(name, safe='')}"


def query_of(tenant: str) -> str:
    return "?" + urlencode({"tenant": tenant}) if tenant else ""


def _tenant(request: Request) -> str:
    return request.query_params.get("tenant", "")


async def list_limits(request: Request) -> Response:
    scope = PageScope(request)
    found = await scope.limits.list(order="longest")
    rows = [LimitRow(one, path_of(one.name) + query_of(one.tenant)) for one in found]
    return await scope.show(LimitsPage(rows))


async def show_limit(request: Request) -> Response:
    scope, tenant = PageScope(request), _tenant(request)
    details = await scope.limits.get(scope.name(), tenant)
    page = LimitPage(details, path_of(scope.name()), query_of(tenant), ON_FULL)
    return await scope.show(page)


async def new(request: Request) -> Response:
    return await PageScope(request).show(LimitEditor(None, LimitDraft(), "/limits/new", "/limits"))


async def edit(request: Request) -> Response:
    scope, tenant = PageScope(request), _tenant(request)
    limit = (await scope.limits.get(scope.name(), tenant)).limit
    return await scope.show(_editor(limit, draft_of(limit)))


def _editor(limit: LimitInfo, draft: LimitDraft, **told: str) -> LimitEditor:
    path, query = path_of(limit.name), query_of(limit.tenant)
    return LimitEditor(limit, draft, f"{path}/set{query}", path + query, **told)


async def create(request: Request) -> Response:
    scope = PageScope(request)
    scope.check("limits.set")
    form = await read_form(request)
    name, tenant = form.text("name") or "", form.text("tenant") or ""
    reason, draft = form.text("reason"), read_draft(form)
    error: str | None = None if reason else _REASON
    if error is None and any(it.name == name for it in await scope.limits.list(tenant=tenant)):
        error = f"Limit {name} already exists."
    if error is None:
        try:
            await scope.limits.set(name, tenant=tenant, reason=reason, **changes_of(draft))
            return scope.go(path_of(name) + query_of(tenant), f"Limit {name} is active")
        except LimitError as refused:
            error = refusal(refused)
    again = LimitEditor(None, draft, "/limits/new", "/limits", name, tenant, reason or "", error)
    return await scope.show(again, status=422)


async def change(request: Request) -> Response:
    scope, tenant = PageScope(request), _tenant(request)
    scope.check("limits.set")
    limit = (await scope.limits.get(scope.name(), tenant)).limit
    form = await read_form(request)
    draft, reason = read_draft(form), form.text("reason")
    if reason is None:
        return await scope.show(_editor(limit, draft, error=_REASON), status=422)
    try:
        await scope.limits.set(limit.name, tenant=tenant, reason=reason, **changes_of(draft))
    except LimitError as refused:
        again = _editor(limit, draft, error=refusal(refused), reason=reason)
        return await scope.show(again, status=422)
    return scope.go(path_of(limit.name) + query_of(tenant), f"Limit {limit.name} is changed")


async def ask_remove(request: Request) -> Response:
    return await _ask(PageScope(request), "remove")


async def ask_unblock(request: Request) -> Response:
    return await _ask(PageScope(request), "unblock")


async def _ask(scope: PageScope, verb: str, error: str | None = None) -> Response:
    tenant = _tenant(scope.request)
    details = await scope.limits.get(scope.name(), tenant)
    page = LimitQuestion(details, path_of(scope.name()), query_of(tenant), verb, error)
    return await scope.show(page, status=200 if error is None else 422)


async def remove(request: Request) -> Response:
    scope, tenant = PageScope(request), _tenant(request)
    scope.check("limits.remove")
    name, reason = scope.name(), (await read_form(request)).text("reason")
    if reason is None:
        return await _ask(scope, "remove", _REASON)
    try:
        answer = await scope.limits.remove(name, tenant=tenant, reason=reason)
    except WrongState as refused:
        return await _ask(scope, "remove", refusal(refused))
    if answer == "reset":
        return scope.go(path_of(name) + query_of(tenant), f"Limit {name} is reset to the code")
    return scope.go("/limits", f"Limit {name} is removed")


async def unblock(request: Request) -> Response:
    scope, tenant = PageScope(request), _tenant(request)
    scope.check("limits.unblock")
    name, reason = scope.name(), (await read_form(request)).text("reason")
    if reason is None:
        return await _ask(scope, "unblock", _REASON)
    try:
        await scope.limits.unblock(name, tenant=tenant, reason=reason)
    except WrongState as refused:
        return await _ask(scope, "unblock", refusal(refused))
    return scope.go(path_of(name) + query_of(tenant), f"Limit {name} is unblocked")


routes = [
    Route("/limits", list_limits),
    Route("/limits/new", new),
    Route("/limits/new", create, methods=["POST"]),
    Route("/limits/{name}", show_limit),
    Route("/limits/{name}/set", edit),
    Route("/limits/{name}/set", change, methods=["POST"]),
    Route("/limits/{name}/remove", ask_remove),
    Route("/limits/{name}/remove", remove, methods=["POST"]),
    Route("/limits/{name}/unblock", ask_unblock),
    Route("/limits/{name}/unblock", unblock, methods=["POST"]),
]
