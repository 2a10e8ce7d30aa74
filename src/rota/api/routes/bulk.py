"""Bulk actions: what is done to all runs of a filter, as objects that one can follow and steer."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query

from rota.api.pages import page_of
from rota.api.routing import router
from rota.api.schemas import bulk as schemas
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.schemas.values import BIGGEST_ID, Cursor, Limit, read_cursor
from rota.api.state import AtDesk
from rota.model.bulk_action import BulkState

routes = router("bulk")
ActionId = Annotated[int, Path(ge=1, le=BIGGEST_ID, description="The number of a bulk action.")]
_KIND = "bulk"
_STEP: Any = {
    "response_model": schemas.BulkActionView,
    "responses": problems(404, 409, *WITH_BODY),
}


@routes.get("/bulk", response_model=schemas.BulkActionPage, operation_id="list_bulk_actions")
async def list_bulk_actions(
    desk: AtDesk,
    state: Annotated[BulkState | None, Query(description="Only those in this state.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Any:
    """Bulk actions, the newest first."""
    place = read_cursor(_KIND, cursor, int)
    return page_of(_KIND, await desk.bulk.page(state=state, cursor=place, limit=limit))


@routes.post(
    "/bulk",
    response_model=schemas.BulkActionView,
    status_code=201,
    operation_id="start_bulk_action",
    responses=problems(*WITH_BODY),
)
async def start_bulk_action(desk: AtDesk, body: schemas.BulkRequest) -> Any:
    """Retry, cancel or delete all runs that fit a filter now. Answers at once; workers do it."""
    return await desk.bulk.start(
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
async def preview_bulk_action(desk: AtDesk, body: schemas.BulkPreviewRequest) -> Any:
    """How many runs an action would be done to, by job and state; at most 10,000 are counted."""
    return await desk.bulk.preview(body.verb, **_filters(body))


@routes.get(
    "/bulk/{action_id}",
    response_model=schemas.BulkActionView,
    operation_id="get_bulk_action",
    responses=problems(404),
)
async def get_bulk_action(desk: AtDesk, action_id: ActionId) -> Any:
    """One bulk action, and how far it is."""
    return await desk.bulk.get(action_id)


@routes.patch("/bulk/{action_id}", operation_id="throttle_bulk_action", **_STEP)
async def throttle_bulk_action(desk: AtDesk, action_id: ActionId, body: schemas.BulkChange) -> Any:
    """Let it go slower or faster from now on."""
    return await desk.bulk.throttle(action_id, body.rate, body.reason)


@routes.post("/bulk/{action_id}/pause", operation_id="pause_bulk_action", **_STEP)
async def pause_bulk_action(
    desk: AtDesk, action_id: ActionId, body: schemas.BulkStep | None = None
) -> Any:
    """Hold it after the batch that is under way."""
    return await desk.bulk.pause(action_id, body.reason if body else None)


@routes.post("/bulk/{action_id}/resume", operation_id="resume_bulk_action", **_STEP)
async def resume_bulk_action(
    desk: AtDesk, action_id: ActionId, body: schemas.BulkStep | None = None
) -> Any:
    """Let it go on where it was."""
    return await desk.bulk.resume(action_id, body.reason if body else None)


@routes.post("/bulk/{action_id}/stop", operation_id="stop_bulk_action", **_STEP)
async def stop_bulk_action(
    desk: AtDesk, action_id: ActionId, body: schemas.BulkStep | None = None
) -> Any:
    """End it for good; what was done stays done."""
    return await desk.bulk.stop(action_id, body.reason if body else None)


def _filters(body: schemas.BulkPreviewRequest) -> Any:
    return body.filter.model_dump(exclude_none=True)
