"""Settings: retention, the configuration of this server, and the viewer's preferences."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import ClassVar
from zoneinfo import available_timezones

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.config import Config, describe
from rota.config.catalogue import Setting
from rota.config.sections.retention import RetentionSettings
from rota.model.formatting import plural
from rota.model.job import JobInfo
from rota.model.retention import RetentionResult
from rota.web.context import Page
from rota.web.forms import read_form
from rota.web.job_text import said
from rota.web.page_scope import PageScope
from rota.web.pages.jobs import path_of

PRUNING = ("rota.prune_runs", "rota.prune_logs")
# Keys of retention in the configuration, and their words.
_KEPT = {
    "run_days": "Finished runs, with their attempts",
    "failed_run_days": "Failed runs",
    "log_days": "Log lines",
    "occurrence_days": "Schedule decisions, finished schedules, backfills",
    "event_days": "Events, with their deliveries",
    "rollup_days": "Roll-ups (counts behind charts)",
    "audit_days": "Audit",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """How long one kind of data is kept, by which setting, and who set it."""

    what: str
    how_long: str
    key: str
    source: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A setting with its value; for a secret only whether it is set."""

    setting: Setting
    value: str
    source: str

    @property
    def is_set(self) -> bool:
        return self.source != "default"


@dataclass(frozen=True, slots=True)
class SettingsPage(Page):
    template: ClassVar[str] = "settings/page.html"
    section: ClassVar[str] = "settings"

    rules: list[Rule]
    own: list[tuple[JobInfo, str, str]]
    more_own: bool
    next_pass: datetime | None
    sections: list[tuple[str, list[Shown]]]
    is_all: bool
    file: str | None
    zones: list[str]

    @property
    def title(self) -> str:
        return "Settings"


@dataclass(frozen=True, slots=True)
class RetentionPage(Page):
    """The rows that retention would remove now, and the confirmation to do so."""

    template: ClassVar[str] = "settings/retention.html"
    section: ClassVar[str] = "settings"

    result: RetentionResult
    next_pass: datetime | None

    @property
    def title(self) -> str:
        return "What retention would remove"


async def show_settings(request: Request) -> Response:
    scope = PageScope(request)
    config = scope.app.config
    is_all = request.query_params.get("all") == "1"
    own = [job for job in await scope.jobs.list(system=True) if job.retention]
    return await scope.show(
        SettingsPage(
            rules=rules_of(config),
            own=[(job, path_of(job.name), said("retention", job.retention)) for job in own[:50]],
            more_own=len(own) > 50,
            next_pass=await _next_pass(scope),
            sections=sections_of(config, is_all=is_all),
            is_all=is_all,
            file=None if config.file is None else str(config.file),
            zones=zones(),
        )
    )


@cache
def zones() -> list[str]:
    """Read the names from the disk once."""
    return sorted(available_timezones())


def rules_of(config: Config) -> list[Rule]:
    return [
        Rule(what, days_of(config.retention, name), key := f"retention.{name}", config.source(key))
        for name, what in _KEPT.items()
    ]


def days_of(kept: RetentionSettings, name: str) -> str:
    days: int | None = getattr(kept, name)
    if days is not None:
        return plural(days, "day")
    return "as other runs" if name == "failed_run_days" else "forever"


def sections_of(config: Config, *, is_all: bool) -> list[tuple[str, list[Shown]]]:
    """Return the settings by section; without `is_all` only those that are not defaults."""
    found: dict[str, list[Shown]] = {}
    for setting in describe():
        shown = Shown(setting, config.show(setting.key), config.source(setting.key))
        if is_all or shown.is_set:
            found.setdefault(setting.section or "general", []).append(shown)
    return list(found.items())


async def _next_pass(scope: PageScope) -> datetime | None:
    times = []
    for job in PRUNING:
        found = await scope.schedules.page(job=job, system=True, limit=5)
        times += [one.next_run_at for one in found.items if one.next_run_at is not None]
    return min(times, default=None)


async def show_retention(request: Request) -> Response:
    """Count on request, not with each view of the settings."""
    scope = PageScope(request)
    return await scope.show(RetentionPage(await scope.retention.plan(), await _next_pass(scope)))


async def run_retention(request: Request) -> Response:
    """Start the same jobs that run at night: they pause between batches, and their runs can be
    watched."""
    scope = PageScope(request)
    scope.check("retention.run")
    reason = (await read_form(request)).text("reason")
    for schedule in PRUNING:
        await scope.schedules.trigger(schedule, reason=reason)
    see = f"/runs?job={PRUNING[0]}&system=1"
    return scope.go("/settings", "A retention pass has been requested", see=see)


routes = [
    Route("/settings", show_settings),
    Route("/settings/retention", show_retention),
    Route("/settings/retention", run_retention, methods=["POST"]),
]
