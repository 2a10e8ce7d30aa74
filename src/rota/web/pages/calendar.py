"""The calendar: the coming load, pile-ups, and the next 24 hours."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache
from typing import ClassVar
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import FilterError
from rota.model.calendar import CalendarInfo
from rota.model.list_filters import ScheduleFilters
from rota.operations.command_line import line_of
from rota.operations.schedules.load import MOST_DRAWN, Lane
from rota.timing.load import HourLoad, Load, Suggestion
from rota.web.calendar_form import closed_words
from rota.web.calendar_form import draft_of as calendar_draft
from rota.web.context import Page
from rota.web.heat import Heat, heat_of
from rota.web.page_scope import PageScope, zone_of
from rota.web.pages.calendars import path_of as calendar_path
from rota.web.pages.schedules import path_of, state_of

RANGES = (1, 7, 14, 31)
_DAY, _MINUTE = timedelta(days=1), timedelta(minutes=1)
_LANES, _SHOWN = 30, 30


@dataclass(frozen=True, slots=True)
class CalendarQuery:
    """The filter in the address. `hour` is the hour to list, `day` the day of the lanes."""

    days: int = 7
    text: str | None = None
    job: str | None = None
    queue: str | None = None
    tag: str | None = None
    tenant: str | None = None
    hour: datetime | None = None
    day: int = 0

    @property
    def filters(self) -> ScheduleFilters:
        return {
            "text": self.text,
            "job": self.job,
            "queue": self.queue,
            "tag": self.tag,
            "tenant": self.tenant,
        }

    @property
    def tokens(self) -> list[tuple[str, str, str]]:
        return [
            (key, str(value) or "none", self.path(**{key: None}))
            for key, value in self.filters.items()
            if value is not None
        ]

    def path(self, **changes: str | int | None) -> str:
        given = {
            "days": None if self.days == 7 else self.days,
            "text": self.text,
            "job": self.job,
            "queue": self.queue,
            "tag": self.tag,
            "tenant": self.tenant,
            "day": self.day or None,
        } | changes
        pairs = {key: value for key, value in given.items() if value is not None}
        return f"/calendar?{urlencode(pairs)}" if pairs else "/calendar"

    def at(self, hour: datetime | None) -> str:
        return self.path(hour=None if hour is None else hour.isoformat()) + "#hour"


@dataclass(frozen=True, slots=True)
class LaneRow:
    """The runs of one schedule on one day. Minutes are units of width; `bars` is the path of all
    runs."""

    name: str
    tenant: str
    path: str
    state: str
    bars: str
    count: int


@dataclass(frozen=True, slots=True)
class DayAhead:
    rows: list[LaneRow]
    title: str
    ticks: list[tuple[int, str]]
    before: str | None
    after: str | None
    more: bool


@dataclass(frozen=True, slots=True)
class CalendarRow:
    """`closed` says when the calendar is closed, in a few words."""

    calendar: CalendarInfo
    path: str
    zone: str
    closed: str


@dataclass(frozen=True, slots=True)
class CalendarPage(Page):
    template: ClassVar[str] = "calendar/page.html"
    section: ClassVar[str] = "calendar"

    query: CalendarQuery
    load: Load | None
    heat: Heat | None
    hour: HourLoad | None
    hour_title: str
    ahead: DayAhead
    calendars: list[CalendarRow]
    ranges: tuple[int, ...]
    shown: int

    def spreading(self, one: Suggestion) -> str:
        """The commands that give its schedules the jitter, one on each line."""
        jitter = f"{one.jitter_seconds:.0f}s"
        lines = (line_of("schedules", "update", name, jitter=jitter) for name in one.schedules)
        return "\n".join(lines)

    @property
    def title(self) -> str:
        return "Calendar"


async def show_calendar(request: Request) -> Response:
    scope = PageScope(request)
    query = _read(request)
    zone = zone_of(request)
    # Read the rest while the load is being counted.
    load, ahead, calendars = await asyncio.gather(
        scope.web.loads.get(scope, query.days, str(zone), query.filters),
        _ahead(scope, query, zone),
        scope.calendars.list(),
    )
    hour = None
    if query.hour is not None:
        # In a thread, as the loads are.
        hour = await asyncio.to_thread(scope.schedules.sync.hour, query.hour, **query.filters)
    page = CalendarPage(
        query=query,
        load=load,
        heat=None if load is None else heat_of(load, zone),
        hour=hour,
        hour_title=_hour_title(query.hour, zone),
        ahead=ahead,
        calendars=[
            CalendarRow(
                calendar,
                calendar_path(calendar.name),
                calendar_draft("", calendar.definition).timezone,
                closed_words(calendar.definition),
            )
            for calendar in calendars
        ],
        ranges=RANGES,
        shown=_SHOWN,
    )
    response = await scope.show(page)
    if load is None:
        response.headers["Refresh"] = "1"
    return response


def _hour_title(at: datetime | None, zone: tzinfo) -> str:
    if at is None:
        return ""
    local = at.astimezone(zone)
    end = local + timedelta(minutes=59)
    return f"{local:%a} {local.day} {local:%b}, {local:%H:%M} to {end:%H:%M}"


async def _ahead(scope: PageScope, query: CalendarQuery, zone: tzinfo) -> DayAhead:
    now = await scope.now()
    start = now.replace(second=0, microsecond=0) + query.day * _DAY
    wanted: ScheduleFilters = {**query.filters, "state": "active"}
    found = await scope.schedules.lanes(start, limit=_LANES, **wanted)
    local = start.astimezone(zone)
    title = (
        "The next 24 hours"
        if not query.day
        else f"24 hours from {local:%a} {local.day} {local:%b, %H:%M}"
    )
    return DayAhead(
        rows=[_lane(lane, start, now) for lane in found.items],
        title=title,
        ticks=_ticks(start, zone),
        before=query.path(day=query.day - 1 or None) + "#ahead" if query.day else None,
        after=query.path(day=query.day + 1) + "#ahead" if query.day < RANGES[-1] - 1 else None,
        more=found.cursor is not None,
    )


def _lane(lane: Lane, start: datetime, now: datetime) -> LaneRow:
    one = lane.schedule
    minutes = round((one.avg_duration_ms or 0) / 60_000)
    is_full = lane.count > MOST_DRAWN
    bars = _bar(0, 1440) if is_full else _bars(lane.times, start, minutes)
    path = path_of(one.name, one.tenant)
    return LaneRow(one.name, one.tenant, path, state_of(one, now), bars, lane.count)


def _bars(times: list[datetime], start: datetime, minutes: int) -> str:
    """Draw two starts in one minute as one bar."""
    places = dict.fromkeys((at - start) // _MINUTE for at in times)
    return "".join(_bar(x, max(4, min(minutes, 1440 - x))) for x in places)


@lru_cache(maxsize=8192)
def _bar(x: int, width: int) -> str:
    return f"M{x} 3h{width}v14h-{width}z"


def _ticks(start: datetime, zone: tzinfo) -> list[tuple[int, str]]:
    """Return every second hour: its minute, and its label."""
    first = start.replace(minute=0) + timedelta(hours=1)
    found = []
    for number in range(24):
        at = first + timedelta(hours=number)
        local = at.astimezone(zone)
        if local.hour % 2 == 0 or local.minute:
            found.append(((at - start) // _MINUTE, f"{local:%H}"))
    return found


def _read(request: Request) -> CalendarQuery:
    given = request.query_params
    return CalendarQuery(
        days=_one_of(given.get("days", "7"), RANGES, "days"),
        text=given.get("text", "").strip() or None,
        job=given.get("job") or None,
        queue=given.get("queue") or None,
        tag=given.get("tag") or None,
        tenant=given.get("tenant"),
        hour=_instant(given.get("hour")),
        day=_one_of(given.get("day", "0"), range(RANGES[-1]), "day"),
    )


def _one_of(text: str, allowed: tuple[int, ...] | range, what: str) -> int:
    if not text.isdecimal() or int(text) not in allowed:
        raise FilterError(f"invalid {what} {text!r}")
    return int(text)


def _instant(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text.replace(" ", "+"))
    except ValueError:
        raise FilterError(f"invalid hour {text!r}") from None
    if at.tzinfo is None or not 2000 <= at.year <= 2200:
        raise FilterError(f"hour {text!r} is out of range or has no time zone")
    return at


routes = [Route("/calendar", show_calendar)]
