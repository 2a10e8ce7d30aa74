"""What has ended goes after a while: what would go now, and a pass by hand."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from rota.api.routing import router
from rota.api.schemas.problem import problems
from rota.api.schemas.retention import RetentionView
from rota.api.state import AtDesk

routes = router("retention")


@routes.get("/retention/plan", response_model=RetentionView, operation_id="plan_retention")
async def plan_retention(desk: AtDesk) -> Any:
    """What a pass would remove now. Changes nothing."""
    return await desk.retention.plan()


@routes.post(
    "/retention/run",
    response_model=RetentionView,
    operation_id="run_retention",
    responses=problems(409),
)
async def run_retention(
    desk: AtDesk,
    hurry: Annotated[
        bool, Query(description="Do not rest between portions; workers at work feel it.")
    ] = False,
) -> Any:
    """Remove it now instead of tonight. Answers when that is done, which may take minutes. Who does
    not want to wait triggers the schedules `rota.prune_runs` and `rota.prune_logs`: a worker does
    it, and what it removed is the result of the run."""
    return await desk.retention.run(hurry=hurry)
