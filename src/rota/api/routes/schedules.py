"""Schedules: their times, ledger, edits and overrides; what is done with them is declared."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import Query

from rota.api.operations import routes_of
from rota.api.pages import page_of
from rota.api.reads import add_read
from rota.api.schemas import schedules as schemas
from rota.api.schemas.problem import problems
from rota.api.schemas.values import Cursor, Instant, Limit, ScheduleName, Tenant, read_cursor
from rota.api.schemas.views import list_of, view_of
from rota.api.state import Scoped
from rota.model.list_filters import LedgerPart, TimeOrder
from rota.model.schedule_edit import Override
from rota.model.states import Decision, ManualKind
from rota.operations.schedules.reads import ScheduleReads

routes = routes_of("schedules", float, int, by_name=(str, str))
add_read(
    routes,
    "/schedules/{name}/preview",
    "preview_schedule",
    "schedules",
    ScheduleReads.preview,
    problems(404),
    leaves_out=schemas.PREVIEWED,
)


@routes.get(
    "/schedules/{name}/occurrences",
    operation_id="list_occurrences",
    response_model=schemas.OccurrencePage,
    responses=problems(404),
)
async def list_occurrences(
    scope: Scoped,
    name: ScheduleName,
    decision: Annotated[
        Decision | ManualKind | None, Query(description="Filter by decision.")
    ] = None,
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
        name,
        tenant=tenant,
        decision=decision,
        since=since,
        before=until,
        only=only,
        manual=manual,
        order=order,
        cursor=read_cursor(kind, cursor, *place),
        limit=limit,
    )
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
    response_model=list_of(view_of(Override)),
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
