"""Workers: who is there, and what each has."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from rota.api.pages import full
from rota.api.routing import router
from rota.api.schemas import fleet as schemas
from rota.api.schemas.values import Cursor, Limit, read_cursor
from rota.api.state import AtDesk

routes = router("workers")


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
