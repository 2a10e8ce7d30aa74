"""Actions on a schedule, such as pause, trigger and backfill; its times, ledger and edits."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import Query, Response

from rota.api.etags import Version, set_etag, tagged
from rota.api.operations import add_operations
from rota.api.pages import page_of
from rota.api.routing import router
from rota.api.schemas import schedule_bodies as bodies
from rota.api.schemas import schedules as schemas
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.schemas.values import (
    Cursor,
    Instant,
    Limit,
    ScheduleName,
    Tenant,
    read_cursor,
)
from rota.api.schemas.views import list_of
from rota.api.state import Scoped
from rota.model.list_filters import LedgerPart, TimeOrder

routes = router("schedules")
add_operations(routes, "schedules")
_ACTION: Any = {"responses": problems(404, 409, *WITH_BODY)}


@routes.post(
    "/schedules/{name}/backfill",
    operation_id="backfill_schedule",
    response_model=schemas.BackfillView,
    **_ACTION,
)
async def backfill_schedule(
    scope: Scoped, name: ScheduleName, body: bodies.BackfillRequest, tenant: Tenant = ""
) -> Any:
    """Enqueue runs for the scheduled times of a past period."""
    return await scope.schedules.backfill(name, tenant=tenant, **body.model_dump())


@routes.get(
    "/schedules/{name}/preview",
    operation_id="preview_schedule",
    response_model=list_of(schemas.ComingView),
    responses=problems(404),
)
async def preview_schedule(
    scope: Scoped,
    name: ScheduleName,
    count: Annotated[
        int | None, Query(ge=1, le=1000, description="Number of times. Default: 10.")
    ] = None,
    after: Annotated[
        Instant | None, Query(description="Start after this time. Default: now.")
    ] = None,
    until: Annotated[Instant | None, Query(description="End of the period.")] = None,
    viewer_zone: Annotated[
        str | None,
        Query(min_length=1, max_length=100, description="Also show times in this time zone."),
    ] = None,
    tenant: Tenant = "",
) -> Any:
    """Preview the next run times of a schedule."""
    return await scope.schedules.preview(
        name, tenant=tenant, count=count or (1000 if until else None), after=after, until=until,
        viewer_zone=viewer_zone,
    )  # fmt: skip


@routes.get(
    "/schedules/{name}/occurrences",
    operation_id="list_occurrences",
    response_model=schemas.OccurrencePage,
    responses=problems(404),
)
async def list_occurrences(
    scope: Scoped,
    name: ScheduleName,
    decision: Annotated[schemas.Decision | None, Query(description="Filter by decision.")] = None,
    since: Annotated[Instant | None, Query(description="Start of the period, inclusive.")] = None,
    until: Annotated[Instant | None, Query(description="End of the period, exclusive.")] = None,
    only: Annotated[
        LedgerPart | None,
        Query(
            description="Only times that did not run normally, or times filled in by a backfill."
        ),
    ] = None,
    manual: Annotated[
        bool, Query(description="Include what people ran beside its times: runs and backfills.")
    ] = False,
    order: Annotated[TimeOrder, Query(description="Sort order.")] = "newest",
    limit: Limit = 50,
    cursor: Cursor = None,
    tenant: Tenant = "",
) -> Any:
    """List the decisions for its scheduled times, newest or oldest first."""
    is_whole = manual or decision in ("triggered", "backfilled")
    kind = f"history {order}" if is_whole else f"occurrences {order}"
    place = (datetime, int, int) if is_whole else (datetime, int)
    found = await scope.schedules.history_page(
        name, tenant=tenant, decision=decision, since=since, before=until, only=only,
        manual=manual, order=order, cursor=read_cursor(kind, cursor, *place), limit=limit,
    )  # fmt: skip
    return page_of(kind, found)


@routes.get(
    "/schedules/{name}/edits",
    operation_id="list_edits",
    response_model=schemas.EditPage,
    responses=problems(404),
)
async def list_edits(
    scope: Scoped,
    name: ScheduleName,
    limit: Limit = 50,
    cursor: Cursor = None,
    tenant: Tenant = "",
) -> Any:
    """List changes to a schedule, newest first."""
    await scope.schedules.get(name, tenant=tenant)
    at = read_cursor("edits", cursor, int)
    found = await scope.schedules.edits(name, tenant=tenant, cursor=at, limit=limit)
    return page_of("edits", found)


@routes.get(
    "/schedules/{name}/overrides",
    operation_id="list_overrides",
    response_model=list_of(schemas.OverrideView),
    responses=problems(404),
)
async def list_overrides(scope: Scoped, name: ScheduleName, tenant: Tenant = "") -> Any:
    """List the fields of a declared schedule that operators have changed, with the values in the
    code. `reset` in an update resets them.
    """
    return await scope.schedules.overrides(name, tenant=tenant)


@routes.get(
    "/schedules/{name}/manual",
    operation_id="list_manual_runs",
    response_model=schemas.ManualPage,
    responses=problems(404),
)
async def list_manual_runs(
    scope: Scoped,
    name: ScheduleName,
    limit: Limit = 50,
    cursor: Cursor = None,
    tenant: Tenant = "",
) -> Any:
    """List manual runs and backfills of a schedule, newest first."""
    await scope.schedules.get(name, tenant=tenant)
    at = read_cursor("manual", cursor, datetime, int)
    found = await scope.schedules.manual(name, tenant=tenant, cursor=at, limit=limit)
    return page_of("manual", found)


@routes.post(
    "/schedules/{name}/revert",
    operation_id="revert_schedule",
    response_model=schemas.ScheduleView,
    responses=problems(404, 409, 412, *WITH_BODY) | tagged(),
)
async def revert_schedule(
    scope: Scoped,
    name: ScheduleName,
    body: bodies.Revert,
    response: Response,
    version: Version,
    tenant: Tenant = "",
) -> Any:
    """Revert one edit of a schedule. The revert is recorded as a new edit."""
    changed = await scope.schedules.revert(
        name, body.entry_id, tenant=tenant, version=version, reason=body.reason
    )
    set_etag(response, changed.version)
    return changed
