"""Workers: who is there, what each has, and what it is told."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query

from rota.api.pages import full
from rota.api.routing import router
from rota.api.schemas import fleet as schemas
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.schemas.values import BIGGEST_ID, Cursor, Limit, read_cursor
from rota.api.state import AtDesk

routes = router("workers")
WorkerId = Annotated[int, Path(ge=1, le=BIGGEST_ID, description="The id of a worker.")]
_ACTION: Any = {
    "response_model": schemas.WorkerView,
    "responses": problems(404, 409, *WITH_BODY),
}


@routes.get("/workers", response_model=schemas.WorkerPage, operation_id="list_workers")
async def list_workers(
    desk: AtDesk,
    gone: Annotated[bool, Query(description="Those that have left, too.")] = False,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Any:
    """Workers, the newest first."""
    place = read_cursor("workers", cursor, int)
    found = [
        one
        for one in await desk.workers.list(include_gone=gone)
        if place is None or one.id < place[0]
    ]
    return full("workers", found[: limit + 1], limit, lambda one: one.id)


@routes.get(
    "/workers/{worker_id:int}",
    response_model=schemas.WorkerView,
    operation_id="get_worker",
    responses=problems(404),
)
async def get_worker(desk: AtDesk, worker_id: WorkerId) -> Any:
    """One worker."""
    return await desk.workers.get(worker_id)


@routes.post("/workers/{worker_id:int}/drain", operation_id="drain_worker", **_ACTION)
async def drain_worker(desk: AtDesk, worker_id: WorkerId, body: schemas.Drain | None = None) -> Any:
    """Claim and tick no more, finish what runs; then wait to be resumed, or end."""
    given = body or schemas.Drain()
    await desk.workers.drain(worker_id, given.reason, stop=given.stop)
    return await desk.workers.get(worker_id)


@routes.post("/workers/{worker_id:int}/resume", operation_id="resume_worker", **_ACTION)
async def resume_worker(
    desk: AtDesk, worker_id: WorkerId, body: schemas.QueueAction | None = None
) -> Any:
    """Let a draining worker claim again."""
    await desk.workers.resume(worker_id, body.reason if body else None)
    return await desk.workers.get(worker_id)
