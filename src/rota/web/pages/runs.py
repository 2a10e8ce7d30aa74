"""The list of runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import ClassVar
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.model.bulk_action import BulkAction
from rota.model.run import RunInfo
from rota.model.run_counts import StateCount
from rota.model.run_filter import RunFilter, RunPage
from rota.model.run_view import RunView
from rota.model.states import RUN_STATES
from rota.web.context import Page
from rota.web.filters.runs import RunQuery
from rota.web.page_scope import PageScope, zone_of
from rota.web.run_text import Note, can_cancel, can_delete, can_retry, counted, note_of, told_of

PAGE_SIZE = 50
_MOST_KINDS = 6
# How long a page may search for runs, and for runs found by their payloads.
_SECONDS, _HEAVY_SECONDS = 0.03, 0.1


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
    error_type: str
    payload: list[tuple[str, str]]
    can_cancel: bool
    can_retry: bool
    verbs: str

    @classmethod
    def of(cls, run: RunInfo, now: datetime, types: Mapping[str, str]) -> RunRow:
        fitting = {"retry": can_retry(run), "cancel": can_cancel(run), "delete": can_delete(run)}
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
            error_type=types.get(run.error_group or "", ""),
            payload=told_of(run),
            can_cancel=can_cancel(run),
            can_retry=can_retry(run),
            verbs=" ".join(verb for verb, fits in fitting.items() if fits),
        )


@dataclass(frozen=True, slots=True)
class Tab:
    """A state, its list, and the count of the shown filter in it: `10,000+` if it is not exact,
    empty if it is unknown."""

    state: str | None
    path: str
    count: str


@dataclass(frozen=True, slots=True)
class ShownView:
    name: str
    path: str
    delete_path: str
    by: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class Kind:
    """An error group of some of the dead letters."""

    name: str
    about: str
    path: str
    runs: int
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class RunsPage(Page):
    template: ClassVar[str] = "runs/list.html"
    section: ClassVar[str] = "runs"

    runs: list[RunRow]
    query: RunQuery
    tabs: list[Tab]
    matching: str
    older: str | None
    searched_to: datetime | None
    views: list[ShownView]
    actions: list[BulkAction]
    kinds: list[Kind]

    @property
    def title(self) -> str:
        return "Runs"


async def list_runs(request: Request) -> Response:
    scope = PageScope(request)
    typed = request.query_params.get("q", "").strip()
    # A number is the id of a run; any other text narrows the list.
    if typed.isdecimal():
        return scope.go(f"/runs/{typed[:18]}")
    names = {"job": {job.name for job in await scope.jobs.list()}} if typed else {}
    query = RunQuery.read(request.query_params, zone_of(request), names)
    if typed and not query.error:
        return scope.go(query.path())
    seconds = _HEAVY_SECONDS if query.reads_payloads else _SECONDS
    found = await scope.runs.page(
        limit=PAGE_SIZE, cursor=query.after, seconds=seconds, **query.filters
    )
    counts = _beside(query, found, await _counts(scope, query))
    now = await scope.now()
    types = await scope.errors.types({run.error_group for run in found.runs if run.error_group})
    page = RunsPage(
        runs=[RunRow.of(run, now, types) for run in found.runs],
        query=query,
        tabs=_tabs(query, counts),
        matching=_matching(query, counts),
        older=query.at(None if found.cursor is None else str(found.cursor)),
        searched_to=found.searched_to,
        views=[_view(view, query) for view in await scope.views.list()],
        actions=list((await scope.bulk.page(is_open=True, limit=5)).items),
        kinds=await _kinds(scope, query) if query.dead else [],
    )
    return await scope.show_list(page, query)


async def _kinds(scope: PageScope, query: RunQuery) -> list[Kind]:
    """Return the most frequent error groups among the dead letters of the last month."""
    found = await scope.web.watch.kinds(query.filters.get("job"))
    groups = sorted((group for group in found if group.recent_runs), key=lambda it: -it.recent_runs)
    chosen = query.filters.get("error_group")
    return [
        Kind(
            name=f"{group.error_type}: {group.error}",
            about=", ".join(group.jobs[:3]),
            path=query.plus("group", group.id),
            runs=group.recent_runs,
            is_chosen=group.id == chosen,
        )
        for group in groups[:_MOST_KINDS]
    ]


async def _counts(scope: PageScope, query: RunQuery) -> list[StateCount]:
    """Count the runs of the filter without its states."""
    key = f"{query.tab(None)} {query.zone}"
    return await scope.web.run_counts.get(key, partial(scope.runs.counts, **query.filters))


def _beside(query: RunQuery, page: RunPage, counts: list[StateCount]) -> dict[str, StateCount]:
    """The counts, none of which is below what the page shows. The page has all that match if it is
    the first one and there is no other."""
    shown: Counter[str] = Counter(run.state for run in page.runs)
    wanted = RunFilter.of(query.filters).wanted_states or RUN_STATES
    is_whole = query.after is None and page.cursor is None
    return {
        it.state: it.beside(shown[it.state], are_all=is_whole and _has_all(query, it.state, wanted))
        for it in counts
    }


def _has_all(query: RunQuery, state: str, wanted: Sequence[str]) -> bool:
    """Whether the filter selects all runs in a state that it has otherwise: a dead letter is one of
    those that failed."""
    return state in wanted and not query.dead


def _tabs(query: RunQuery, counts: dict[str, StateCount]) -> list[Tab]:
    return [
        Tab(None, query.tab(None), _told(list(counts.values()))),
        *(Tab(state, query.tab(state), _told([counts[state]])) for state in RUN_STATES),
    ]


def _matching(query: RunQuery, counts: dict[str, StateCount]) -> str:
    """Return the count of the filter, with its states; empty if it is not counted."""
    if query.dead:
        return ""
    wanted = RunFilter.of(query.filters).wanted_states or RUN_STATES
    return _told([counts[state] for state in wanted])


def _told(counts: list[StateCount]) -> str:
    runs = sum(count.runs for count in counts)
    if all(count.is_exact for count in counts):
        return f"{runs:,}"
    return f"{runs:,}+" if runs else ""


def _view(view: RunView, query: RunQuery) -> ShownView:
    path = f"/runs?{view.query}"
    return ShownView(
        name=view.name,
        path=path,
        delete_path=f"/runs/views/{quote(view.name, safe='')}/delete",
        by=view.created_by,
        is_current=query.path() == path,
    )


routes = [Route("/runs", list_runs)]
