"""Backfill: a preview of the times, then the runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import TimingError
from rota.model.schedule_info import BackfillInfo, ScheduleInfo
from rota.web import time_text
from rota.web.context import Page
from rota.web.forms import read_form
from rota.web.page_scope import PageScope, zone_named
from rota.web.pages.schedule_actions import tenant_of
from rota.web.pages.schedules import path_of
from rota.web.words import refusal

_SHOWN = 100


@dataclass(frozen=True, slots=True)
class BackfillForm:
    """The typed texts. Times are in the schedule's zone."""

    start: str
    end: str
    rate: str
    priority: str
    is_again: bool


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
    form: BackfillForm
    preview: Preview | None
    error: str | None

    @property
    def title(self) -> str:
        return f"Backfill {self.schedule.name}"


async def look(request: Request) -> Response:
    scope = PageScope(request)
    given = request.query_params
    schedule = await scope.schedules.get(scope.name(), tenant=tenant_of(request))
    if "start" not in given:
        return await _show(scope, schedule, _usual(schedule, await scope.now()), None)
    form = BackfillForm(
        given["start"],
        given.get("end", ""),
        given.get("rate", ""),
        given.get("priority", ""),
        given.get("again") == "1",
    )
    return await _look(scope, schedule, form)


async def fill(request: Request) -> Response:
    scope = PageScope(request)
    scope.check("schedules.backfill")
    given = await read_form(request)
    schedule = await scope.schedules.get(scope.name(), tenant=tenant_of(request))
    form = BackfillForm(
        given.get("start", ""),
        given.get("end", ""),
        given.get("rate", ""),
        given.get("priority", ""),
        given.get("again") == "1",
    )
    try:
        made = await _backfill(scope, schedule, form, is_dry=False, reason=given.text("reason"))
    except TimingError as error:
        return await _show(scope, schedule, form, None, refusal(error))
    text = f"{time_text.plural(len(made.run_ids), 'run')} of {schedule.name} enqueued"
    return scope.go(path_of(schedule.name, schedule.tenant), text)


async def _look(scope: PageScope, schedule: ScheduleInfo, form: BackfillForm) -> Response:
    try:
        found = await _backfill(scope, schedule, form, is_dry=True)
    except TimingError as error:
        return await _show(scope, schedule, form, None, refusal(error))
    zone = zone_named(schedule.timezone)
    preview = Preview(
        [time_text.absolute(at, zone) for at in found.times[:_SHOWN]],
        [time_text.absolute(at, zone) for at in found.ran[:_SHOWN]],
        len(found.times),
        len(found.ran),
    )
    return await _show(scope, schedule, form, preview)


async def _backfill(
    scope: PageScope,
    schedule: ScheduleInfo,
    form: BackfillForm,
    *,
    is_dry: bool,
    reason: str | None = None,
) -> BackfillInfo:
    zone = zone_named(schedule.timezone)
    return await scope.schedules.backfill(
        schedule.name,
        _instant(form.start, "From", zone),
        _instant(form.end, "To", zone),
        dry_run=is_dry,
        rate=_number(form.rate, "Runs per minute"),
        priority=_whole(form.priority, "Priority"),
        again=form.is_again,
        reason=reason,
        tenant=schedule.tenant,
    )


async def _show(
    scope: PageScope,
    schedule: ScheduleInfo,
    form: BackfillForm,
    preview: Preview | None,
    error: str | None = None,
) -> Response:
    page = BackfillPage(
        schedule=schedule,
        action=path_of(schedule.name, schedule.tenant, "backfill"),
        back=path_of(schedule.name, schedule.tenant),
        form=form,
        preview=preview,
        error=error,
    )
    return await scope.show(page, status=422 if error else 200)


def _usual(schedule: ScheduleInfo, now: datetime) -> BackfillForm:
    """Return the initial values: the last 24 hours."""
    local = now.astimezone(zone_named(schedule.timezone)).replace(second=0, microsecond=0)
    start = (local - timedelta(days=1)).replace(tzinfo=None)
    end = local.replace(tzinfo=None)
    return BackfillForm(start.isoformat(), end.isoformat(), "", "", False)


def _instant(text: str, what: str, zone: tzinfo) -> datetime:
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise TimingError(
            f"{what}: {text!r} is not a date and time, such as 2026-11-02 08:00"
        ) from None
    return at if at.tzinfo else at.replace(tzinfo=zone)


def _number(text: str, what: str) -> float | None:
    try:
        return float(text) if text.strip() else None
    except ValueError:
        raise TimingError(f"{what} must be a number, not {text!r}") from None


def _whole(text: str, what: str) -> int | None:
    if not text.strip():
        return None
    if not text.strip().isdecimal():
        raise TimingError(f"{what} must be a number from 0 to 9, not {text!r}")
    return int(text)


routes = [
    Route("/schedules/{name}/backfill", look),
    Route("/schedules/{name}/backfill", fill, methods=["POST"]),
]
