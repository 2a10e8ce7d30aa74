"""Jobs: list, show, create, update, enable, disable, delete; and compare them with the code of this
server."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Response

from rota.api.changes import set_changed, telling
from rota.api.errors import ProblemError
from rota.api.etags import Version, set_etag, tagged
from rota.api.pages import page_of
from rota.api.routing import router
from rota.api.schemas import jobs as schemas
from rota.api.schemas.deleted import Deleted
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.schemas.values import Cursor, Limit, Metadata, Why, read_cursor, read_metadata
from rota.api.schemas.views import list_of
from rota.api.state import Scoped
from rota.model.list_filters import JobOrder

routes = router("jobs")
JobName = Annotated[str, Path(min_length=1, max_length=200, description="Job name.")]
_ACTION: Any = {
    "response_model": schemas.JobView,
    "responses": problems(404, 409, *WITH_BODY) | telling(),
}


@routes.get("/jobs", response_model=schemas.JobPage, operation_id="list_jobs")
async def list_jobs(
    scope: Scoped,
    text: Annotated[
        str | None, Query(max_length=200, description="Text in the name or description.")
    ] = None,
    tag: Annotated[str | None, Query(max_length=100, description="Filter by tag.")] = None,
    queue: Annotated[str | None, Query(max_length=100, description="Filter by queue.")] = None,
    enabled: Annotated[
        bool | None, Query(description="true: only enabled ones; false: only disabled ones.")
    ] = None,
    metadata: Metadata = None,
    system: Annotated[bool, Query(description="Include Rota's own jobs.")] = False,
    order: Annotated[
        JobOrder,
        Query(description="Sort order: by name, newest first, or most recently changed first."),
    ] = "name",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Any:
    """List jobs, sorted by name or by `order`."""
    kind = f"jobs {order}"
    found = await scope.jobs.page(
        text=text, tag=tag, queue=queue, enabled=enabled, metadata=read_metadata(metadata),
        system=system, order=order, cursor=read_cursor(kind, cursor, float, str), limit=limit,
    )  # fmt: skip
    return page_of(kind, found)


@routes.post(
    "/jobs",
    response_model=schemas.JobView,
    operation_id="create_job",
    status_code=201,
    responses=problems(409, *WITH_BODY) | tagged(201),
)
async def create_job(scope: Scoped, body: schemas.NewJob, response: Response) -> Any:
    """Create a job that calls a SQL function. Python jobs are declared in code."""
    given = body.model_dump(exclude_unset=True)
    made = await scope.jobs.create(given.pop("name"), given.pop("function_name"), **given)
    set_etag(response, made.version)
    return made


@routes.get(
    "/functions", response_model=list_of(schemas.FunctionView), operation_id="list_functions"
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
    "/jobs/{name}",
    response_model=schemas.JobView,
    operation_id="get_job",
    responses=problems(404) | tagged(),
)
async def get_job(scope: Scoped, name: JobName, response: Response) -> Any:
    """Get one job."""
    found = await scope.jobs.get(name)
    set_etag(response, found.version)
    return found


@routes.patch(
    "/jobs/{name}",
    response_model=schemas.JobView,
    operation_id="update_job",
    responses=problems(404, 409, 412, *WITH_BODY) | tagged(),
)
async def update_job(
    scope: Scoped, name: JobName, body: schemas.JobChanges, response: Response, version: Version
) -> Any:
    """Update a job's settings. They take precedence over the code. Queue, priority, maximum
    attempts and default payload apply to new runs; timeout, backoff and log level apply from the
    next attempt.
    """
    given = body.model_dump(exclude_unset=True)
    if body.retention is not None:
        given["retention"] = body.retention.model_dump(exclude_none=True)
    for field, value in given.items():
        if value is None and field not in schemas.CLEARABLE:
            raise ProblemError(422, "invalid", f"{field} cannot be null", field=field)
    changed = await scope.jobs.update(name, version=version, **given)
    set_etag(response, changed.version)
    return changed


@routes.delete(
    "/jobs/{name}",
    response_model=Deleted,
    operation_id="delete_job",
    responses=problems(404, 409, 412),
)
async def delete_job(
    scope: Scoped,
    name: JobName,
    version: Version,
    cascade: Annotated[bool, Query(description="Also delete its schedules.")] = False,
    cancel_open: Annotated[bool, Query(description="Cancel its unfinished runs.")] = False,
    reason: Why = None,
) -> Any:
    """Delete a job that has no schedules and no unfinished runs. Code that still declares it
    registers it again at its next start.
    """
    cancelled = await scope.jobs.delete(
        name, cascade=cascade, cancel_open=cancel_open, version=version, reason=reason
    )
    return {"name": name, "cancelled_runs": cancelled}


@routes.post(
    "/jobs/{name}/rename",
    response_model=schemas.Renamed,
    operation_id="rename_job",
    responses=problems(404, 409, *WITH_BODY),
)
async def rename_job(scope: Scoped, name: JobName, body: schemas.RenameRequest) -> Any:
    """Rename a job with its overrides, schedules, limits and unfinished runs. Enqueues under the
    old name continue to work, and its history is found under both names.
    """
    moved = await scope.jobs.rename(name, body.new_name, reason=body.reason)
    return {"name": body.new_name, "moved_runs": moved}


@routes.post("/jobs/{name}/enable", operation_id="enable_job", **_ACTION)
async def enable_job(
    scope: Scoped, name: JobName, response: Response, body: schemas.JobAction | None = None
) -> Any:
    """Enable a job: its runs and schedules start again."""
    set_changed(response, await scope.jobs.enable(name, body.reason if body else None))
    return await scope.jobs.get(name)


@routes.post("/jobs/{name}/disable", operation_id="disable_job", **_ACTION)
async def disable_job(
    scope: Scoped, name: JobName, response: Response, body: schemas.JobAction | None = None
) -> Any:
    """Disable a job: its runs wait, including new ones, and its schedules skip their times."""
    set_changed(response, await scope.jobs.disable(name, body.reason if body else None))
    return await scope.jobs.get(name)


@routes.get(
    "/definitions/plan",
    response_model=list_of(schemas.DriftView),
    operation_id="plan_definitions",
)
async def plan_definitions(scope: Scoped) -> Any:
    """List differences between the code of this server's application and the database, and who made
    them.
    """
    return await scope.jobs.plan()


@routes.post(
    "/definitions/sync",
    response_model=schemas.SyncedView,
    operation_id="sync_definitions",
    responses=problems(404, *WITH_BODY),
)
async def sync_definitions(scope: Scoped, body: schemas.SyncRequest | None = None) -> Any:
    """Apply what this server's application declares: jobs, schedules and queues. Operator changes
    of jobs and their schedules are kept, except for jobs in `force`.
    """
    return await scope.jobs.sync_definitions(body.force if body else False)
