"""Jobs; the functions that a job can call; and the comparison with the code of this server."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from rota.api.operations import routes_of
from rota.api.schemas.jobs import SyncRequest
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.schemas.views import list_of, view_of
from rota.api.state import Scoped
from rota.model.drift import Drift, Synced
from rota.model.job import JobFunction

routes = routes_of("jobs", float, str)


@routes.get(
    "/functions", response_model=list_of(view_of(JobFunction)), operation_id="list_functions"
)
async def list_functions(
    scope: Scoped,
    text: Annotated[
        str | None, Query(max_length=200, description="Text in the name or schema.")
    ] = None,
) -> Any:
    """List the SQL functions and procedures that a job can call."""
    return await scope.jobs.functions(text)


@routes.get(
    "/definitions/plan",
    response_model=list_of(view_of(Drift)),
    operation_id="plan_definitions",
)
async def plan_definitions(scope: Scoped) -> Any:
    """List differences between the code of this server's application and the database, and who made
    them.
    """
    return await scope.jobs.plan()


@routes.post(
    "/definitions/sync",
    response_model=view_of(Synced),
    operation_id="sync_definitions",
    responses=problems(404, *WITH_BODY),
)
async def sync_definitions(scope: Scoped, body: SyncRequest | None = None) -> Any:
    """Apply what this server's application declares: jobs, schedules and queues. Operator changes
    of jobs and their schedules are kept, except for jobs in `force`.
    """
    return await scope.jobs.sync_definitions(body.force if body else False)
