"""The overview: what needs attention, trends, recent errors, coming runs."""

from __future__ import annotations

import asyncio
import json
import shlex
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any, ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.model.error_group import ErrorGroup
from rota.model.job import JobInfo
from rota.model.overview import ComingSchedule
from rota.model.queue import SYSTEM_QUEUE
from rota.model.trend import Trend
from rota.operations.command_line import line_of
from rota.timing.load import Load
from rota.web.axes import AxisTime
from rota.web.context import Page
from rota.web.needs import More, Row, more, rows
from rota.web.page_scope import PageScope, zone_of
from rota.web.payload_text import arguments_in
from rota.web.plots import Plot
from rota.web.trend_plots import SPANS, plots_of

# What the schema of a string says that takes every text.
_OF_ANY_TEXT = {"type", "title", "description", "default", "examples"}


@dataclass(frozen=True, slots=True)
class Hour:
    """The number of runs planned in an hour; its time on the axis, if it is a round one."""

    runs: int
    tick: AxisTime | None


@dataclass(frozen=True, slots=True)
class FirstSteps:
    """What is done and what is left to do until the first run; `job` is one to enqueue, with the
    command that does so if its arguments are texts."""

    has_worker: bool
    job: str | None
    command: str


@dataclass(frozen=True, slots=True)
class OverviewPage(Page):
    template: ClassVar[str] = "overview/page.html"
    section: ClassVar[str] = "overview"

    total: int | None
    needs: list[Row]
    more: list[More]
    span: str
    spans: dict[str, tuple[str, int]]
    plots: list[Plot]
    failing: list[ErrorGroup]
    coming: list[ComingSchedule]
    hours: list[Hour]
    planned: int | None
    first: FirstSteps | None

    @property
    def title(self) -> str:
        return "Overview"


async def show(request: Request) -> Response:
    scope = PageScope(request)
    asked = request.query_params.get("range", "1h")
    span = asked if asked in SPANS else "1h"
    watch, zone = scope.web.watch, zone_of(request)
    found = await watch.attention()
    trend, load = await asyncio.gather(
        watch.trend(timedelta(hours=SPANS[span][1])), scope.web.loads.get(scope, 1, str(zone))
    )
    page = OverviewPage(
        total=None if found is None else found.total,
        needs=[] if found is None else rows(found),
        more=[] if found is None else more(found),
        span=span,
        spans=SPANS,
        plots=plots_of(trend, zone),
        failing=await watch.errors(),
        coming=await watch.coming(),
        hours=hours_of(load, trend, zone),
        planned=None if load is None else load.total,
        first=await first_steps(scope),
    )
    return await scope.show(page)


async def first_steps(scope: PageScope) -> FirstSteps | None:
    """Return None once there has been a run."""
    web = scope.web
    web.has_runs = web.has_runs or await _has_runs(scope)
    if web.has_runs:
        return None
    jobs = sorted(
        await scope.jobs.list(), key=lambda job: bool(arguments_in(job.payload_schema)[1])
    )
    job = jobs[0] if jobs else None
    return FirstSteps(
        has_worker=bool((await scope.workers.page(status="live", limit=1)).items),
        job=job.name if job else None,
        command=_enqueuing(job) if job else "",
    )


async def _has_runs(scope: PageScope) -> bool:
    """Whether there is a run, or was one before retention removed it."""
    if (await scope.runs.page(limit=1)).runs:
        return True
    attempts = (await scope.stats.changes()).attempts
    return any(queue != SYSTEM_QUEUE for _, queue, _ in attempts)


def _enqueuing(job: JobInfo) -> str:
    """Return the command that enqueues a run, if a text will do for each argument."""
    properties, needed = arguments_in(job.payload_schema)
    if not all(_is_any_text(properties.get(name)) for name in needed):
        return ""
    payload = json.dumps(dict.fromkeys(needed, "world"))
    line = line_of("runs", "enqueue", job.name)
    return f"{line} {shlex.quote(payload)}" if needed else line


def _is_any_text(shape: Any) -> bool:
    return (
        isinstance(shape, dict) and shape.get("type") == "string" and shape.keys() <= _OF_ANY_TEXT
    )


def hours_of(load: Load | None, trend: Trend, zone: tzinfo) -> list[Hour]:
    """Return the next 24 hours, from this hour on, in the viewer's zone."""
    if load is None:
        return []
    begun: datetime = trend.at.astimezone(zone).replace(minute=0, second=0, microsecond=0)
    by_day = {day.day: day.hours for day in load.days}
    found = []
    for n in range(24):
        # In real time: an hour that occurs twice is listed twice.
        at = (begun.astimezone(trend.at.tzinfo) + timedelta(hours=n)).astimezone(zone)
        counts = by_day.get(at.date())
        tick = AxisTime(n / 24 * 100, f"{at:%H}:00") if at.hour % 6 == 0 else None
        found.append(Hour(counts[at.hour] if counts else 0, tick))
    return found


routes = [Route("/", show)]
