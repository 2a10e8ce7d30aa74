"""Jobs: look, change, switch off and on; and what this server's code says of them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Response

from rota.api.errors import ProblemError
from rota.api.etags import Version, set_etag, tagged
from rota.api.pages import page_of
from rota.api.routing import router
from rota.api.schemas import jobs as schemas
from rota.api.schemas.deleted import Deleted
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.schemas.values import Cursor, Limit, Metadata, Why, read_cursor, read_metadata
from rota.api.state import AtDesk
from rota.model.list_filters import JobOrder

routes = router("jobs")
JobName = Annotated[str, Path(min_length=1, max_length=200, description="The name of a job.")]
_ACTION: Any = {
    "response_model": schemas.JobView,
    "responses": problems(404, 409, *WITH_BODY),
}


@routes.get("/jobs", response_model=schemas.JobPage, operation_id="list_jobs")
async def list_jobs(
    desk: AtDesk,
    text: Annotated[
        str | None, Query(max_length=200, description="In its name or description.")
    ] = None,
    tag: Annotated[str | None, Query(max_length=100, description="With this tag.")] = None,
    queue: Annotated[str | None, Query(max_length=100, description="In this queue.")] = None,
    enabled: Annotated[
        bool | None, Query(description="Only those that are enabled, or that are not.")
    ] = None,
    metadata: Metadata = None,
    system: Annotated[bool, Query(description="With Rota's own ones.")] = False,
    order: Annotated[
        JobOrder, Query(description="By name; or the newest, or the last changed, first.")
    ] = "name",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Any:
    """Jobs, by name or as `order` says."""
    kind = f"jobs {order}"
    found = await desk.jobs.page(
        text=text, tag=tag, queue=queue, enabled=enabled, metadata=read_metadata(metadata),
        system=system, order=order, cursor=read_cursor(kind, cursor, float, str), limit=limit,
    )  # fmt: skip
    return page_of(kind, found)


@routes.get(
    "/jobs/{name}",
    response_model=schemas.JobView,
    operation_id="get_job",
    responses=problems(404) | tagged(),
)
async def get_job(desk: AtDesk, name: JobName, response: Response) -> Any:
    """One job."""
    found = await desk.jobs.get(name)
    set_etag(response, found.version)
    return found


@routes.patch(
    "/jobs/{name}",
    response_model=schemas.JobView,
    operation_id="update_job",
    responses=problems(404, 409, 412, *WITH_BODY) | tagged(),
)
async def update_job(
    desk: AtDesk, name: JobName, body: schemas.JobChanges, response: Response, version: Version
) -> Any:
    """Change what the code said. The next attempt uses it, and the code no longer overwrites it."""
    given = body.model_dump(exclude_unset=True)
    if body.retention is not None:
        given["retention"] = body.retention.model_dump(exclude_none=True)
    for field, value in given.items():
        if value is None and field not in schemas.CLEARABLE:
            raise ProblemError(422, "invalid", f"{field} cannot be null", field=field)
    given["reset"] = [_argument(one) for one in given.pop("reset", [])]
    changes = {_argument(column): value for column, value in given.items()}
    changed = await desk.jobs.update(name, version=version, **changes)
    set_etag(response, changed.version)
    return changed


@routes.delete(
    "/jobs/{name}",
    response_model=Deleted,
    operation_id="delete_job",
    responses=problems(404, 409, 412),
)
async def delete_job(
    desk: AtDesk,
    name: JobName,
    version: Version,
    cascade: Annotated[bool, Query(description="Delete its schedules, too.")] = False,
    cancel_open: Annotated[bool, Query(description="Cancel its runs that have not ended.")] = False,
    reason: Why = None,
) -> Any:
    """Forget a job that no schedule and no unfinished run needs. Code that still declares it brings
    it back at its next start."""
    cancelled = await desk.jobs.delete(
        name, cascade=cascade, cancel_open=cancel_open, version=version, reason=reason
    )
    return {"name": name, "cancelled_runs": cancelled}


@routes.post("/jobs/{name}/enable", operation_id="enable_job", **_ACTION)
async def enable_job(desk: AtDesk, name: JobName, body: schemas.JobAction | None = None) -> Any:
    """Let its runs be claimed and its schedules be followed."""
    await desk.jobs.enable(name, body.reason if body else None)
    return await desk.jobs.get(name)


@routes.post("/jobs/{name}/disable", operation_id="disable_job", **_ACTION)
async def disable_job(desk: AtDesk, name: JobName, body: schemas.JobAction | None = None) -> Any:
    """Its runs wait, what is enqueued too; its schedules skip their times."""
    await desk.jobs.disable(name, body.reason if body else None)
    return await desk.jobs.get(name)


@routes.get(
    "/definitions/plan",
    response_model=list[schemas.DriftView],  # type: ignore[valid-type]
    operation_id="plan_definitions",
)
async def plan_definitions(desk: AtDesk) -> Any:
    """Where the code of this server's application and the database differ, and who changed it."""
    return await desk.jobs.plan()


@routes.post(
    "/definitions/sync",
    response_model=schemas.Synced,
    operation_id="sync_definitions",
    responses=problems(404, *WITH_BODY),
)
async def sync_definitions(desk: AtDesk, body: schemas.SyncRequest | None = None) -> Any:
    """Write what the code of this server's application says. What operators changed stays, except
    of the jobs in `force`."""
    return {"written": await desk.jobs.sync_definitions(body.force if body else ())}


def _argument(column: str) -> str:
    return schemas.ARGUMENTS.get(column, column)
