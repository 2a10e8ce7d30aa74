"""Tenants: statistics, export and deletion; what else is done with them is declared."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query
from fastapi.responses import StreamingResponse

from rota.api.reads import add_read
from rota.api.routing import router
from rota.api.schemas.problem import problems
from rota.api.schemas.values import Why
from rota.api.schemas.views import view_of
from rota.api.state import Scoped
from rota.model.tenant import TenantRemoval
from rota.operations.tenants.tenants import TenantCommands

routes = router("tenants")
TenantName = Annotated[str, Path(min_length=1, max_length=200, description="Tenant name.")]
# The limit of one deletion request.
DELETE_SECONDS = 10.0


add_read(
    routes,
    "/tenants/{name}/stats",
    "get_tenant_stats",
    "tenants",
    TenantCommands.stats,
    problems(404),
)


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


@routes.delete(
    "/tenants/{name}",
    response_model=view_of(TenantRemoval),
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
