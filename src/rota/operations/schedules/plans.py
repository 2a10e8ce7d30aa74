"""Commands about schedules that need the clock, a calendar or the ledger."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal, TypedDict

from rota.errors import FilterError, TimingError
from rota.jobs.schedule_options import Seconds, refuse_ignored
from rota.model.list_filters import ScheduleFilters
from rota.model.page import Page
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


class Unsaved(TypedDict, total=False):
    """A timing to look at before it is saved. An interval counts from `anchor`."""

    cron: str | None
    every: Seconds | None
    at: datetime | None
    timezone: str
    gap: Literal["run_after", "skip"]
    fold: Literal["first", "second", "both"]
    with_seconds: bool
    start_at: datetime | None
    end_at: datetime | None
    anchor: datetime | None
    calendar: str | None
    on_closed: Literal["skip", "next_day"]


class PreviewRange(TypedDict):
    """The times to list, and the zone of their viewer."""

    count: int | None
    after: datetime | None
    until: datetime | None
    viewer_zone: str | None


# Times per statement of a backfill; progress is reported after each statement.
_PORTION = 500


class BackfillOptions(TypedDict):
    dry_run: bool
    rate: float | None
    priority: int | None
    again: bool
    reason: str | None
    on_progress: OnProgress | None


def unsaved_timing(given: Unsaved) -> Timing:
    """Return the timing of a preview; raise TimingError if it cannot be computed."""
    for name in given:
        if name not in Unsaved.__annotations__:
            there = ", ".join(Unsaved.__annotations__)
            raise TimingError(f"preview: unknown option {name}", hint=f"choose from {there}")
    gap, fold = given.get("gap") or "run_after", given.get("fold") or "first"
    with_seconds = bool(given.get("with_seconds"))
    refuse_ignored({"has_seconds": with_seconds, "gap": gap, "fold": fold}, given)
    return Timing.of(
        cron=given.get("cron"),
        interval_seconds=given.get("every"),
        run_at=given.get("at"),
        timezone=given.get("timezone") or "UTC",
        gap=gap,
        fold=fold,
        start_at=given.get("start_at"),
        end_at=given.get("end_at"),
        with_seconds=with_seconds,
        anchor=given.get("anchor"),
    )


def preview_unsaved(given: Unsaved, window: PreviewRange) -> list[PreviewRow]:
    """Preview a timing without a calendar, after a given instant, without reading the database."""
    if window["after"] is None:
        raise TimingError("a preview without a database requires `after`")
    return times.coming(
        unsaved_timing(given),
        window["after"],
        count=window["count"],
        until=window["until"],
        viewer_zone=window["viewer_zone"],
    )


def preview(
    name: str | None, tenant: str, given: Unsaved, window: PreviewRange
) -> Plan[list[PreviewRow]]:
    if name is not None:
        if any(value is not None for value in given.values()):
            raise TimingError("pass the name of a schedule or a timing, not both")
        return (yield from _preview_stored(name, tenant, window))
    timing = unsaved_timing(given)
    calendar = yield from _calendar(given.get("calendar"))
    after = window["after"] or (yield from read_clock())
    return times.coming(
        timing,
        after,
        count=window["count"],
        until=window["until"],
        viewer_zone=window["viewer_zone"],
        calendar=calendar,
        on_closed=given.get("on_closed") or "skip",
    )


def _preview_stored(name: str, tenant: str, window: PreviewRange) -> Plan[list[PreviewRow]]:
    schedule = yield from schedules.find_schedule(name, tenant)
    calendar = yield from _calendar(schedule.calendar)
    now = yield from read_clock()
    # An instant that an operator set replaces all regular times before it.
    moved = schedule.moved_to if window["after"] is None else None
    rows = times.coming(
        times.timing(schedule),
        window["after"] or max(now, moved or now),
        count=window["count"],
        until=window["until"],
        viewer_zone=window["viewer_zone"],
        calendar=calendar,
        on_closed=schedule.on_closed,
    )
    if moved is None or (window["until"] is not None and moved > window["until"]):
        return rows
    return times.moved_first(rows, moved, schedule, window["viewer_zone"])


def _calendar(name: str | None) -> Plan[Calendar | None]:
    return None if name is None else times.calendar_of((yield from calendars.find_calendar(name)))


def backfill(
    name: str,
    tenant: str,
    from_at: datetime,
    until_at: datetime,
    options: BackfillOptions,
    *,
    actor: str | None,
) -> Plan[BackfillInfo]:
    first, last = in_utc(from_at, "from_at"), in_utc(until_at, "until_at")
    _check_backfill(first, last, options)
    schedule = yield from schedules.find_schedule(name, tenant)
    now = yield from read_clock()
    if last > now:
        raise TimingError("a backfill covers past times only: until is in the future")
    calendar = yield from _calendar(schedule.calendar)
    wanted = times.to_fill(schedule, first, last, calendar)
    ran = set() if options["again"] else (
        yield from schedules.times_that_ran(schedule.id, first, last)
    )  # fmt: skip
    found = [at for at in wanted if at not in ran]
    left_out = [at for at in wanted if at in ran]
    answer = BackfillInfo(name, first, last, found, len(left_out), True, ran=left_out)
    if options["dry_run"]:
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
        schedule.name, schedule.tenant, answer.from_at, answer.until_at, options["priority"],
        options["reason"], actor, len(answer.times),
    )  # fmt: skip
    step = timedelta(minutes=1 / options["rate"]) if options["rate"] else timedelta()
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
        if options["on_progress"] is not None:
            options["on_progress"](len(more))
    return replace(answer, is_dry_run=False, backfill_id=number, run_ids=runs)


def _check_backfill(first: datetime, last: datetime, options: BackfillOptions) -> None:
    if last < first:
        raise TimingError(
            f"the period ends ({last.isoformat()}) before it starts ({first.isoformat()})"
        )
    rate, priority = options["rate"], options["priority"]
    if rate is not None and not 0 < rate <= 1_000_000:
        raise TimingError(
            f"rate must be above 0 and at most 1,000,000 runs per minute, not {rate!r}"
        )
    if priority is not None and not 0 <= priority <= 9:
        raise TimingError(f"priority must be from 0 to 9, not {priority!r}")


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
