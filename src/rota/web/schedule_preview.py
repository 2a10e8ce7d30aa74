"""The timing of an edited schedule: in words, and its next times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rota.errors import CalendarNotFound, TimingError
from rota.model.schedule_info import ScheduleInfo
from rota.timing.describe import describe
from rota.timing.preview import PreviewRow
from rota.timing.timing import Timing
from rota.timing.zones import zone
from rota.web.page_scope import PageScope, zone_of
from rota.web.schedule_form import Draft, arguments
from rota.web.words import refusal

_COUNT = 10
_FIELDS = ("timezone", "gap", "fold", "start_at", "end_at", "calendar", "on_closed")
_INITS = {
    "once": "Once ever, at the first start.",
    "release": "Once for each release of the application.",
    "start": "Whenever the first worker of the fleet starts.",
}


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
        return Coming(_INITS.get(draft.texts["init"], ""), [])
    given, errors = arguments(draft, [draft.when, *filter(draft.counts, _FIELDS)])
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
        words = describe(_timing(given))
        rows = await scope.schedules.preview(
            **given, anchor=anchor, count=_COUNT, viewer_zone=str(zone_of(scope.request))
        )
    except CalendarNotFound as error:
        return Coming("", [], refusal(error), "calendar", clock)
    except TimingError as error:
        return Coming("", [], refusal(error), _field_of(str(error)) or draft.when, clock)
    if given.get("every") is not None and draft.texts["every_from"] == "end":
        words = f"{words}, counted from the end of the last run"
        rows = []
    return Coming(f"{words[:1].upper()}{words[1:]}", rows, now_there=clock)


def _field_of(message: str) -> str | None:
    fields = {"end_at": "end_at", "run_at": "at"}
    return next((field for name, field in fields.items() if message.startswith(name)), None)


def _timing(given: dict[str, Any]) -> Timing:
    return Timing.of(
        cron=given.get("cron"),
        interval_seconds=given.get("every"),
        run_at=given.get("at"),
        timezone=given.get("timezone") or "UTC",
        start_at=given.get("start_at"),
        end_at=given.get("end_at"),
        with_seconds=bool(given.get("with_seconds")),
    )
