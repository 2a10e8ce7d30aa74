"""One run: timeline, attempts, log, payload and result."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import SearchError
from rota.model.attempt import AttemptInfo
from rota.model.child_run import ChildRun
from rota.model.details import Handled, Isolation, RunDetails
from rota.model.documents import RunDocuments
from rota.model.log import LEVELS
from rota.model.run import RunInfo
from rota.web.context import Page
from rota.web.expected import Expected, expected_of
from rota.web.filters.list_query import Part as FilterPart
from rota.web.filters.logs import LogQuery
from rota.web.frames import Part, parts_of
from rota.web.life import LifeStep, steps_of
from rota.web.life_picture import MOST_ATTEMPTS, LifePicture, picture_of
from rota.web.log_lines import GLYPHS, LogRow
from rota.web.page_scope import PageScope, zone_of
from rota.web.pages.logs import Choice
from rota.web.pages.schedules import path_of
from rota.web.run_text import can_cancel, can_delete, can_retry, counted
from rota.web.why import WhyPanel, why_of

LOG_LINES = 200
MOST_CHILDREN = 50
# How much of a payload or a result the page shows; the whole is a download.
SHOWN_CHARACTERS = 30_000
FOLDED_CHARACTERS = 3_000
# The last log lines are written a moment after the end.
_LATE_LINES = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class ShownAttempt:
    attempt: AttemptInfo
    trace: list[Part]


@dataclass(frozen=True, slots=True)
class ShownDocument:
    """Payload or result. `is_folded`: closed until the viewer opens it."""

    text: str
    size: int
    is_whole: bool
    is_folded: bool

    @classmethod
    def of(cls, text: str | None, size: int | None) -> ShownDocument | None:
        if text is None or size is None:
            return None
        is_whole = len(text) < SHOWN_CHARACTERS
        return cls(text, size, is_whole, len(text) > FOLDED_CHARACTERS)


@dataclass(frozen=True, slots=True)
class RunLog:
    """The last lines that fit, and a link to the others. Without a `stream` no more lines
    follow."""

    lines: list[LogRow]
    text: str
    chosen: tuple[str, ...]
    levels: list[Choice]
    stream: str
    earlier: str | None
    all_path: str
    download_path: str
    error: str | None


@dataclass(frozen=True, slots=True)
class RunDetailPage(Page):
    template: ClassVar[str] = "runs/one.html"
    section: ClassVar[str] = "runs"

    run: RunInfo
    path: str
    isolation: Isolation | None
    handled: Handled | None
    attempts: list[ShownAttempt]
    most_attempts: int
    steps: list[LifeStep]
    picture: LifePicture | None
    expected: Expected
    why: WhyPanel
    payload: ShownDocument | None
    result: ShownDocument | None
    run_log: RunLog
    children: list[ChildRun]
    parent: int | None
    schedule_path: str
    used: int
    topics: str
    can_cancel: bool
    can_retry: bool
    can_delete: bool

    @property
    def title(self) -> str:
        return f"{self.run.job} {self.run.id}"


async def show_run(request: Request) -> Response:
    scope, run_id = PageScope(request), request.path_params["id"]
    details = await scope.runs.details(run_id, log_lines=0)
    documents = await scope.runs.documents(details.run, most=SHOWN_CHARACTERS)
    why = await why_of(scope, run_id, "run")
    now = await scope.now()
    usual = await scope.web.watch.usual(details.run.job)
    log = await _log(scope, details.run, now)
    children = await scope.runs.children(details.run, limit=MOST_CHILDREN)
    expected = expected_of(details.run, usual, now)
    return await scope.show(_page(details, documents, why, expected, log, children, now))


def _page(
    details: RunDetails,
    documents: RunDocuments,
    why: WhyPanel,
    expected: Expected,
    log: RunLog,
    children: list[ChildRun],
    now: datetime,
) -> RunDetailPage:
    run = details.run
    attempts = [
        ShownAttempt(attempt, parts_of(attempt.traceback) if attempt.traceback else [])
        for attempt in reversed(details.attempts)
    ]
    return RunDetailPage(
        run=run,
        path=f"/runs/{run.id}",
        isolation=details.isolation,
        handled=details.handled,
        attempts=attempts,
        most_attempts=MOST_ATTEMPTS,
        steps=steps_of(run, details.attempts, now),
        picture=picture_of(run, details.attempts, now),
        expected=expected,
        why=why,
        payload=ShownDocument.of(documents.payload, documents.payload_bytes),
        result=ShownDocument.of(documents.result, documents.result_bytes),
        run_log=log,
        children=children,
        parent=_parent(run.triggered_by),
        schedule_path=path_of(run.schedule, run.tenant) if run.schedule else "",
        used=counted(run),
        # An ended run changes only by an action of an operator.
        topics="audit" if run.finished_at else "runs,audit,queues,workers",
        can_cancel=can_cancel(run),
        can_retry=can_retry(run),
        can_delete=can_delete(run),
    )


def _parent(by: object) -> int | None:
    """Return the run that enqueued this one; ignore values that SQL callers stored."""
    found = by.get("run") if isinstance(by, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else None


async def _log(scope: PageScope, run: RunInfo, now: datetime) -> RunLog:
    given = scope.request.query_params
    chosen = tuple(level for level in LEVELS if level in given.getlist("level"))
    chosen = () if len(chosen) == len(LEVELS) else chosen
    text = given.get("q", "").strip()[:1000]
    parts = [FilterPart("run", str(run.id)), *(FilterPart("level", level) for level in chosen)]
    query = LogQuery(tuple(parts), text=text)
    lines, cursor, error = [], None, None
    try:
        found = await scope.logs.search(text, limit=LOG_LINES, **query.filters)
        lines, cursor = found.lines[::-1], found.cursor
    except SearchError as wrong:
        error = str(wrong)
    is_over = run.finished_at is not None and run.finished_at < now - _LATE_LINES
    return RunLog(
        lines=[LogRow.of(line, zone_of(scope.request), now, query.marked) for line in lines],
        text=text,
        chosen=chosen,
        levels=[_level(run.id, level, chosen, text) for level in reversed(LEVELS)],
        stream="" if is_over or error else query.path("/logs/stream"),
        earlier=query.path("/logs/earlier") if cursor else None,
        all_path=query.path("/logs"),
        download_path=query.path("/logs/download"),
        error=error,
    )


def _level(run_id: int, level: str, chosen: tuple[str, ...], text: str) -> Choice:
    wanted = [other for other in LEVELS if (other in chosen) != (other == level)]
    pairs = [("level", shown) for shown in wanted if len(wanted) < len(LEVELS)]
    pairs += [("q", text)] if text else []
    path = f"/runs/{run_id}?{urlencode(pairs)}#log" if pairs else f"/runs/{run_id}#log"
    return Choice(level, path, level in chosen, glyph=GLYPHS[level])


def downloading(name: str) -> Route:
    async def download(request: Request) -> Response:
        scope, run_id = PageScope(request), request.path_params["id"]
        documents = await scope.runs.documents(run_id)
        text = getattr(documents, name)
        headers = {"Content-Disposition": f'attachment; filename="run-{run_id}-{name}.json"'}
        return Response(text or "null", media_type="application/json", headers=headers)

    return Route(f"/runs/{{id:int}}/{name}.json", download)


routes = [
    Route("/runs/{id:int}", show_run),
    downloading("payload"),
    downloading("result"),
]
