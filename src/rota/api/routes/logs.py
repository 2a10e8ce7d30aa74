"""What handlers wrote, of all runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query

from rota.api.pages import log_page
from rota.api.routing import router
from rota.api.schemas.runs import LogPage
from rota.api.schemas.values import BIGGEST_ID, Cursor, Instant, Limit, read_cursor
from rota.api.state import AtDesk

routes = router("logs")
Level = Literal["debug", "info", "warning", "error", "critical"]


@routes.get("/logs", response_model=LogPage, operation_id="search_logs")
async def search_logs(
    desk: AtDesk,
    text: Annotated[
        str,
        Query(max_length=1000, description='Words: `timeout "order 17" -retry user:7`.'),
    ] = "",
    job: Annotated[str | None, Query(max_length=200, description="Of this job.")] = None,
    run_id: Annotated[int | None, Query(ge=1, le=BIGGEST_ID, description="Of this run.")] = None,
    attempt: Annotated[
        int | None, Query(ge=1, le=2**31 - 1, description="Of this attempt.")
    ] = None,
    level: Annotated[Level | None, Query(description="Of this level or a graver one.")] = None,
    tenant: Annotated[str | None, Query(max_length=200, description="Of this tenant.")] = None,
    queue: Annotated[
        str | None, Query(max_length=100, description="Of runs in this queue.")
    ] = None,
    worker: Annotated[
        int | None, Query(ge=1, le=BIGGEST_ID, description="Written by this worker.")
    ] = None,
    since: Annotated[Instant | None, Query(description="At this time or later.")] = None,
    until: Annotated[Instant | None, Query(description="Before this time.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Any:
    """Lines that match, the newest first. A long search stops after a while, says how far back it
    has looked, and goes on by its cursor."""
    place = read_cursor("logs", cursor, str)
    found = await desk.logs.search(
        text, job=job, run_id=run_id, attempt=attempt, level=level, tenant=tenant, queue=queue,
        worker=worker, since=since, until=until, limit=limit, cursor=place[0] if place else None,
    )  # fmt: skip
    return log_page("logs", found)
