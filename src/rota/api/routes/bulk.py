"""Bulk actions on all runs that match a filter: start, list, show; the rest follows from their
operations."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query

from rota.api.operations import add_operations
from rota.api.pages import page_of
from rota.api.routing import router
from rota.api.schemas import bulk as schemas
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.schemas.values import BIGGEST_ID, Cursor, Limit, read_cursor
from rota.api.state import Scoped
from rota.model.bulk_action import BulkState

routes = router("bulk")
ActionId = Annotated[int, Path(ge=1, le=BIGGEST_ID, description="Bulk action ID.")]
_KIND = "bulk"


@routes.get("/bulk", response_model=schemas.BulkActionPage, operation_id="list_bulk_actions")
async def list_bulk_actions(
    scope: Scoped,
    state: Annotated[BulkState | None, Query(description="Filter by state.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Any:
    """List bulk actions, newest first."""
    place = read_cursor(_KIND, cursor, int)
    return page_of(_KIND, await scope.bulk.page(state=state, cursor=place, limit=limit))


@routes.post(
    "/bulk",
    response_model=schemas.BulkActionView,
    status_code=201,
    operation_id="start_bulk_action",
    responses=problems(*WITH_BODY),
)
async def start_bulk_action(scope: Scoped, body: schemas.BulkRequest) -> Any:
    """Retry, cancel or delete all runs that match a filter now. Returns at once; workers carry it
    out.
    """
    return await scope.bulk.start(
        body.verb,
        payload=body.payload,
        delay=body.delay_seconds,
        limit=body.limit,
        rate=body.rate,
        reason=body.reason,
        **_filters(body),
    )


@routes.post(
    "/bulk/preview",
    response_model=schemas.RunCountsView,
    operation_id="preview_bulk_action",
    responses=problems(*WITH_BODY),
)
async def preview_bulk_action(scope: Scoped, body: schemas.BulkPreviewRequest) -> Any:
    """Count the runs that a bulk action would affect, by job and state, up to 10,000."""
    return await scope.bulk.preview(body.verb, **_filters(body))


@routes.get(
    "/bulk/{action_id}",
    response_model=schemas.BulkActionView,
    operation_id="get_bulk_action",
    responses=problems(404),
)
async def get_bulk_action(scope: Scoped, action_id: ActionId) -> Any:
    """Get one bulk action and its progress."""
    return await scope.bulk.get(action_id)


def _filters(body: schemas.BulkPreviewRequest) -> Any:
    return body.model_dump(exclude_none=True)["filter"]


add_operations(routes, "bulk")
