"""Actions on a schedule, each after a confirmation."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
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
from rota.model.schedule_info import ScheduleInfo
from rota.web.context import Page
from rota.web.forms import Form, read_form, read_payload, read_time
from rota.web.page_scope import PageScope, zone_of
from rota.web.pages.schedules import path_of
from rota.web.refusals import refusal
from rota.web.schedule_values import LABELS, label_of, value_of

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class ScheduleQuestion(Page):
    template: ClassVar[str] = "schedules/question.html"
    section: ClassVar[str] = "schedules"

    schedule: ScheduleInfo
    action: str
    back: str
    verb: str
    payload: str
    error: str | None = None

    @property
    def title(self) -> str:
        return f"{self.verb.capitalize()} schedule {self.schedule.name}"


def tenant_of(request: Request) -> str:
    return request.query_params.get("tenant", "")


async def _question(
    scope: PageScope, verb: str, payload: str = "", error: str | None = None
) -> Response:
    name, tenant = scope.name(), tenant_of(scope.request)
    schedule = await scope.schedules.get(name, tenant=tenant)
    if verb == "trigger" and not payload:
        payload = await _payload(scope, schedule)
    question = ScheduleQuestion(
        schedule, path_of(name, tenant, verb), path_of(name, tenant), verb, payload, error
    )
    return await scope.show(question, status=422 if error else 200)


async def _payload(scope: PageScope, schedule: ScheduleInfo) -> str:
    """Return the payload of its next run, with the stored digits."""
    if schedule.payload is not None:
        found = await scope.schedules.documents(schedule.name, tenant=schedule.tenant)
        if found.payload is not None:
            return found.payload
    job = await scope.jobs.get(schedule.job)
    return json.dumps(job.default_payload or {}, indent=2, ensure_ascii=False)


def asking(verb: str) -> Endpoint:
    async def ask(request: Request) -> Response:
        return await _question(PageScope(request), verb)

    return ask


def acting(verb: str, act: Callable[[PageScope, str, str, Form], Awaitable[str]]) -> Endpoint:
    """Perform the action and show its result; invalid input shows the form again."""

    async def handle(request: Request) -> Response:
        scope = PageScope(request)
        scope.check(f"schedules.{verb}")
        form = await read_form(request)
        name, tenant = scope.name(), tenant_of(request)
        try:
            text = await act(scope, name, tenant, form)
        except (InputError, TimingError) as error:
            return await _question(scope, verb, form.get("payload", ""), refusal(error))
        return scope.go("/schedules" if verb == "delete" else path_of(name, tenant), text)

    return handle


async def trigger(scope: PageScope, name: str, tenant: str, form: Form) -> str:
    text = form.get("payload", "").replace("\r\n", "\n").strip()
    schedule = await scope.schedules.get(name, tenant=tenant)
    # Unchanged, it is the schedule's own payload, whatever digits its numbers have.
    payload = None if text == await _payload(scope, schedule) else read_payload(text)
    found = await scope.schedules.trigger(name, payload, tenant=tenant, reason=form.text("reason"))
    return f"Run {found.run_id} of {name} is enqueued"


async def pause(scope: PageScope, name: str, tenant: str, form: Form) -> str:
    reason = form.text("reason")
    if reason is None:
        raise TimingError("Enter a reason. It is shown while the schedule is paused.")
    until = read_time(form.text("until"), zone_of(scope.request))
    is_changed = await scope.schedules.pause(name, reason, until, tenant=tenant)
    return f"Schedule {name} {'is' if is_changed else 'was already'} paused"


async def resume(scope: PageScope, name: str, tenant: str, form: Form) -> str:
    is_catching_up = form.get("catch_up") == "1"
    is_changed = await scope.schedules.resume(
        name, form.text("reason"), catch_up=is_catching_up, tenant=tenant
    )
    return f"Schedule {name} {'is resumed' if is_changed else 'was not paused'}"


async def enable(scope: PageScope, name: str, tenant: str, form: Form) -> str:
    is_changed = await scope.schedules.enable(name, form.text("reason"), tenant=tenant)
    return f"Schedule {name} {'is' if is_changed else 'was already'} enabled"


async def disable(scope: PageScope, name: str, tenant: str, form: Form) -> str:
    is_changed = await scope.schedules.disable(name, form.text("reason"), tenant=tenant)
    return f"Schedule {name} {'is' if is_changed else 'was already'} disabled"


async def reschedule(scope: PageScope, name: str, tenant: str, form: Form) -> str:
    at = read_time(form.text("until"), zone_of(scope.request))
    if at is None:
        raise TimingError("Enter a time: 2h, or 2026-11-02 08:00.")
    await scope.schedules.reschedule(name, at, tenant=tenant, reason=form.text("reason"))
    return f"Schedule {name} is rescheduled"


async def delete(scope: PageScope, name: str, tenant: str, form: Form) -> str:
    is_cancelling = form.get("cancel_waiting") == "1"
    await scope.schedules.delete(
        name, tenant=tenant, cancel_waiting=is_cancelling, reason=form.text("reason")
    )
    return f"Schedule {name} is deleted"


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
    fields = [field for field in form.all("field") if field in LABELS]
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


VERBS = {
    "trigger": trigger,
    "pause": pause,
    "resume": resume,
    "enable": enable,
    "disable": disable,
    "reschedule": reschedule,
    "delete": delete,
}
routes = [
    Route("/schedules/{name}/revert/{entry}", ask_revert),
    Route("/schedules/{name}/revert/{entry}", revert, methods=["POST"]),
    Route("/schedules/{name}/reset", ask_reset),
    Route("/schedules/{name}/reset", reset, methods=["POST"]),
]
for _verb, _act in VERBS.items():
    routes += [
        Route(f"/schedules/{{name}}/{_verb}", asking(_verb)),
        Route(f"/schedules/{{name}}/{_verb}", acting(_verb, _act), methods=["POST"]),
    ]
