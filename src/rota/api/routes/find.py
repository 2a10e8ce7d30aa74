"""Search by name or id."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from rota.api.routing import router
from rota.api.schemas.find import HitView
from rota.api.schemas.views import list_of
from rota.api.state import Scoped
from rota.operations.reports.find import MOST_TEXT

routes = router("find")


@routes.get("/find", response_model=list_of(HitView), operation_id="find")
async def find(
    scope: Scoped,
    text: Annotated[
        str,
        Query(
            min_length=1,
            max_length=MOST_TEXT,
            description="Run ID or key, or part of a name; case is ignored.",
        ),
    ],
    limit: Annotated[int, Query(ge=1, le=100, description="Maximum results of each kind.")] = 8,
) -> Any:
    """Find runs by ID or key, then schedules, jobs, queues and workers whose name contains the
    text.
    """
    return await scope.find.named(text, limit=limit)
