"""The list of jobs: settings, waiting and running runs, and the last hour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.api.schemas.values import read_cursor
from rota.model.cursors import write_cursor
from rota.model.job import JobInfo
from rota.model.queue import JobDepth
from rota.model.stats import Activity
from rota.web.context import Page
from rota.web.page_scope import PageScope

PAGE_SIZE = 50
_MOST_JOBS = 1000
_KIND = "jobs name"


@dataclass(frozen=True, slots=True)
class JobRow:
    job: JobInfo
    path: str
    depth: JobDepth
    activity: Activity | None

    @property
    def state(self) -> str:
        return state_of(self.job)

    @property
    def is_unknown(self) -> bool:
        """Runs wait, and no worker knows the job."""
        return bool(self.depth.queued) and not self.job.workers


@dataclass(frozen=True, slots=True)
class JobQuery:
    """The filter in the address."""

    text: str | None = None
    queue: str | None = None
    tag: str | None = None
    disabled: bool = False
    system: bool = False
    cursor: str | None = None

    @property
    def tokens(self) -> list[tuple[str, str, str]]:
        """Every active filter, with the list without it."""
        given = {"text": self.text, "queue": self.queue, "tag": self.tag}
        return [(key, value, self.path(**{key: None})) for key, value in given.items() if value]

    def path(self, **changes: str | None) -> str:
        """Return the address with some parts changed, at the first page."""
        given = {
            "text": self.text,
            "queue": self.queue,
            "tag": self.tag,
            "disabled": "1" if self.disabled else None,
            "system": "1" if self.system else None,
        } | changes
        pairs = {key: value for key, value in given.items() if value}
        return f"/jobs?{urlencode(pairs)}" if pairs else "/jobs"


@dataclass(frozen=True, slots=True)
class JobsPage(Page):
    template: ClassVar[str] = "jobs/list.html"
    section: ClassVar[str] = "jobs"

    jobs: list[JobRow]
    query: JobQuery
    next: str | None

    @property
    def title(self) -> str:
        return "Jobs"


def path_of(name: str) -> str:
    return f"/jobs/{quote(name, safe='')}"


def state_of(job: JobInfo) -> str:
    if job.deleted_from_code_at is not None:
        return "finished"
    return "active" if job.is_enabled else "disabled"


async def list_jobs(request: Request) -> Response:
    scope, query = PageScope(request), _read(request)
    found = await scope.jobs.page(
        text=query.text,
        queue=query.queue,
        tag=query.tag,
        enabled=False if query.disabled else None,
        system=query.system,
        cursor=read_cursor(_KIND, query.cursor, float, str),
        limit=PAGE_SIZE,
    )
    depths = await scope.jobs.depths()
    stats = await scope.stats.get(most_jobs=_MOST_JOBS)
    activity = {job.job: job.activity for job in stats.jobs}
    rows = [
        JobRow(
            job, path_of(job.name), depths.get(job.name, no_depth(job.name)), activity.get(job.name)
        )
        for job in found.items
    ]
    onward = found.cursor and query.path(cursor=write_cursor(_KIND, *found.cursor))
    return await scope.show(JobsPage(rows, query, onward or None))


def no_depth(name: str) -> JobDepth:
    return JobDepth(name, 0, 0, 0, 0, 0, None)


def _read(request: Request) -> JobQuery:
    given = request.query_params
    return JobQuery(
        text=given.get("text", "").strip()[:200] or None,
        queue=given.get("queue") or None,
        tag=given.get("tag") or None,
        disabled=given.get("disabled") == "1",
        system=given.get("system") == "1",
        cursor=given.get("cursor"),
    )


routes = [Route("/jobs", list_jobs)]
