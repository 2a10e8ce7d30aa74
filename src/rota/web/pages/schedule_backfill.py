"""Backfill: a preview of the times, then the runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import InputError, TimingError
from rota.model.fields import arguments_of
from rota.model.schedule_info import BackfillInfo, ScheduleInfo
from rota.operations.registry import commands_of, plan_of
from rota.web import time_text
from rota.web.context import Page
from rota.web.forms import read_form
from rota.web.operations import Input, input_of
from rota.web.page_scope import PageScope, zone_named
from rota.web.pages.schedule_actions import tenant_of
from rota.web.pages.schedules import path_of
from rota.web.words import refusal

_SHOWN = 100
# What is asked before the times are shown; times are in the schedule's zone.
FIELDS = {
    one.name: one
    for one in arguments_of(plan_of(commands_of("schedules"), "backfill"))
    if one.name in ("from_at", "until_at", "rate", "priority", "again")
}


@dataclass(frozen=True, slots=True)
class Preview:
    """The first times in words, and the number of all."""

    times: list[str]
    ran: list[str]
    count: int
    ran_count: int


@dataclass(frozen=True, slots=True)
class BackfillPage(Page):
    template: ClassVar[str] = "schedules/backfill.html"
    section: ClassVar[str] = "schedules"

    schedule: ScheduleInfo
    action: str
    back: str
    inputs: list[Input]
    preview: Preview | None
    error: str | None

    @property
    def title(self) -> str:
        return f"Backfill {self.schedule.name}"


async def look(request: Request) -> Response:
    scope, given = PageScope(request), request.query_params
    schedule = await scope.schedules.get(scope.name(), tenant=tenant_of(request))
    if "from_at" not in given:
        return await _show(scope, schedule, await _usual(scope, schedule))
    texts = {name: given.get(name, "").strip() for name in FIELDS}
    try:
        found = await _backfill(scope, schedule, texts, dry_run=True)
    except (InputError, TimingError) as error:
        return await _show(scope, schedule, texts, error=error)
    zone = zone_named(schedule.timezone)
    preview = Preview(
        [time_text.absolute(at, zone) for at in found.times[:_SHOWN]],
        [time_text.absolute(at, zone) for at in found.ran[:_SHOWN]],
        len(found.times),
        len(found.ran),
    )
    return await _show(scope, schedule, texts, preview)


async def fill(request: Request) -> Response:
    scope = PageScope(request)
    scope.check("schedules.backfill")
    form = await read_form(request)
    schedule = await scope.schedules.get(scope.name(), tenant=tenant_of(request))
    texts = {name: form.get(name, "").strip() for name in FIELDS}
    try:
        made = await _backfill(scope, schedule, texts, reason=form.text("reason"))
    except (InputError, TimingError) as error:
        return await _show(scope, schedule, texts, error=error)
    text = f"{time_text.plural(len(made.run_ids), 'run')} of {schedule.name} enqueued"
    return scope.go(path_of(schedule.name, schedule.tenant), text)


async def _backfill(
    scope: PageScope, schedule: ScheduleInfo, texts: Mapping[str, str], **options: Any
) -> BackfillInfo:
    zone = zone_named(schedule.timezone)
    given: dict[str, Any] = {
        name: bool(texts[name])
        if one.kind == "flag"
        else one.parse(texts[name], lambda at: at.replace(tzinfo=zone))
        for name, one in FIELDS.items()
        if texts[name] or one.is_required
    }
    return await scope.schedules.backfill(schedule.name, tenant=schedule.tenant, **given, **options)


async def _show(
    scope: PageScope,
    schedule: ScheduleInfo,
    texts: Mapping[str, str],
    preview: Preview | None = None,
    error: InputError | TimingError | None = None,
) -> Response:
    where, text = ("", None) if error is None else (error.field, refusal(error))
    page = BackfillPage(
        schedule=schedule,
        action=path_of(schedule.name, schedule.tenant, "backfill"),
        back=path_of(schedule.name, schedule.tenant),
        inputs=[
            _input(name, texts.get(name, ""), text if name == where else None) for name in FIELDS
        ],
        preview=preview,
        error=None if where in FIELDS else text,
    )
    return await scope.show(page, status=422 if error else 200)


def _input(name: str, text: str, error: str | None) -> Input:
    made = input_of(FIELDS[name], text, error)
    return replace(made, type="datetime-local", hint="") if name.endswith("_at") else made


async def _usual(scope: PageScope, schedule: ScheduleInfo) -> dict[str, str]:
    """Return the initial values: the last 24 hours."""
    now = (await scope.now()).astimezone(zone_named(schedule.timezone))
    local = now.replace(second=0, microsecond=0, tzinfo=None)
    return {"from_at": (local - timedelta(days=1)).isoformat(), "until_at": local.isoformat()}


routes = [
    Route("/schedules/{name}/backfill", look),
    Route("/schedules/{name}/backfill", fill, methods=["POST"]),
]
