"""Schedules declared by a job's code: `@app.job(schedules=[rota.cron("0 8 * * *")])`.

Declarations are checked here and stored when the application starts. From then on they are rows of
`rota.schedules` that operators may change; their changes are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Unpack

from rota.errors import JobError, TimingError
from rota.jobs import schedule_options
from rota.jobs.values import check_duration, check_text
from rota.model.durations import Duration
from rota.model.schedule import Requirement
from rota.model.schedule_fields import EveryFrom, Fold, Gap, Init, PolicyKeywords


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
    gap: Gap = "run_after",
    fold: Fold = "first",
    **policies: Unpack[PolicyKeywords],
) -> DeclaredSchedule:
    """Run at the times of a cron expression, in a time zone."""
    when = {"cron": expression, "timezone": timezone, "gap": gap, "fold": fold}
    return _declare({**when, "has_seconds": with_seconds}, policies)


def every(
    interval: Duration,
    *,
    every_from: EveryFrom = "start",
    **policies: Unpack[PolicyKeywords],
) -> DeclaredSchedule:
    """Run at an interval in seconds (minimum 1), measured without drift, or from the end of the
    last run with `every_from="end"`."""
    return _declare({"interval_seconds": interval, "every_from": every_from}, policies)


def once(at: datetime, **policies: Unpack[PolicyKeywords]) -> DeclaredSchedule:
    """Run once, at this time."""
    return _declare({"run_at": at}, policies)


def on_start(when: Init = "once", **policies: Unpack[PolicyKeywords]) -> DeclaredSchedule:
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
