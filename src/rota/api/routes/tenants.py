"""Tenants: look, set, stop, go on."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Response
from fastapi.responses import StreamingResponse

from rota.api.etags import Version, set_etag, tagged
from rota.api.pages import page_of
from rota.api.routing import router
from rota.api.schemas import fleet
from rota.api.schemas import tenants as schemas
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.schemas.schedule_bodies import Pause
from rota.api.schemas.values import Cursor, Limit, Why, one_time, read_cursor
from rota.api.state import AtDesk, Desk
from rota.model.tenant import TenantOrder

routes = router("tenants")
TenantName = Annotated[str, Path(min_length=1, max_length=200, description="The name of a tenant.")]
# Of one request for a deletion.
DELETE_SECONDS = 10.0
_ACTION: Any = {
    "response_model": schemas.TenantView,
    "responses": problems(409, *WITH_BODY) | tagged(),
}


@routes.get("/tenants", response_model=schemas.TenantPage, operation_id="list_tenants")
async def list_tenants(
    desk: AtDesk,
    paused: Annotated[
        bool | None, Query(description="Only those that are paused, or that are not.")
    ] = None,
    text: Annotated[
        str | None, Query(min_length=1, max_length=200, description="In name or description.")
    ] = None,
    order: Annotated[
        TenantOrder,
        Query(description="By name; or most waiting runs, or most failures today, first."),
    ] = "name",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Any:
    """Tenants that have settings, schedules or open runs, or did something in the last week."""
    kind = f"tenants {order}"
    place = read_cursor(kind, cursor, float, str)
    found = await desk.tenants.page(
        paused=paused, text=text, order=order, cursor=place, limit=limit
    )
    return page_of(kind, found)


@routes.get(
    "/tenants/{name}",
    response_model=schemas.TenantView,
    operation_id="get_tenant",
    responses=problems(404) | tagged(),
)
async def get_tenant(desk: AtDesk, name: TenantName, response: Response) -> Any:
    """One tenant: its settings, which are the defaults unless somebody set them, and its counts."""
    return await _one(desk, name, response)


@routes.get(
    "/tenants/{name}/stats",
    response_model=schemas.TenantStatsView,
    operation_id="get_tenant_stats",
    responses=problems(404),
)
async def get_tenant_stats(desk: AtDesk, name: TenantName) -> Any:
    """What it did in the last month, by day, and how its last runs went."""
    return await desk.tenants.stats(name)


@routes.get(
    "/tenants/{name}/export",
    operation_id="export_tenant",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "A tar.gz: a file of JSON lines for each table, and manifest.json.",
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
async def export_tenant(desk: AtDesk, name: TenantName) -> Any:
    """All data of the tenant as of one moment, as one archive that is sent while it is written. The
    audit keeps who took it."""
    return await desk.export_tenant(name)


@routes.patch(
    "/tenants/{name}",
    response_model=schemas.TenantView,
    operation_id="set_tenant",
    responses=problems(412, *WITH_BODY) | tagged(),
)
async def set_tenant(
    desk: AtDesk,
    name: TenantName,
    body: schemas.TenantChanges,
    response: Response,
    version: Version,
) -> Any:
    """Change what is sent, at once; null is the default. A tenant needs no other registration."""
    given = body.model_dump(exclude_unset=True, exclude={"reason"})
    found = await desk.tenants.set(name, body.reason, version=version, **given)
    set_etag(response, found.version)
    return found


@routes.delete(
    "/tenants/{name}/settings",
    response_model=fleet.Removed,
    operation_id="remove_tenant",
    responses=problems(404, 409),
)
async def remove_tenant(desk: AtDesk, name: TenantName, reason: Why = None) -> Any:
    """All settings back to their defaults. The data of the tenant stays."""
    await desk.tenants.remove(name, reason)
    return {"name": name}


@routes.delete(
    "/tenants/{name}",
    response_model=schemas.TenantRemovalView,
    operation_id="delete_tenant",
    responses=problems(404, 409),
)
async def delete_tenant(
    desk: AtDesk,
    name: TenantName,
    cancel_running: Annotated[
        bool, Query(description="Cancel what runs first, and wait for it.")
    ] = False,
    reason: Why = None,
) -> Any:
    """Remove all data of a tenant; what operators did stays in the audit. Works for some seconds at
    a time: while `is_done` is false, ask again."""
    return await desk.tenants.delete(
        name, reason, cancel_running=cancel_running, seconds=DELETE_SECONDS
    )


@routes.post("/tenants/{name}/pause", operation_id="pause_tenant", **_ACTION)
async def pause_tenant(
    desk: AtDesk, name: TenantName, response: Response, body: Pause | None = None
) -> Any:
    """Nothing of the tenant starts any more; what runs, runs on. Of a paused tenant another time
    moves the end."""
    given = body or Pause()
    until = one_time(given.until, given.seconds, "until")
    await desk.tenants.pause(name, given.reason, until)
    return await _one(desk, name, response)


@routes.post("/tenants/{name}/resume", operation_id="resume_tenant", **_ACTION)
async def resume_tenant(
    desk: AtDesk, name: TenantName, response: Response, body: schemas.TenantAction | None = None
) -> Any:
    """Let its runs start again, in the order in which they came."""
    await desk.tenants.resume(name, body.reason if body else None)
    return await _one(desk, name, response)


async def _one(desk: Desk, name: str, response: Response) -> Any:
    found = await desk.tenants.get(name)
    set_etag(response, found.version)
    return found
