"""Log lines of all runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query

from rota.api.pages import log_page
from rota.api.routing import router
from rota.api.schemas.runs import LogPage
from rota.api.schemas.values import BIGGEST_ID, Cursor, Instant, Limit, read_cursor
from rota.api.state import Scoped

routes = router("logs")
Level = Literal["debug", "info", "warning", "error", "critical"]


@routes.get("/logs", response_model=LogPage, operation_id="search_logs")
async def search_logs(
    scope: Scoped,
    text: Annotated[
        str,
        Query(max_length=1000, description='Search terms: `timeout "order 17" -retry user:7`.'),
    ] = "",
    job: Annotated[str | None, Query(max_length=200, description="Filter by job.")] = None,
    run_id: Annotated[
        int | None, Query(ge=1, le=BIGGEST_ID, description="Only lines of this run.")
    ] = None,
    attempt: Annotated[
        int | None, Query(ge=1, le=2**31 - 1, description="Only lines of this attempt.")
    ] = None,
    level: Annotated[Level | None, Query(description="Minimum level.")] = None,
    tenant: Annotated[str | None, Query(max_length=200, description="Filter by tenant.")] = None,
    queue: Annotated[
        str | None, Query(max_length=100, description="Only lines of runs in this queue.")
    ] = None,
    worker: Annotated[
        int | None, Query(ge=1, le=BIGGEST_ID, description="Only lines written by this worker.")
    ] = None,
    since: Annotated[Instant | None, Query(description="Start of the period, inclusive.")] = None,
    until: Annotated[Instant | None, Query(description="End of the period, exclusive.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Any:
    """Search log lines, newest first. A long search stops at its time limit, reports how far back
    it has searched, and continues from its cursor.
    """
    place = read_cursor("logs", cursor, str)
    found = await scope.logs.search(
        text, job=job, run_id=run_id, attempt=attempt, level=level, tenant=tenant, queue=queue,
        worker=worker, since=since, until=until, limit=limit, cursor=place[0] if place else None,
    )  # fmt: skip
    return log_page("logs", found)
