"""Runs: list, show, enqueue, retry; the rest follows from their operations."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Query, Request, Response

from rota.api.operations import add_operations
from rota.api.pages import log_page, page_of, run_page
from rota.api.routing import router
from rota.api.schemas import runs as schemas
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.schemas.values import (
    BIGGEST_ID,
    Cursor,
    Instant,
    Limit,
    PayloadField,
    RunId,
    read_cursor,
    read_metadata,
)
from rota.api.state import Scoped

routes = router("runs")


@routes.get("/runs", response_model=schemas.RunPage, operation_id="list_runs")
async def list_runs(
    scope: Scoped,
    state: Annotated[
        list[schemas.RunState] | None, Query(description="Filter by state; repeatable.")
    ] = None,
    job: Annotated[str | None, Query(max_length=200, description="Filter by job.")] = None,
    queue: Annotated[str | None, Query(max_length=100, description="Filter by queue.")] = None,
    tag: Annotated[str | None, Query(max_length=100, description="Filter by tag.")] = None,
    tenant: Annotated[str | None, Query(max_length=200, description="Filter by tenant.")] = None,
    key: Annotated[str | None, Query(max_length=400, description="Filter by key.")] = None,
    schedule: Annotated[
        str | None,
        Query(
            max_length=200,
            description="Only runs of this schedule, also manual runs and backfills.",
        ),
    ] = None,
    worker: Annotated[
        int | None,
        Query(
            ge=0, le=BIGGEST_ID, description="Only runs whose current or last worker is this one."
        ),
    ] = None,
    text: Annotated[
        str | None,
        Query(min_length=1, max_length=400, description="Text in the payload or last error."),
    ] = None,
    error: Annotated[
        str | None, Query(min_length=1, max_length=400, description="Text in the last error.")
    ] = None,
    error_group: Annotated[
        str | None,
        Query(max_length=40, description="Only runs whose last error belongs to this error group."),
    ] = None,
    payload_field: PayloadField = None,
    since: Annotated[Instant | None, Query(description="Created at this time or later.")] = None,
    until: Annotated[Instant | None, Query(description="Created before this time.")] = None,
    ended_since: Annotated[
        Instant | None, Query(description="Finished at this time or later.")
    ] = None,
    ended_until: Annotated[Instant | None, Query(description="Finished before this time.")] = None,
    dead: Annotated[
        bool, Query(description="Only dead letters: runs that failed permanently.")
    ] = False,
    handled: Annotated[
        bool | None, Query(description="Only dead letters that are handled (true), or not (false).")
    ] = None,
    system: Annotated[bool, Query(description="Include runs of Rota's own jobs.")] = False,
    order: Annotated[Literal["newest", "oldest"], Query(description="Sort order.")] = "newest",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Any:
    """List runs, newest or oldest first."""
    place = read_cursor(f"runs {order}", cursor, int)
    found = await scope.runs.page(
        states=state or None, job=job, queue=queue, tenant=tenant, tag=tag, key=key,
        schedule=schedule, worker=worker, text=text, error=error, error_group=error_group,
        payload_fields=read_metadata(payload_field) or None, since=since, until=until,
        ended_since=ended_since, ended_until=ended_until, dead=dead or None, handled=handled,
        system=system, order=order, cursor=place[0] if place else None, limit=limit,
    )  # fmt: skip
    return run_page(f"runs {order}", found)


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
