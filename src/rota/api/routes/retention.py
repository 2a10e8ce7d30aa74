"""Retention: preview what would be removed, and run a pass."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from rota.api.routing import router
from rota.api.schemas.problem import problems
from rota.api.schemas.retention import RetentionView
from rota.api.state import Scoped

routes = router("retention")


@routes.get("/retention/plan", response_model=RetentionView, operation_id="plan_retention")
async def plan_retention(scope: Scoped) -> Any:
    """List what a retention pass would delete now. Changes nothing."""
    return await scope.retention.plan()


@routes.post(
    "/retention/run",
    response_model=RetentionView,
    operation_id="run_retention",
    responses=problems(409),
)
async def run_retention(
    scope: Scoped,
    hurry: Annotated[
        bool, Query(description="Do not pause between batches. Faster, but slows busy workers.")
    ] = False,
) -> Any:
    """Delete expired data now instead of waiting for the nightly pass. Returns when done, which may
    take minutes. To avoid waiting, trigger the schedules `rota.prune_runs` and
    `rota.prune_logs`: a worker does it, and the result of the run lists what was deleted.
    """
    return await scope.retention.run(hurry=hurry)
