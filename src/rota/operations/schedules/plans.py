"""Commands about schedules that need the clock, a calendar or the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from rota.errors import FilterError, TimingError
from rota.jobs.schedule_options import TIMING, refuse_ignored, stored
from rota.model.field_values import past_instant
from rota.model.fields import Moment
from rota.model.list_filters import ScheduleFilters
from rota.model.page import Page
from rota.model.schedule import timing_arguments
from rota.model.schedule_info import BackfillInfo, ScheduleInfo
from rota.operations.commands import Cursor
from rota.operations.schedules import times
from rota.postgres.clock import read_clock
from rota.postgres.plans import Plan
from rota.postgres.schedules import calendars, schedules
from rota.postgres.schedules import lists as schedule_lists
from rota.postgres.steps import OnProgress
from rota.timing.calendar import Calendar
from rota.timing.nominal import in_utc
from rota.timing.preview import PreviewRow
from rota.timing.timing import Timing


@dataclass(frozen=True, slots=True)
class PreviewRange:
    """The times to list, and the zone of their viewer."""

    count: int | None = None
    after: datetime | None = None
    until: datetime | None = None
    viewer_zone: str | None = None


# Times per statement of a backfill; progress is reported after each statement.
_PORTION = 500


class BackfillOptions(NamedTuple):
    dry_run: bool
    rate: float | None
    priority: int | None
    again: bool
    reason: str | None
    on_progress: OnProgress | None


def unsaved_timing(given: Mapping[str, Any]) -> Timing:
    """Return the timing of some columns; raise TimingError if it cannot be computed."""
    refuse_ignored(given, given)
    return Timing.of(**timing_arguments({name: given.get(name) for name in (*TIMING, "anchor_at")}))


def preview_unsaved(given: Mapping[str, Any], window: PreviewRange) -> list[PreviewRow]:
    """Preview a timing without a calendar, after a given instant, without reading the database."""
    if window.after is None:
        raise TimingError("a preview without a database requires `after`")
    return _coming(unsaved_timing(stored(given)), window.after, window)


def preview(
    name: str | None, tenant: str, given: Mapping[str, Any], window: PreviewRange
) -> Plan[list[PreviewRow]]:
    if name is not None:
        if given:
            raise TimingError("pass the name of a schedule or a timing, not both")
        return (yield from _preview_stored(name, tenant, window))
    given = stored(given)
    timing = unsaved_timing(given)
    calendar = yield from _calendar(given.get("calendar"))
    after = window.after or (yield from read_clock())
    return _coming(timing, after, window, calendar, given.get("on_closed", "skip"))


def _coming(
    timing: Timing,
    after: datetime,
    window: PreviewRange,
    calendar: Calendar | None = None,
    on_closed: str = "skip",
) -> list[PreviewRow]:
    return times.coming(
        timing,
        after,
        count=window.count,
        until=window.until,
        viewer_zone=window.viewer_zone,
        calendar=calendar,
        on_closed=on_closed,
    )


def _preview_stored(name: str, tenant: str, window: PreviewRange) -> Plan[list[PreviewRow]]:
    schedule = yield from schedules.find_schedule(name, tenant)
    calendar = yield from _calendar(schedule.calendar)
    now = yield from read_clock()
    # An instant that an operator set replaces all regular times before it.
    moved = schedule.moved_to if window.after is None else None
    after = window.after or max(now, moved or now)
    rows = _coming(times.timing(schedule), after, window, calendar, schedule.on_closed)
    if moved is None or (window.until is not None and moved > window.until):
        return rows
    return times.moved_first(rows, moved, schedule, window.viewer_zone)


def _calendar(name: str | None) -> Plan[Calendar | None]:
    return None if name is None else times.calendar_of((yield from calendars.find_calendar(name)))


def backfill(
    name: str,
    tenant: str,
    from_at: Moment,
    until_at: Moment | None,
    options: BackfillOptions,
    *,
    actor: str | None,
) -> Plan[BackfillInfo]:
    schedule = yield from schedules.find_schedule(name, tenant)
    now = yield from read_clock()
    first, last = (
        in_utc(past_instant(at, now) or now, name)
        for at, name in ((from_at, "from_at"), (until_at, "until_at"))
    )
    _check_period(first, last, now)
    calendar = yield from _calendar(schedule.calendar)
    wanted = times.to_fill(schedule, first, last, calendar)
    ran = (
        set() if options.again else (yield from schedules.times_that_ran(schedule.id, first, last))
    )
    found = [at for at in wanted if at not in ran]
    left_out = [at for at in wanted if at in ran]
    answer = BackfillInfo(name, first, last, found, len(left_out), True, ran=left_out)
    if options.dry_run:
        return answer
    return (yield from _fill(schedule, answer, now, options, actor))


def _fill(
    schedule: ScheduleInfo,
    answer: BackfillInfo,
    now: datetime,
    options: BackfillOptions,
    actor: str | None,
) -> Plan[BackfillInfo]:
    given = schedules.Backfill(
        schedule.name,
        schedule.tenant,
        answer.from_at,
        answer.until_at,
        options.priority,
        options.reason,
        actor,
        len(answer.times),
    )
    step = timedelta(minutes=1 / options.rate) if options.rate else timedelta()
    since = times.intervals(schedule, answer.times)
    number: int | None = None
    runs: list[int] = []
    for first in range(0, max(1, len(answer.times)), _PORTION):
        part = slice(first, first + _PORTION)
        starts = [now + step * n for n in range(first, first + len(answer.times[part]))]
        number, more = yield from schedules.fill_portion(
            given, number, times=answer.times[part], since=since[part], starts=starts
        )
        runs += more
        if options.on_progress is not None:
            options.on_progress(len(more))
    return replace(answer, is_dry_run=False, backfill_id=number, run_ids=runs)


def _check_period(first: datetime, last: datetime, now: datetime) -> None:
    if last < first:
        raise TimingError(
            f"the period ends ({last.isoformat()}) before it starts ({first.isoformat()})",
            field="until_at",
        )
    if last > now:
        raise TimingError(
            "a backfill covers past times only: until_at is in the future", field="until_at"
        )


def page(
    order: str, cursor: Cursor, after_id: int | None, limit: int, filters: ScheduleFilters
) -> Plan[Page[ScheduleInfo]]:
    if after_id is not None:
        if order != "name" or cursor is not None:
            raise FilterError(
                "after_id requires the order name, and cannot be combined with cursor"
            )
        cursor = yield from schedule_lists.place_of(after_id)
    return (
        yield from schedule_lists.page_schedules(order=order, cursor=cursor, limit=limit, **filters)
    )
