"""Retention: preview what would be removed, and run a pass."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from rota.api.reads import add_read
from rota.api.routing import router
from rota.api.schemas.problem import problems
from rota.api.schemas.views import view_of
from rota.api.state import Scoped
from rota.model.retention import RetentionResult
from rota.operations.retention import RetentionCommands

routes = router("retention")


add_read(routes, "/retention/plan", "plan_retention", "retention", RetentionCommands.plan)


@routes.post(
    "/retention/run",
    response_model=view_of(RetentionResult),
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
