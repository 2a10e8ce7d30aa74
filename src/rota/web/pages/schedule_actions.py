"""Actions on a schedule, each after a confirmation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import (
    AuditEntryNotFound,
    InputError,
    TimingError,
    VersionConflict,
    WrongState,
)
from rota.model.schedule_edit import ScheduleEdit
from rota.model.schedule_fields import schedule_settings
from rota.model.schedule_info import ScheduleInfo
from rota.web.context import Page
from rota.web.forms import read_form
from rota.web.operations import routes_of
from rota.web.page_scope import PageScope
from rota.web.pages.schedules import path_of
from rota.web.schedule_values import label_of, value_of
from rota.web.words import refusal


def tenant_of(request: Request) -> str:
    return request.query_params.get("tenant", "")


async def _first_payload(scope: PageScope, schedule: ScheduleInfo) -> dict[str, str]:
    """Return the payload of its next run, with the stored digits."""
    if schedule.payload is not None:
        found = await scope.schedules.documents(schedule.name, tenant=schedule.tenant)
        if found.payload is not None:
            return {"payload": found.payload}
    job = await scope.jobs.get(schedule.job)
    return {"payload": json.dumps(job.default_payload or {}, indent=2, ensure_ascii=False)}


@dataclass(frozen=True, slots=True)
class ResetQuestion(Page):
    """Asks which fields to reset to the code; `changes`: name, label, present value and new value
    of each field."""

    template: ClassVar[str] = "schedules/reset.html"
    section: ClassVar[str] = "schedules"

    schedule: ScheduleInfo
    action: str
    back: str
    changes: list[tuple[str, str, str, str]]

    @property
    def title(self) -> str:
        return f"Reset schedule {self.schedule.name} to the code"


async def ask_reset(request: Request) -> Response:
    scope = PageScope(request)
    name, tenant = scope.name(), tenant_of(request)
    schedule = await scope.schedules.get(name, tenant=tenant)
    found = await scope.schedules.overrides(name, tenant=tenant)
    changes = [
        (it.field, label_of(it.field), value_of(it.field, it.stored), value_of(it.field, it.code))
        for it in found
    ]
    action, back = path_of(name, tenant, "reset"), path_of(name, tenant)
    return await scope.show(ResetQuestion(schedule, action, back, changes))


async def reset(request: Request) -> Response:
    scope = PageScope(request)
    scope.check("schedules.update")
    form = await read_form(request)
    name, tenant = scope.name(), tenant_of(request)
    fields = [field for field in form.all("field") if field in schedule_settings()]
    if not fields:
        return scope.go(path_of(name, tenant), "Nothing was selected, so nothing was changed")
    await scope.schedules.update(name, tenant=tenant, reset=fields, reason=form.text("reason"))
    words = ", ".join(label_of(field) for field in fields)
    return scope.go(path_of(name, tenant), f"Reset to the code: {words}")


@dataclass(frozen=True, slots=True)
class RevertQuestion(Page):
    """Confirms that an edit is reverted; `changes` are the changes that this would make now."""

    template: ClassVar[str] = "schedules/revert.html"
    section: ClassVar[str] = "schedules"

    schedule: ScheduleInfo
    edit: ScheduleEdit
    action: str
    back: str
    changes: list[tuple[str, str, str]]
    error: str | None = None

    @property
    def title(self) -> str:
        return f"Revert an edit of {self.schedule.name}"


async def _ask_revert(scope: PageScope, error: str | None = None, status: int = 200) -> Response:
    name, tenant, entry = scope.name(), tenant_of(scope.request), _entry(scope.request)
    schedule = await scope.schedules.get(name, tenant=tenant)
    edit = await scope.schedules.edit(name, entry, tenant=tenant)
    changes = [
        (
            label_of(change.field),
            value_of(change.field, getattr(schedule, change.field, change.after)),
            value_of(change.field, change.before),
        )
        for change in edit.changes
    ]
    action = path_of(name, tenant, f"revert/{entry}")
    back = path_of(name, tenant)
    return await scope.show(
        RevertQuestion(schedule, edit, action, back, changes, error), status=status
    )


async def ask_revert(request: Request) -> Response:
    return await _ask_revert(PageScope(request))


async def revert(request: Request) -> Response:
    scope = PageScope(request)
    scope.check("schedules.update")
    form = await read_form(request)
    name, tenant, entry = scope.name(), tenant_of(request), _entry(request)
    version = form.get("version", "")
    try:
        await scope.schedules.revert(
            name,
            entry,
            tenant=tenant,
            version=int(version) if version.isdecimal() else None,
            reason=form.text("reason"),
        )
    except VersionConflict:
        text = (
            "Not reverted: this schedule was changed in the meantime. These are its current values."
        )
        return await _ask_revert(scope, text, 409)
    except (InputError, TimingError, WrongState) as error:
        return await _ask_revert(scope, refusal(error), 422)
    return scope.go(path_of(name, tenant), f"The edit of {name} is reverted")


def _entry(request: Request) -> int:
    text = str(request.path_params["entry"])
    if not text.isdecimal() or int(text) >= 2**63:
        raise AuditEntryNotFound(f"the audit has no entry {text!r}")
    return int(text)


routes = [
    *routes_of("schedules", trigger=_first_payload),
    Route("/schedules/{name}/revert/{entry}", ask_revert),
    Route("/schedules/{name}/revert/{entry}", revert, methods=["POST"]),
    Route("/schedules/{name}/reset", ask_reset),
    Route("/schedules/{name}/reset", reset, methods=["POST"]),
]
