"""Tenants: list, show, set, pause, resume, export, delete."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Response
from fastapi.responses import StreamingResponse

from rota.api.changes import CHANGED, set_changed
from rota.api.etags import ETAG, Version, set_etag, tagged
from rota.api.pages import page_of
from rota.api.routing import router
from rota.api.schemas import fleet
from rota.api.schemas import tenants as schemas
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.schemas.schedule_bodies import Pause
from rota.api.schemas.values import Cursor, Limit, Why, one_time, read_cursor
from rota.api.state import RequestScope, Scoped
from rota.model.tenant import TenantOrder

routes = router("tenants")
TenantName = Annotated[str, Path(min_length=1, max_length=200, description="Tenant name.")]
# The limit of one deletion request.
DELETE_SECONDS = 10.0
_ACTION: Any = {
    "response_model": schemas.TenantView,
    "responses": problems(404, 409, *WITH_BODY) | {200: {"headers": ETAG | CHANGED}},
}


@routes.get("/tenants", response_model=schemas.TenantPage, operation_id="list_tenants")
async def list_tenants(
    scope: Scoped,
    paused: Annotated[
        bool | None, Query(description="true: only paused ones; false: only others.")
    ] = None,
    text: Annotated[
        str | None,
        Query(min_length=1, max_length=200, description="Text in the name or description."),
    ] = None,
    order: Annotated[
        TenantOrder,
        Query(
            description="Sort order: by name, most waiting runs first, or most failures today "
            "first."
        ),
    ] = "name",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Any:
    """List tenants with settings, schedules, unfinished runs, or activity in the last week."""
    kind = f"tenants {order}"
    place = read_cursor(kind, cursor, float, str)
    found = await scope.tenants.page(
        paused=paused, text=text, order=order, cursor=place, limit=limit
    )
    return page_of(kind, found)


@routes.get(
    "/tenants/{name}",
    response_model=schemas.TenantView,
    operation_id="get_tenant",
    responses=problems(404) | tagged(),
)
async def get_tenant(scope: Scoped, name: TenantName, response: Response) -> Any:
    """Get one tenant: its settings (defaults unless changed) and its counts."""
    return await _one(scope, name, response)


@routes.get(
    "/tenants/{name}/stats",
    response_model=schemas.TenantStatsView,
    operation_id="get_tenant_stats",
    responses=problems(404),
)
async def get_tenant_stats(scope: Scoped, name: TenantName) -> Any:
    """Get the activity of a tenant in the last month, by day, and its recent results."""
    return await scope.tenants.stats(name)


@routes.get(
    "/tenants/{name}/export",
    operation_id="export_tenant",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "A tar.gz archive with a JSON Lines file for each table, and "
            "manifest.json.",
            "content": {
                "application/gzip": {
                    "schema": {"type": "string", "format": "binary"},
                    "example": "(bytes of a tar.gz)",
                }
            },
        },
        **problems(404, 503),
    },
)
async def export_tenant(scope: Scoped, name: TenantName) -> Any:
    """Export all data of a tenant, as of one moment, as one streamed archive. The audit trail
    records who exported it.
    """
    return await scope.export_tenant(name)


@routes.patch(
    "/tenants/{name}",
    response_model=schemas.TenantView,
    operation_id="set_tenant",
    responses=problems(412, *WITH_BODY) | tagged(),
)
async def set_tenant(
    scope: Scoped,
    name: TenantName,
    body: schemas.TenantChanges,
    response: Response,
    version: Version,
) -> Any:
    """Update the given settings, effective at once; null restores the default. Tenants need no
    registration.
    """
    given = body.model_dump(exclude_unset=True, exclude={"reason"})
    found = await scope.tenants.set(name, body.reason, version=version, **given)
    set_etag(response, found.version)
    return found


@routes.delete(
    "/tenants/{name}/settings",
    response_model=fleet.Removed,
    operation_id="remove_tenant",
    responses=problems(404, 409),
)
async def remove_tenant(scope: Scoped, name: TenantName, reason: Why = None) -> Any:
    """Reset all settings of a tenant to their defaults. Its data is kept."""
    await scope.tenants.remove(name, reason)
    return {"name": name}


@routes.delete(
    "/tenants/{name}",
    response_model=schemas.TenantRemovalView,
    operation_id="delete_tenant",
    responses=problems(404, 409),
)
async def delete_tenant(
    scope: Scoped,
    name: TenantName,
    cancel_running: Annotated[
        bool, Query(description="First cancel running attempts and wait for them to stop.")
    ] = False,
    reason: Why = None,
) -> Any:
    """Delete all data of a tenant; operator actions stay in the audit trail. Each request works for
    a few seconds: repeat it while `is_done` is false.
    """
    return await scope.tenants.delete(
        name, reason, cancel_running=cancel_running, seconds=DELETE_SECONDS
    )


@routes.post("/tenants/{name}/pause", operation_id="pause_tenant", **_ACTION)
async def pause_tenant(
    scope: Scoped, name: TenantName, response: Response, body: Pause | None = None
) -> Any:
    """Pause a tenant: none of its runs start; running attempts continue. For a paused tenant, a new
    time or reason replaces the old one.
    """
    given = body or Pause()
    until = one_time(given.until, given.seconds, "until")
    held = await scope.tenants.pause(name, given.reason, until)
    set_changed(response, held is not None)
    return await _one(scope, name, response)


@routes.post("/tenants/{name}/resume", operation_id="resume_tenant", **_ACTION)
async def resume_tenant(
    scope: Scoped, name: TenantName, response: Response, body: schemas.TenantAction | None = None
) -> Any:
    """Resume a paused tenant. Its runs start again, in order."""
    freed = await scope.tenants.resume(name, body.reason if body else None)
    set_changed(response, freed is not None)
    return await _one(scope, name, response)


async def _one(scope: RequestScope, name: str, response: Response) -> Any:
    found = await scope.tenants.get(name)
    set_etag(response, found.version)
    return found
