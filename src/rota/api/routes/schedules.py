"""Schedules: list, show, create, update."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Response

from rota.api.etags import Version, set_etag, tagged
from rota.api.pages import page_of
from rota.api.routing import router
from rota.api.schemas import schedule_bodies as bodies
from rota.api.schemas import schedules as schemas
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.schemas.values import (
    Cursor,
    Limit,
    Metadata,
    ScheduleName,
    Tenant,
    read_cursor,
    read_metadata,
)
from rota.api.state import Scoped
from rota.model.list_filters import ScheduleOrder

routes = router("schedules")


@routes.get("/schedules", response_model=schemas.SchedulePage, operation_id="list_schedules")
async def list_schedules(
    scope: Scoped,
    job: Annotated[str | None, Query(max_length=200, description="Filter by job.")] = None,
    queue: Annotated[
        str | None, Query(max_length=100, description="Only schedules whose runs go to this queue.")
    ] = None,
    tag: Annotated[str | None, Query(max_length=100, description="Filter by tag.")] = None,
    tenant: Annotated[str | None, Query(max_length=200, description="Filter by tenant.")] = None,
    state: Annotated[schemas.ScheduleState | None, Query(description="Filter by state.")] = None,
    text: Annotated[
        str | None,
        Query(max_length=200, description="Text in the name, job, description or time zone."),
    ] = None,
    calendar: Annotated[
        str | None, Query(max_length=200, description="Only schedules that use this calendar.")
    ] = None,
    metadata: Metadata = None,
    attention: Annotated[
        bool,
        Query(
            description="Only schedules that need attention: late, missed, parked, or paused by "
            "Rota."
        ),
    ] = False,
    system: Annotated[bool, Query(description="Include Rota's own schedules.")] = False,
    order: Annotated[
        ScheduleOrder,
        Query(
            description="Sort order: by name, next due, last run, newest, or most recently changed"
        ),
    ] = "name",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Any:
    """List schedules, sorted by tenant and name or by `order`."""
    kind = f"schedules {order}"
    types: tuple[type, type] = (str, str) if order == "name" else (float, int)
    found = await scope.schedules.page(
        job=job, queue=queue, tag=tag, tenant=tenant, state=state, text=text, calendar=calendar,
        metadata=read_metadata(metadata), attention=attention, system=system, order=order,
        cursor=read_cursor(kind, cursor, *types), limit=limit,
    )  # fmt: skip
    return page_of(kind, found)


@routes.post(
    "/schedules",
    response_model=schemas.ScheduleView,
    status_code=201,
    operation_id="create_schedule",
    responses=problems(404, 409, *WITH_BODY) | tagged(201),
)
async def create_schedule(scope: Scoped, body: bodies.NewSchedule, response: Response) -> Any:
    """Create a schedule. Send exactly one of `cron`, `interval_seconds`, `run_at`, `init` and
    `template`.
    """
    made = await scope.schedules.create(**bodies.arguments(body))
    set_etag(response, made.version)
    return made


@routes.get(
    "/schedules/{name}",
    response_model=schemas.ScheduleView,
    operation_id="get_schedule",
    responses=problems(404) | tagged(),
)
async def get_schedule(
    scope: Scoped, name: ScheduleName, response: Response, tenant: Tenant = ""
) -> Any:
    """Get one schedule: timing, policies, next run time and results."""
    found = await scope.schedules.get(name, tenant=tenant)
    set_etag(response, found.version)
    return found


@routes.patch(
    "/schedules/{name}",
    response_model=schemas.ScheduleView,
    operation_id="update_schedule",
    responses=problems(404, 409, 412, *WITH_BODY) | tagged(),
)
async def update_schedule(
    scope: Scoped,
    name: ScheduleName,
    body: bodies.ScheduleChanges,
    response: Response,
    version: Version,
    tenant: Tenant = "",
) -> Any:
    """Update the given fields, effective at once. The audit trail keeps old and new values."""
    changed = await scope.schedules.update(
        name, tenant=tenant, version=version, **bodies.arguments(body)
    )
    set_etag(response, changed.version)
    return changed
