"""Workers: list, show, drain, stop, resume."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Response

from rota.api.changes import set_changed, telling
from rota.api.pages import page_of
from rota.api.routing import router
from rota.api.schemas import fleet as schemas
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.schemas.values import BIGGEST_ID, Cursor, Limit, read_cursor
from rota.api.state import Scoped
from rota.model.list_filters import TimeOrder, WorkerStatus

routes = router("workers")
WorkerId = Annotated[int, Path(ge=1, le=BIGGEST_ID, description="Worker ID.")]
_ACTION: Any = {
    "response_model": schemas.WorkerView,
    "responses": problems(404, 409, *WITH_BODY) | telling(),
}


@routes.get("/workers", response_model=schemas.WorkerPage, operation_id="list_workers")
async def list_workers(
    scope: Scoped,
    gone: Annotated[
        bool,
        Query(description="Include workers that shut down, or were lost over 10 minutes ago."),
    ] = False,
    status: Annotated[WorkerStatus | None, Query(description="Filter by status.")] = None,
    host: Annotated[str | None, Query(max_length=300, description="Filter by host.")] = None,
    order: Annotated[TimeOrder, Query(description="Sort order.")] = "newest",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Any:
    """List workers, newest or oldest first."""
    kind = f"workers {order}"
    found = await scope.workers.page(
        include_gone=gone, status=status, host=host, order=order,
        cursor=read_cursor(kind, cursor, int), limit=limit,
    )  # fmt: skip
    return page_of(kind, found)


@routes.get(
    "/workers/{worker_id:int}",
    response_model=schemas.WorkerView,
    operation_id="get_worker",
    responses=problems(404),
)
async def get_worker(scope: Scoped, worker_id: WorkerId) -> Any:
    """Get one worker."""
    return await scope.workers.get(worker_id)


@routes.post("/workers/{worker_id:int}/drain", operation_id="drain_worker", **_ACTION)
async def drain_worker(
    scope: Scoped, worker_id: WorkerId, response: Response, body: schemas.Drain | None = None
) -> Any:
    """Drain a worker: it stops claiming and ticking, finishes running attempts, then waits to be
    resumed or exits.
    """
    given = body or schemas.Drain()
    is_changed = await scope.workers.drain(worker_id, given.reason, stop=given.stop)
    set_changed(response, is_changed)
    return await scope.workers.get(worker_id)


@routes.post("/workers/{worker_id:int}/stop", operation_id="stop_worker", **_ACTION)
async def stop_worker(
    scope: Scoped, worker_id: WorkerId, response: Response, body: schemas.StopWorker | None = None
) -> Any:
    """Stop a worker once its running attempts finish, or now, like SIGTERM."""
    given = body or schemas.StopWorker()
    is_changed = await scope.workers.stop(worker_id, given.reason, at_once=given.at_once)
    set_changed(response, is_changed)
    return await scope.workers.get(worker_id)


@routes.post("/workers/{worker_id:int}/resume", operation_id="resume_worker", **_ACTION)
async def resume_worker(
    scope: Scoped, worker_id: WorkerId, response: Response, body: schemas.WorkerAction | None = None
) -> Any:
    """Resume a draining worker."""
    set_changed(response, await scope.workers.resume(worker_id, body.reason if body else None))
    return await scope.workers.get(worker_id)
