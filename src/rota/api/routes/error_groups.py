"""Error groups: the list and a single group; the rest follows from their operations."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import Path, Query

from rota.api.operations import add_operations
from rota.api.pages import error_page
from rota.api.routing import router
from rota.api.schemas import error_groups as schemas
from rota.api.schemas.problem import problems
from rota.api.schemas.values import Cursor, Instant, Limit, read_cursor
from rota.api.state import Scoped
from rota.model.error_group import ErrorOrder

routes = router("errors")

GroupId = Annotated[str, Path(min_length=1, max_length=40, description="Error group ID.")]
DAY = timedelta(days=1)


@routes.get("/errors", response_model=schemas.ErrorGroupPage, operation_id="list_errors")
async def list_errors(
    scope: Scoped,
    standing: Annotated[
        list[schemas.Standing] | None,
        Query(description="Only groups with this standing; repeatable."),
    ] = None,
    job: Annotated[str | None, Query(max_length=200, description="Filter by job.")] = None,
    text: Annotated[
        str | None,
        Query(min_length=1, max_length=400, description="Text in the type, message or location."),
    ] = None,
    since: Annotated[
        Instant | None, Query(description="Only errors since this time; counts start there too.")
    ] = None,
    system: Annotated[bool, Query(description="Include errors of Rota's own jobs.")] = False,
    order: Annotated[
        ErrorOrder,
        Query(
            description="Sort order: most recent failure, most failures, or most recently first "
            "seen."
        ),
    ] = "last",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Any:
    """List failures grouped by type, location and message. Without `since`, counts cover the last
    day.
    """
    kind = f"errors {order}"
    found = await scope.errors.page(
        standings=tuple(standing) if standing else None,
        job=job,
        text=text,
        system=system,
        since=since,
        order=order,
        cursor=read_cursor(kind, cursor, float, str),
        limit=limit,
    )
    return error_page(kind, found)


@routes.get(
    "/errors/{group}",
    response_model=schemas.ErrorDetailsView,
    operation_id="get_error",
    responses=problems(404),
)
async def get_error(
    scope: Scoped,
    group: GroupId,
    since: Annotated[
        Instant | None, Query(description="Start of the counts. Default: the last day.")
    ] = None,
) -> Any:
    """Get one error group with the traceback of its last failure, and what its runs have in
    common.
    """
    return await scope.errors.get(group, since=since or DAY)


add_operations(routes, "errors")
