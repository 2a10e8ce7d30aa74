"""Queues: list, show, pause, resume, set the cap."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Response

from rota.api.changes import set_changed, telling
from rota.api.etags import Version, set_etag, tagged
from rota.api.pages import page_of
from rota.api.routing import router
from rota.api.schemas import fleet as schemas
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.schemas.schedule_bodies import Pause
from rota.api.schemas.values import Cursor, Limit, one_time, read_cursor
from rota.api.state import RequestScope, Scoped
from rota.model.list_filters import QueueOrder

routes = router("queues")
QueueName = Annotated[str, Path(min_length=1, max_length=100, description="Queue name.")]
_ACTION: Any = {
    "response_model": schemas.QueueView,
    "responses": problems(404, 409, *WITH_BODY) | telling(),
}


@routes.get("/queues", response_model=schemas.QueuePage, operation_id="list_queues")
async def list_queues(
    scope: Scoped,
    paused: Annotated[
        bool | None, Query(description="true: only paused ones; false: only others.")
    ] = None,
    order: Annotated[
        QueueOrder,
        Query(description="Sort order: by name, largest backlog first, or longest wait first."),
    ] = "name",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Any:
    """List queues and their backlog, sorted by name or by `order`."""
    kind = f"queues {order}"
    place = read_cursor(kind, cursor, float, str)
    found = await scope.queues.page(paused=paused, order=order, cursor=place, limit=limit)
    return page_of(kind, found)


@routes.get(
    "/queues/{name}",
    response_model=schemas.QueueDetailsView,
    operation_id="get_queue",
    responses=problems(404) | tagged(),
)
async def get_queue(scope: Scoped, name: QueueName, response: Response) -> Any:
    """Get one queue with its runs by job."""
    found = await scope.queues.get(name)
    set_etag(response, found.queue.version)
    return found


@routes.post("/queues/{name}/pause", operation_id="pause_queue", **_ACTION)
async def pause_queue(
    scope: Scoped, name: QueueName, response: Response, body: Pause | None = None
) -> Any:
    """Pause a queue: nothing is claimed from it; running attempts continue. For a paused queue, a
    new time or reason replaces the old one.
    """
    given = body or Pause()
    until = one_time(given.until, given.seconds, "until")
    set_changed(response, await scope.queues.pause(name, given.reason, until))
    return await _one(scope, name)


@routes.post("/queues/{name}/resume", operation_id="resume_queue", **_ACTION)
async def resume_queue(
    scope: Scoped, name: QueueName, response: Response, body: schemas.QueueAction | None = None
) -> Any:
    """Resume a paused queue."""
    set_changed(response, await scope.queues.resume(name, body.reason if body else None))
    return await _one(scope, name)


@routes.patch(
    "/queues/{name}",
    response_model=schemas.QueueView,
    operation_id="set_queue",
    responses=problems(412, *WITH_BODY) | tagged(),
)
async def set_queue(
    scope: Scoped, name: QueueName, body: schemas.QueueChanges, response: Response, version: Version
) -> Any:
    """Set how many runs may wait in a queue, and what happens when it is full. Takes effect at
    once.
    """
    given = body.model_dump(exclude_unset=True, exclude={"reason"})
    found = await scope.queues.set(name, body.reason, version=version, **given)
    set_etag(response, found.version)
    return found


@routes.post(
    "/queues/{name}/reset",
    response_model=schemas.QueueView,
    operation_id="reset_queue",
    responses=problems(404, 409, *WITH_BODY),
)
async def reset_queue(
    scope: Scoped, name: QueueName, body: schemas.QueueAction | None = None
) -> Any:
    """Reset a queue to the values in the code: no cap, if it declares none."""
    return await scope.queues.reset(name, body.reason if body else None)


async def _one(scope: RequestScope, name: str) -> Any:
    return (await scope.queues.get(name)).queue
