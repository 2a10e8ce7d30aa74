"""One job: statistics, settings, differences from its code, errors and schedules."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.model.error_group import ErrorGroup
from rota.model.job import JobInfo, SqlFunction
from rota.model.job_edits import Edit, edits_of
from rota.model.queue import JobDepth
from rota.model.schedule_info import ScheduleInfo
from rota.model.stats import Activity
from rota.model.worker import WorkerInfo
from rota.web.context import Page
from rota.web.forms import read_form
from rota.web.job_text import LABELS, RetentionRow, kept_of, said, snippet
from rota.web.operations import routes_of
from rota.web.page_scope import PageScope, zone_of
from rota.web.pages.jobs import no_depth, path_of, state_of
from rota.web.pages.schedules import path_of as schedule_path
from rota.web.payload_text import Property, properties_of
from rota.web.plots import Plot
from rota.web.stats_plots import SPANS, plots_of
from rota.web.why import WhyPanel, why_of

_SCHEDULES, _ERRORS = 20, 5


@dataclass(frozen=True, slots=True)
class Setting:
    """A field in words, with the value of the code if that differs."""

    field: str
    label: str
    value: str
    edit: Edit | None
    code: str


@dataclass(frozen=True, slots=True)
class JobPage(Page):
    template: ClassVar[str] = "jobs/one.html"
    section: ClassVar[str] = "jobs"

    job: JobInfo
    path: str
    state: str
    span: str
    spans: dict[str, tuple[str, int]]
    depth: JobDepth
    why: WhyPanel
    total: Activity
    plots: list[Plot]
    settings: list[Setting]
    drift: list[Setting]
    snippet: str
    kept: list[RetentionRow]
    properties: list[Property]
    function: SqlFunction | None
    schedules: list[tuple[ScheduleInfo, str]]
    workers: list[WorkerInfo]
    errors: list[ErrorGroup]
    failed: bool  # whether there are runs to retry

    @property
    def title(self) -> str:
        return self.job.name


@dataclass(frozen=True, slots=True)
class JobResetQuestion(Page):
    """Asks which settings are reset to the values in the code."""

    template: ClassVar[str] = "jobs/reset.html"
    section: ClassVar[str] = "jobs"

    job: JobInfo
    path: str
    drift: list[Setting]

    @property
    def title(self) -> str:
        return f"Reset job {self.job.name}"


async def show_job(request: Request) -> Response:
    scope, name = PageScope(request), PageScope(request).name()
    job = await scope.jobs.get(name)
    asked = request.query_params.get("range", "24h")
    span = asked if asked in SPANS else "24h"
    stats = await scope.stats.get(job=name, since=timedelta(hours=SPANS[span][1]), most_jobs=1)
    settings = settings_of(job)
    page = JobPage(
        job=job,
        path=path_of(name),
        state=state_of(job),
        span=span,
        spans=SPANS,
        depth=await _depth(scope, name),
        why=await why_of(scope, name, "job"),
        total=stats.total,
        plots=plots_of(stats, zone_of(request)),
        settings=settings,
        drift=drift_of(settings),
        snippet=snippet(edits_of(job)),
        kept=kept_of(job, scope.app.config.retention),
        properties=properties_of(job.payload_schema),
        function=await scope.jobs.function(name) if job.kind == "sql" else None,
        schedules=await _schedules(scope, name),
        workers=await _workers(scope, name),
        errors=await scope.ask(scope.app.errors).list(job=name, system=True, limit=_ERRORS),
        failed=bool((await scope.runs.page(job=name, states=["failed"], limit=1)).runs),
    )
    return await scope.show(page)


def settings_of(job: JobInfo) -> list[Setting]:
    edits = {edit.field: edit for edit in edits_of(job)}
    return [
        Setting(
            field,
            label,
            said(field, getattr(job, field)),
            edits.get(field),
            said(field, edits[field].code) if field in edits else "",
        )
        for field, label in LABELS.items()
    ]


def drift_of(settings: list[Setting]) -> list[Setting]:
    return [setting for setting in settings if setting.edit is not None and setting.edit.is_drift]


async def _depth(scope: PageScope, name: str) -> JobDepth:
    return (await scope.jobs.depths(name)).get(name, no_depth(name))


async def _schedules(scope: PageScope, name: str) -> list[tuple[ScheduleInfo, str]]:
    found = await scope.schedules.page(job=name, system=True, limit=_SCHEDULES)
    return [(schedule, schedule_path(schedule.name, schedule.tenant)) for schedule in found.items]


async def _workers(scope: PageScope, name: str) -> list[WorkerInfo]:
    return [one for one in await scope.workers.list() if name in one.jobs and one.state == "live"]


async def ask_reset(request: Request) -> Response:
    scope = PageScope(request)
    job = await scope.jobs.get(scope.name())
    question = JobResetQuestion(job, path_of(job.name), drift_of(settings_of(job)))
    return await scope.show(question)


async def follow(request: Request) -> Response:
    """Reset the ticked fields to the values of the code."""
    scope = PageScope(request)
    scope.check("jobs.update")
    form = await read_form(request)
    fields = [field for field in form.all("field") if field in LABELS]
    if not fields:
        return scope.go(path_of(scope.name()), "Nothing was selected, so nothing was changed")
    await scope.jobs.update(scope.name(), reset=fields, reason=form.text("reason"))
    words = ", ".join(LABELS[field].lower() for field in fields)
    return scope.go(path_of(scope.name()), f"Reset to the code: {words}")


routes = [
    Route("/jobs/{name}", show_job),
    Route("/jobs/{name}/follow", ask_reset),
    Route("/jobs/{name}/follow", follow, methods=["POST"]),
    *routes_of("jobs"),
]
