"""The timing of an edited schedule: in words, and its next times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rota.errors import CalendarNotFound, TimingError
from rota.jobs.schedule_options import columns
from rota.model.schedule_fields import KINDS, Timing
from rota.model.schedule_info import ScheduleInfo
from rota.operations.schedules.plans import unsaved_timing
from rota.timing.describe import describe
from rota.timing.preview import PreviewRow
from rota.timing.zones import zone
from rota.web.page_scope import PageScope, zone_of
from rota.web.schedule_form import FIELDS, Draft, settings
from rota.web.words import refusal

_COUNT = 10
_FIELDS = [name for name in FIELDS if name in Timing.__annotations__ and name not in KINDS]


@dataclass(frozen=True, slots=True)
class Coming:
    """`field` is the field that prevents the next times, and `problem` says why."""

    words: str
    rows: list[PreviewRow]
    problem: str | None = None
    field: str | None = None
    now_there: str = ""


async def coming(scope: PageScope, draft: Draft, stored: ScheduleInfo | None) -> Coming:
    if draft.when == "init":
        words = (FIELDS["init"].field.choices or {}).get(draft.texts["init"], "")
        return Coming(f"{words[:1].upper()}{words[1:]}.", [])
    given, errors = settings(draft, [draft.when, *filter(draft.counts, _FIELDS)])
    try:
        local = (await scope.now()).astimezone(zone(draft.texts["timezone"] or "UTC"))
    except TimingError as error:
        return Coming("", [], refusal(error), "timezone")
    if errors:
        field, problem = next(iter(errors.items()))
        return Coming("", [], problem, field, f"{local:%H:%M}")
    return await _rows(scope, draft, dict(given), stored, f"{local:%H:%M}")


async def _rows(
    scope: PageScope, draft: Draft, given: dict[str, Any], stored: ScheduleInfo | None, clock: str
) -> Coming:
    anchor = stored.anchor_at if stored is not None else await scope.now()
    try:
        words = describe(unsaved_timing(columns(given)))
        rows = await scope.schedules.preview(
            **given, anchor_at=anchor, count=_COUNT, viewer_zone=str(zone_of(scope.request))
        )
    except CalendarNotFound as error:
        return Coming("", [], refusal(error), "calendar", clock)
    except TimingError as error:
        return Coming("", [], refusal(error), error.field or draft.when, clock)
    if given.get("interval_seconds") is not None and draft.texts["every_from"] == "end":
        words = f"{words}, counted from the end of the last run"
        rows = []
    return Coming(f"{words[:1].upper()}{words[1:]}", rows, now_there=clock)
