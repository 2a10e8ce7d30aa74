"""Anything by its name or id."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from rota.admin.find import MOST_TEXT
from rota.api.routing import router
from rota.api.schemas.find import HitView
from rota.api.state import AtDesk

routes = router("find")


@routes.get("/find", response_model=list[HitView], operation_id="find")  # type: ignore[valid-type]
async def find(
    desk: AtDesk,
    text: Annotated[
        str,
        Query(
            min_length=1,
            max_length=MOST_TEXT,
            description="A run's id or key, or a part of a name, in any case.",
        ),
    ],
    limit: Annotated[int, Query(ge=1, le=100, description="At most so many of each kind.")] = 8,
) -> Any:
    """Runs by their id or key, then schedules, jobs, queues and workers whose name holds the
    text."""
    return await desk.find.named(text, limit=limit)
