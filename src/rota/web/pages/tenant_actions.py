"""Actions on a tenant: settings, pause, resume, deletion of all its data."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import InputError, TimingError, WrongState
from rota.model.tenant import TenantAmount, TenantInfo
from rota.model.words import plural
from rota.web.context import Page
from rota.web.forms import Form, read_form, read_time
from rota.web.page_scope import PageScope, zone_of
from rota.web.pages.tenants import path_of
from rota.web.refusals import refusal

Endpoint = Callable[[Request], Awaitable[Response]]
# The limit of one deletion request; another confirmation follows for what is left.
DELETE_SECONDS = 10.0
_NUMBERS = (
    "max_waiting", "max_runs_per_day", "max_bytes_per_day", "retention_days",
    "failed_retention_days",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TenantQuestion(Page):
    """Confirms an action; says what it means for the tenant's data."""

    template: ClassVar[str] = "tenants/question.html"
    section: ClassVar[str] = "tenants"

    tenant: TenantInfo
    path: str
    verb: str
    amount: TenantAmount | None = None
    given: dict[str, str] | None = None
    error: str | None = None
    time_error: str | None = None

    @property
    def title(self) -> str:
        return f"{self.verb.capitalize()} tenant {self.tenant.name}"


async def _ask(scope: PageScope, verb: str, *, status: int = 200, **more: Any) -> Response:
    name = scope.name()
    tenant = await scope.tenants.get(name)
    amount = await scope.tenants.amount(name) if verb == "delete" else None
    page = TenantQuestion(tenant, path_of(name), verb, amount, **more)
    return await scope.show(page, status=status)


def asking(verb: str) -> Endpoint:
    async def ask(request: Request) -> Response:
        return await _ask(PageScope(request), verb)

    return ask


async def pause(request: Request) -> Response:
    scope = PageScope(request)
    scope.check("tenants.pause")
    form = await read_form(request)
    reason = form.text("reason")
    if reason is None:
        error = "Enter a reason. It is shown while the tenant is paused."
        return await _ask(scope, "pause", status=422, given=dict(form), error=error)
    try:
        until = read_time(form.text("until"), zone_of(request))
        held = await scope.tenants.pause(scope.name(), reason, until)
    except TimingError as error:
        return await _ask(scope, "pause", status=422, given=dict(form), time_error=refusal(error))
    text = f"Tenant {scope.name()} {'was already' if held is None else 'is'} paused"
    return scope.go(path_of(scope.name()), text)


async def resume(request: Request) -> Response:
    scope = PageScope(request)
    scope.check("tenants.resume")
    freed = await scope.tenants.resume(scope.name(), (await read_form(request)).text("reason"))
    text = f"Tenant {scope.name()} {'was not paused' if freed is None else 'is resumed'}"
    return scope.go(path_of(scope.name()), text)


async def edit(request: Request) -> Response:
    scope = PageScope(request)
    scope.check("tenants.set")
    form = await read_form(request)
    try:
        settings: Any = _settings(form)
        await scope.tenants.set(scope.name(), form.text("reason"), **settings)
    except InputError as error:
        return await _ask(scope, "edit", status=422, given=dict(form), error=refusal(error))
    return scope.go(path_of(scope.name()), f"Tenant {scope.name()} is changed")


def _settings(form: Form) -> dict[str, Any]:
    """Empty fields mean the default."""
    settings: dict[str, Any] = {"description": form.get("description", "").strip()}
    for key in ("weight", *_NUMBERS):
        text = form.text(key)
        settings[key] = None if text is None else _number(key, text)
    text = form.text("metadata")
    try:
        settings["metadata"] = None if text is None else json.loads(text)
    except ValueError:
        raise InputError("metadata must be a JSON object") from None
    return settings


def _number(key: str, text: str) -> float:
    plain = text.replace(",", "").replace("_", "")
    try:
        return float(plain) if key == "weight" else int(plain)
    except ValueError:
        raise InputError(f"{key} must be a number, not {text!r}") from None


async def delete(request: Request) -> Response:
    scope = PageScope(request)
    scope.check("tenants.delete")
    form = await read_form(request)
    name, reason = scope.name(), form.text("reason")
    if reason is None:
        error = "Enter a reason. Deleted data cannot be restored."
        return await _ask(scope, "delete", status=422, given=dict(form), error=error)
    try:
        done = await scope.tenants.delete(
            name, reason, cancel_running="cancel_running" in form, seconds=DELETE_SECONDS
        )
    except WrongState as error:
        return await _ask(scope, "delete", status=409, given=dict(form), error=refusal(error))
    if not done.is_done:
        return scope.go(
            f"{path_of(name)}/delete", f"{plural(done.rows, 'row')} deleted; there are more"
        )
    return scope.go("/tenants", f"Tenant {name} is deleted: {plural(done.rows, 'row')}")


routes = [
    *(Route(f"/tenants/{{name}}/{verb}", asking(verb)) for verb in ("pause", "resume", "edit")),
    Route("/tenants/{name}/delete", asking("delete")),
    Route("/tenants/{name}/pause", pause, methods=["POST"]),
    Route("/tenants/{name}/resume", resume, methods=["POST"]),
    Route("/tenants/{name}/edit", edit, methods=["POST"]),
    Route("/tenants/{name}/delete", delete, methods=["POST"]),
]
