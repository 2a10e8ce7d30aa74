"""One schedule: coming times, ledger, durations, manual runs and edits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, get_args
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.api.schemas.values import read_cursor
from rota.errors import FilterError, TimingError
from rota.model.cursors import write_cursor
from rota.model.list_filters import LedgerPart
from rota.model.occurrence import OccurrenceInfo
from rota.model.schedule_edit import ManualRun, ScheduleEdit
from rota.model.schedule_info import ScheduleInfo
from rota.model.strip import Strip, cell_of
from rota.timing.preview import PreviewRow
from rota.web import time_text
from rota.web.context import Page
from rota.web.page_scope import PageScope, zone_named, zone_of
from rota.web.pages.schedule_actions import tenant_of
from rota.web.pages.schedules import path_of, paths_of, state_of
from rota.web.schedule_chart import Durations, durations
from rota.web.schedule_text import policies, reason_of
from rota.web.schedule_values import label_of, value_of
from rota.web.why import WhyPanel, why_of
from rota.web.words import refusal

_COMING, _STRIP, _LEDGER, _EDITS = 10, 60, 25, 8
_PARTS = get_args(LedgerPart)


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """`day` and `wall` are in the schedule's zone."""

    occurrence: OccurrenceInfo
    reason: str
    day: str
    wall: str
    through: str


@dataclass(frozen=True, slots=True)
class Ledger:
    """A part of the ledger, and links to the other parts."""

    rows: list[LedgerRow]
    part: str | None
    paths: dict[str, str]
    first: str | None
    older: str | None


@dataclass(frozen=True, slots=True)
class EditRow:
    """`changes`: the name, the old and the new value of each field."""

    edit: ScheduleEdit
    verb: str
    changes: list[tuple[str, str, str]]
    revert: str | None


@dataclass(frozen=True, slots=True)
class SchedulePage(Page):
    template: ClassVar[str] = "schedules/one.html"
    section: ClassVar[str] = "schedules"

    schedule: ScheduleInfo
    state: str
    paths: dict[str, str]
    coming: list[PreviewRow]
    problem: str | None
    ledger: Ledger
    strip: Strip
    durations: Durations | None
    manual: Sequence[ManualRun]
    edits: list[EditRow]
    overrides: int
    reset: str
    policies: list[tuple[str, str]]
    why: WhyPanel

    @property
    def title(self) -> str:
        return self.schedule.name


async def show_schedule(request: Request) -> Response:
    scope = PageScope(request)
    name, tenant = scope.name(), tenant_of(request)
    schedule = await scope.schedules.get(name, tenant=tenant)
    coming, problem = await _coming(scope, schedule)
    past = await scope.schedules.history(name, tenant=tenant, limit=_STRIP)
    edits = await scope.schedules.edits(name, tenant=tenant, limit=_EDITS)
    manual = await scope.schedules.manual(name, tenant=tenant, limit=_EDITS)
    return await scope.show(
        SchedulePage(
            schedule=schedule,
            state=state_of(schedule, await scope.now()),
            paths=paths_of(schedule),
            coming=coming,
            problem=problem,
            ledger=await _ledger(scope, schedule),
            strip=Strip(tuple(cell_of(it.decision, it.reason, it.state) for it in reversed(past))),
            durations=durations(past, schedule.timeout_seconds),
            manual=manual.items,
            edits=[_edit(schedule, edit) for edit in edits.items],
            overrides=len(await scope.schedules.overrides(name, tenant=tenant)),
            reset=path_of(name, tenant, "reset"),
            policies=policies(schedule),
            why=await why_of(scope, name, "schedule", tenant),
        )
    )


async def _coming(scope: PageScope, schedule: ScheduleInfo) -> tuple[list[PreviewRow], str | None]:
    """Return None for a schedule without times, or with a timing that cannot be computed."""
    if schedule.init is not None or not schedule.is_enabled or schedule.finished_at:
        return [], None
    viewer = str(zone_of(scope.request))
    try:
        rows = await scope.schedules.preview(
            schedule.name, tenant=schedule.tenant, count=_COMING, viewer_zone=viewer
        )
    except TimingError as error:
        return [], refusal(error)
    return rows, None


async def _ledger(scope: PageScope, schedule: ScheduleInfo) -> Ledger:
    given = scope.request.query_params
    part, cursor = given.get("ledger") or None, given.get("cursor")
    if part is not None and part not in _PARTS:
        raise FilterError(
            f"unknown part {part!r} of the ledger", hint=f"choose from {', '.join(_PARTS)}"
        )
    kind = f"ledger {part}"
    found = await scope.schedules.history_page(
        schedule.name,
        tenant=schedule.tenant,
        only=part,  # type: ignore[arg-type]
        cursor=read_cursor(kind, cursor, datetime, int),
        limit=_LEDGER,
    )
    zone = zone_named(schedule.timezone)
    rows = [
        LedgerRow(
            occurrence,
            reason_of(occurrence),
            time_text.day(occurrence.nominal_at, zone),
            time_text.wall(occurrence.nominal_at, zone),
            time_text.day(occurrence.through_at, zone),
        )
        for occurrence in found.items
    ]
    older = None if found.cursor is None else write_cursor(kind, *found.cursor)
    return Ledger(
        rows=rows,
        part=part,
        paths={"all": _at(schedule)} | {one: _at(schedule, ledger=one) for one in _PARTS},
        first=_at(schedule, ledger=part) if cursor else None,
        older=None if older is None else _at(schedule, ledger=part, cursor=older),
    )


def _at(schedule: ScheduleInfo, **query: str | None) -> str:
    """Return this page with another part of the ledger."""
    path = path_of(schedule.name, schedule.tenant)
    pairs = {key: value for key, value in query.items() if value is not None}
    mark = "&" if "?" in path else "?"
    return f"{path}{mark}{urlencode(pairs)}#ledger" if pairs else f"{path}#ledger"


_VERBS = {
    "created": "created it",
    "enabled": "enabled it",
    "disabled": "disabled it",
    "paused": "paused it",
    "resumed": "resumed it",
    "rescheduled": "rescheduled it",
    "deleted": "deleted a schedule of this name",
}


def _edit(schedule: ScheduleInfo, one: ScheduleEdit) -> EditRow:
    changes = [
        (label_of(it.field), value_of(it.field, it.before), value_of(it.field, it.after))
        for it in one.changes
    ]
    count = len(changes)
    verb = one.action.removeprefix("schedule.")
    summary = _VERBS.get(verb) or f"changed {count} field{'' if count == 1 else 's'}"
    revert = path_of(schedule.name, schedule.tenant, f"revert/{one.id}")
    return EditRow(one, summary, changes, revert if one.can_revert else None)


routes = [Route("/schedules/{name}", show_schedule)]
