"""Schedules declared by a job's code: `@app.job(schedules=[rota.cron("0 8 * * *")])`.

Declarations are checked here and stored when the application starts. From then on they are rows of
`rota.schedules` that operators may change; their changes are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypedDict, Unpack

from rota.errors import JobError, TimingError
from rota.jobs import schedule_options
from rota.jobs.schedule_options import Required, Seconds
from rota.jobs.values import check_duration, check_text
from rota.model.durations import Duration
from rota.model.schedule import CatchUp, Overlap, Requirement


class DeclaredArguments(TypedDict, total=False):
    """Arguments that every timing accepts, for type checkers."""

    name: str
    description: str
    tags: Iterable[str]
    metadata: Mapping[str, Any]
    payload: Mapping[str, Any] | None
    enabled: bool
    start_at: datetime | None
    end_at: datetime | None
    max_runs: int | None
    jitter: Seconds
    burst_allowed: bool
    calendar: str | None
    on_closed: Literal["skip", "next_day"]
    catch_up: CatchUp
    catch_up_window: Seconds | None
    catch_up_limit: int
    grace: Seconds
    overlap: Overlap
    max_concurrent_runs: int
    pause_after_failures: int | None
    requires: Iterable[Required]
    shadow: bool
    delete_when_finished: bool
    queue: str | None
    priority: int | None
    max_attempts: int | None
    timeout: Seconds | None
    run_tags: Iterable[str] | None
    run_metadata: Mapping[str, Any] | None


class DeclaredKeywords(DeclaredArguments, total=False):
    """`DeclaredArguments`, also by the names of columns and ScheduleInfo."""

    jitter_seconds: Seconds
    catch_up_seconds: Seconds | None
    grace_seconds: Seconds
    is_shadow: bool
    timeout_seconds: Seconds | None
    is_enabled: bool


@dataclass(frozen=True, slots=True)
class DeclaredSchedule:
    """A checked declaration, as columns of `rota.schedules`; without a name, it gets the job's."""

    name: str | None
    columns: Mapping[str, Any]


def cron(
    expression: str,
    *,
    timezone: str = "UTC",
    with_seconds: bool = False,
    gap: Literal["run_after", "skip"] = "run_after",
    fold: Literal["first", "second", "both"] = "first",
    **policies: Unpack[DeclaredKeywords],
) -> DeclaredSchedule:
    """Run at the times of a cron expression, in a time zone."""
    when = {"cron": expression, "timezone": timezone, "gap": gap, "fold": fold}
    return _declare({**when, "with_seconds": with_seconds}, policies)


def every(
    interval: Duration,
    *,
    every_from: Literal["start", "end"] = "start",
    **policies: Unpack[DeclaredKeywords],
) -> DeclaredSchedule:
    """Run at an interval in seconds (minimum 1), measured without drift, or from the end of the
    last run with `every_from="end"`."""
    return _declare({"every": interval, "every_from": every_from}, policies)


def once(at: datetime, **policies: Unpack[DeclaredKeywords]) -> DeclaredSchedule:
    """Run once, at this time."""
    return _declare({"at": at}, policies)


def on_start(
    when: Literal["once", "release", "start"] = "once", **policies: Unpack[DeclaredKeywords]
) -> DeclaredSchedule:
    """Run when workers start, on one of them: `once` ever (until it has succeeded), once per
    `release`, or at each `start` of the application's workers after none was live."""
    return _declare({"init": when}, policies)


def after(name: str, within: Duration | None = None) -> Requirement:
    """For `requires`: the job or schedule with this name must have succeeded, in its last run or
    within this many seconds."""
    try:
        seconds = None if within is None else check_duration("within", within)
        return Requirement(check_text("after", name, most=200), seconds)
    except ValueError as error:
        raise JobError(str(error)) from None


def name_schedules(job: str, declared: Iterable[DeclaredSchedule]) -> list[dict[str, Any]]:
    """Name the schedules: unnamed ones get the job's name, then name-2, name-3."""
    named = []
    for number, schedule in enumerate(declared, start=1):
        own = job if number == 1 else f"{job}-{number}"
        named.append({"name": schedule.name or own, **schedule.columns})
    names = [str(columns["name"]) for columns in named]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise JobError(f'job "{job}": two of its schedules have the same name: {", ".join(twice)}')
    return named


def _declare(when: Mapping[str, Any], policies: Mapping[str, Any]) -> DeclaredSchedule:
    given: Any = {**when, **policies}
    name = given.pop("name", None)
    try:
        columns = schedule_options.complete(schedule_options.columns(given))
        columns["is_enabled"] = columns["is_enabled"] is not False
        schedule_options.check_timing(columns)
        schedule_options.refuse_ignored(columns, columns)
        if name is not None:
            check_text("name", name, most=200)
    except (ValueError, TimingError) as error:
        raise JobError(f"invalid schedule: {error}") from None
    return DeclaredSchedule(name, columns)
