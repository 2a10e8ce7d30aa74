"""The list of runs: what there is, what it waits for, what went wrong."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.model.run import RunInfo
from rota.model.run_filter import STATES
from rota.model.stats import StateCounts
from rota.web.context import Page
from rota.web.desk import WebDesk
from rota.web.run_query import RunQuery
from rota.web.run_words import Note, can_cancel, can_retry, counted, note_of

PAGE_SIZE = 50


@dataclass(frozen=True, slots=True)
class RunRow:
    id: int
    path: str
    state: str
    job: str
    queue: str
    tenant: str
    tags: list[str]
    attempts: int
    max_attempts: int
    created_at: datetime
    duration_ms: float | None
    running_since: datetime | None
    progress: float | None
    note: Note
    can_cancel: bool
    can_retry: bool

    @classmethod
    def of(cls, run: RunInfo, now: datetime) -> RunRow:
        return cls(
            id=run.id,
            path=f"/runs/{run.id}",
            state=run.state,
            job=run.job,
            queue=run.queue,
            tenant=run.tenant,
            tags=run.tags,
            attempts=counted(run),
            max_attempts=run.max_attempts,
            created_at=run.created_at,
            duration_ms=run.duration_ms,
            running_since=run.started_at if run.state == "running" else None,
            progress=run.progress if run.state == "running" else None,
            note=note_of(run, now),
            can_cancel=can_cancel(run),
            can_retry=can_retry(run),
        )


@dataclass(frozen=True, slots=True)
class Tab:
    """A state, how many runs are in it, and its list. Counts are of all runs, so they are shown
    only where nothing narrows the list."""

    state: str | None
    path: str
    count: int | None


@dataclass(frozen=True, slots=True)
class RunsPage(Page):
    template: ClassVar[str] = "runs/list.html"
    section: ClassVar[str] = "runs"

    runs: list[RunRow]
    query: RunQuery
    tabs: list[Tab]
    older: str | None
    searched_to: datetime | None

    @property
    def title(self) -> str:
        return "Runs"


async def list_runs(request: Request) -> Response:
    desk = WebDesk(request)
    query = RunQuery.read(request.query_params)
    if text := request.query_params.get("q", "").strip():
        # A number is the id of a run; everything else narrows.
        return desk.go(f"/runs/{text}" if text.isdecimal() else query.with_text(text).path())
    found = await desk.runs.page(limit=PAGE_SIZE, cursor=query.cursor, **query.filters)
    now = await desk.clock.now()
    page = RunsPage(
        runs=[RunRow.of(run, now) for run in found.runs],
        query=query,
        tabs=await _tabs(desk, query),
        older=None if found.cursor is None else query.path(cursor=found.cursor),
        searched_to=found.searched_to,
    )
    return await desk.show(page)


async def _tabs(desk: WebDesk, query: RunQuery) -> list[Tab]:
    is_whole = all(key == "state" for key, _ in query.parts)
    counts = (await desk.stats.get(most_jobs=1)).states if is_whole else None
    return [
        Tab(None, query.tab(None), None if counts is None else _sum(counts)),
        *(
            Tab(state, query.tab(state), None if counts is None else getattr(counts, state))
            for state in STATES
        ),
    ]


def _sum(counts: StateCounts) -> int:
    return sum(getattr(counts, state) for state in STATES)


routes = [Route("/runs", list_runs)]
