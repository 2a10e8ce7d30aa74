"""Runs: list, show, enqueue, retry; the rest follows from their operations."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Request, Response

from rota.api.operations import add_operations, add_route, page_parameters, shaped, summary_of
from rota.api.pages import log_page, page_of, run_page
from rota.api.routing import router
from rota.api.schemas import runs as schemas
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.schemas.values import (
    Cursor,
    Limit,
    RunId,
    read_cursor,
)
from rota.api.state import RequestScope, Scoped
from rota.operations.registry import plan_of
from rota.operations.runs.runs import RunCommands

routes = router("runs")


async def _list(scope: RequestScope, limit: int, cursor: str | None, **given: Any) -> Any:
    kind = f"runs {given['order']}"
    place = read_cursor(kind, cursor, int)
    found = await scope.runs.page(cursor=place[0] if place else None, limit=limit, **given)
    return run_page(kind, found)


_PLAN = plan_of(RunCommands, "list")
_LIST = shaped(_list, "list_runs", summary_of(_PLAN), page_parameters(_PLAN))
add_route(routes, "/runs", _LIST, schemas.RunPage, {})


@routes.post(
    "/runs",
    response_model=schemas.Enqueued,
    status_code=201,
    operation_id="enqueue_run",
    responses=problems(404, 409, *WITH_BODY),
)
async def enqueue_run(
    scope: Scoped, body: schemas.NewRun, request: Request, response: Response
) -> Any:
    """Enqueue a run. If this server's application declares the job, the payload is validated
    against its types.
    """
    given = body.model_dump(exclude_none=True)
    job, payload = given.pop("job"), given.pop("payload", None)
    run = await scope.runs.enqueue(job, payload, **given)
    # Include the path at which the API is mounted.
    prefix = request.scope.get("root_path", "")
    response.headers["Location"] = f"{prefix}/api/v1/runs/{run.id}"
    return {"run_id": run.id, "job": run.job, "is_duplicate": run.is_duplicate}


@routes.get(
    "/runs/{run_id:int}",
    response_model=schemas.RunView,
    operation_id="get_run",
    responses=problems(404),
)
async def get_run(
    scope: Scoped,
    run_id: RunId,
    wait_seconds: Annotated[
        float, Query(ge=0, le=60, description="Wait up to this many seconds for the run to finish.")
    ] = 0,
) -> Any:
    """Get one run, finished or not."""
    if wait_seconds:
        await scope.until_ended(run_id, wait_seconds)
    return await scope.runs.get(run_id)


@routes.get(
    "/runs/{run_id:int}/details",
    response_model=schemas.RunDetailsView,
    operation_id="get_run_details",
    responses=problems(404),
)
async def get_run_details(
    scope: Scoped,
    run_id: RunId,
    log_lines: Annotated[
        int, Query(ge=0, le=1000, description="Number of recent log lines.")
    ] = 100,
) -> Any:
    """Get one run with its attempts and its most recent log lines."""
    return await scope.runs.details(run_id, log_lines=log_lines)


@routes.get(
    "/runs/{run_id:int}/attempts",
    response_model=schemas.AttemptPage,
    operation_id="list_attempts",
    responses=problems(404),
)
async def list_attempts(
    scope: Scoped, run_id: RunId, limit: Limit = 100, cursor: Cursor = None
) -> Any:
    """List the attempts of a run, first one first."""
    place = read_cursor("attempts", cursor, int)
    return page_of("attempts", await scope.runs.attempts(run_id, cursor=place, limit=limit))


@routes.get(
    "/runs/{run_id:int}/attempts/{attempt:int}",
    response_model=schemas.AttemptView,
    operation_id="get_attempt",
    responses=problems(404),
)
async def get_attempt(
    scope: Scoped,
    run_id: RunId,
    attempt: Annotated[int, Path(ge=1, le=2**31 - 1, description="Number of the attempt.")],
) -> Any:
    """Get one attempt of a run, with all of its details."""
    return await scope.runs.attempt(run_id, attempt)


@routes.get(
    "/runs/{run_id:int}/logs",
    response_model=schemas.LogPage,
    operation_id="list_run_logs",
    responses=problems(404),
)
async def list_run_logs(
    scope: Scoped,
    run_id: RunId,
    attempt: Annotated[
        int | None, Query(ge=1, le=2**31 - 1, description="Only lines of this attempt.")
    ] = None,
    limit: Limit = 1000,
    cursor: Cursor = None,
) -> Any:
    """List the log lines of a run, oldest first."""
    place = read_cursor("run logs", cursor, str)
    found = await scope.logs.show(
        run_id, attempt=attempt, limit=limit, cursor=place[0] if place else None
    )
    return log_page("run logs", found)


@routes.post(
    "/runs/{run_id:int}/retry",
    response_model=schemas.RunView,
    operation_id="retry_run",
    responses=problems(404, 409, *WITH_BODY),
)
async def retry_run(scope: Scoped, run_id: RunId, body: schemas.Retrial | None = None) -> Any:
    """Retry a failed or cancelled run, keeping its ID."""
    given = body or schemas.Retrial()
    await scope.runs.retry(run_id, given.reason, payload=given.payload, delay=given.delay_seconds)
    return await scope.runs.get(run_id)


add_operations(routes, "runs")
