"""Workers: the list, one worker with its runs and resource use; drain, stop, resume."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, get_args
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.api.schemas.values import read_cursor
from rota.errors import FilterError
from rota.model.cursors import write_cursor
from rota.model.overview import RunningRun
from rota.model.run_filter import RunPage
from rota.model.states import WorkerStatus
from rota.model.worker import WorkerInfo
from rota.web.context import Page
from rota.web.operations import path_of, routes_of
from rota.web.page_scope import PageScope

STATES: tuple[WorkerStatus, ...] = get_args(WorkerStatus)
PAGE_SIZE = 50
_COUNTED = 1000
_TROUBLES = ("stuck", "silent", "failing")
_PAST = ("lost", "gone")
_RUNS, _FAILED = 100, 8


@dataclass(frozen=True, slots=True)
class WorkerRow:
    worker: WorkerInfo
    path: str
    news: str
    run: RunningRun | None = None  # the one that started last, of a worker that is stuck


@dataclass(frozen=True, slots=True)
class WorkerQuery:
    """The filter in the address."""

    status: WorkerStatus | None = None
    host: str | None = None
    cursor: str | None = None

    @property
    def states(self) -> tuple[WorkerStatus, ...]:
        return STATES

    def path(self, **changes: str | None) -> str:
        given = {"status": self.status, "host": self.host} | changes
        pairs = {key: value for key, value in given.items() if value}
        return f"/workers?{urlencode(pairs)}" if pairs else "/workers"


@dataclass(frozen=True, slots=True)
class WorkersPage(Page):
    template: ClassVar[str] = "workers/list.html"
    section: ClassVar[str] = "workers"

    workers: list[WorkerRow]
    query: WorkerQuery
    tabs: list[tuple[str, str]]
    next: str | None

    @property
    def title(self) -> str:
        return "Workers"


@dataclass(frozen=True, slots=True)
class WorkerPage(Page):
    template: ClassVar[str] = "workers/one.html"
    section: ClassVar[str] = "workers"

    worker: WorkerInfo
    path: str
    news: str
    runs: list[RunningRun]
    failed: RunPage
    can_be_told: bool
    run: RunningRun | None  # that blocks it

    @property
    def title(self) -> str:
        return f"Worker {self.worker.id}"


async def list_workers(request: Request) -> Response:
    """Those with trouble first, then the newest."""
    scope, query = PageScope(request), _read(request)
    counted = await scope.workers.page(host=query.host, limit=_COUNTED)
    found = await scope.workers.page(
        status=query.status,
        host=query.host,
        cursor=read_cursor("workers newest", query.cursor, int),
        limit=PAGE_SIZE,
    )
    troubled = [one for one in counted.items if one.status in _TROUBLES and query.status is None]
    shown = [one for one in found.items if one.status not in _TROUBLES or query.status is not None]
    first = troubled if query.cursor is None else []
    rows = [await _row(scope, worker) for worker in [*first, *shown]]
    onward = found.cursor and query.path(cursor=write_cursor("workers newest", *found.cursor))
    tabs = _tabs(query, counted.items, "+" if counted.cursor else "")
    return await scope.show(WorkersPage(rows, query, tabs, onward or None))


async def _row(scope: PageScope, worker: WorkerInfo) -> WorkerRow:
    return WorkerRow(
        worker, path_of("workers", worker.id), news_of(worker), await _blocking(scope, worker)
    )


async def _blocking(scope: PageScope, worker: WorkerInfo) -> RunningRun | None:
    """Return the attempt that most likely blocks the event loop of a worker that is stuck."""
    if worker.status != "stuck":
        return None
    running = await scope.workers.running(worker.id, limit=_RUNS)
    return max(running, key=lambda one: (one.started_at, one.id), default=None)


def _tabs(query: WorkerQuery, current: Sequence[WorkerInfo], more: str) -> list[tuple[str, str]]:
    """Return states with the number of workers, those of the past without."""
    counts = Counter(worker.status for worker in current)
    tabs = [("", f"{len(current):,}{more}")]
    tabs += [
        (state, f"{counts[state]:,}{more}")
        for state in STATES
        if state not in _PAST and (counts[state] or state == query.status)
    ]
    return [*tabs, *((state, "") for state in _PAST)]


def _read(request: Request) -> WorkerQuery:
    given = request.query_params
    status = given.get("status") or None
    if status is not None and status not in STATES:
        raise FilterError(f"unknown state {status!r}", hint=f"choose from {', '.join(STATES)}")
    return WorkerQuery(status, given.get("host") or None, given.get("cursor"))


def news_of(worker: WorkerInfo) -> str:
    """Return what an operator has to know about the worker besides its state."""
    if worker.status == "silent":
        return "Its lease expired, and no other worker is live to rescue its runs."
    if worker.status == "stuck":
        return "Its event loop is blocked by a handler"
    if worker.status == "failing":
        return f"Live, but failing: {worker.trouble}"
    if worker.status == "asleep":
        return f"It has closed its connections; send SIGUSR1 to process {worker.pid} to wake it."
    if worker.is_draining:
        return _draining(worker)
    if worker.isolating_run is not None:
        return f"Isolates run {worker.isolating_run}, because a worker was lost while running it."
    if worker.is_polling:
        return "Polls for work: it has no session that can receive notifications."
    return ""


def _draining(worker: WorkerInfo) -> str:
    does = "Finishes its running attempts, then waits"
    if worker.is_to_stop:
        does = (
            "Stops at once" if worker.is_to_hurry else "Finishes its running attempts, then stops"
        )
    if worker.drain_seen_at is None:
        does = "Has not received the request yet"
    reason = f": “{worker.drain_reason}”" if worker.drain_reason else ""
    return f"{does}. Requested by {worker.drain_requested_by}{reason}."


async def show_worker(request: Request) -> Response:
    scope, worker_id = PageScope(request), request.path_params["id"]
    worker = await scope.workers.get(worker_id)
    return await scope.show(
        WorkerPage(
            worker=worker,
            path=path_of("workers", worker_id),
            news=news_of(worker),
            runs=await scope.workers.running(worker_id, limit=_RUNS),
            failed=await scope.runs.page(
                worker=worker_id,
                states=["failed"],
                ended_since=worker.started_at,
                limit=_FAILED,
            ),
            can_be_told=worker.state == "live",
            run=await _blocking(scope, worker),
        )
    )


routes = [
    Route("/workers", list_workers),
    Route("/workers/{id:int}", show_worker),
    *routes_of("workers"),
]
