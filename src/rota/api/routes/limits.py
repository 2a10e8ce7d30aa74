"""Limits: list, show, set, remove, unblock."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query

from rota.api.pages import page_of
from rota.api.routing import router
from rota.api.schemas import limits as schemas
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.schemas.values import Cursor, Limit, read_cursor
from rota.api.state import Scoped
from rota.model.limit import LimitKind, LimitOrder

routes = router("limits")
LimitName = Annotated[str, Path(min_length=1, max_length=200, description="Limit name.")]
Tenant = Annotated[
    str, Query(max_length=200, description="Tenant of the limit; empty: the limit for all tenants.")
]


@routes.get("/limits", response_model=schemas.LimitPage, operation_id="list_limits")
async def list_limits(
    scope: Scoped,
    tenant: Annotated[str | None, Query(max_length=200, description="Filter by tenant.")] = None,
    kind: Annotated[LimitKind | None, Query(description="Filter by kind.")] = None,
    job: Annotated[
        str | None, Query(min_length=1, max_length=200, description="Filter by job.")
    ] = None,
    queue: Annotated[
        str | None, Query(min_length=1, max_length=100, description="Filter by queue.")
    ] = None,
    order: Annotated[
        LimitOrder,
        Query(description="Sort order: by name, fullest first, or largest backlog first."),
    ] = "name",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Any:
    """List limits and their usage, sorted by name or by `order`."""
    label = f"limits {order}"
    place = read_cursor(label, cursor, float, str, str)
    found = await scope.limits.page(
        tenant=tenant, kind=kind, job=job, queue=queue, order=order, cursor=place, limit=limit
    )
    return page_of(label, found)


@routes.get(
    "/limits/{name}",
    response_model=schemas.LimitDetailsView,
    operation_id="get_limit",
    responses=problems(404),
)
async def get_limit(scope: Scoped, name: LimitName, tenant: Tenant = "") -> Any:
    """Get one limit with its counters, and the runs that hold or wait for a slot."""
    return await scope.limits.get(name, tenant)


@routes.put(
    "/limits/{name}",
    response_model=schemas.LimitView,
    operation_id="set_limit",
    responses=problems(409, *WITH_BODY),
)
async def set_limit(
    scope: Scoped, name: LimitName, body: schemas.SetLimit, tenant: Tenant = ""
) -> Any:
    """Create a limit, or update the given fields of an existing one. Takes effect at once: running
    attempts continue, and nothing new starts until there is room.
    """
    changes = body.model_dump(exclude_unset=True, exclude={"reason"})
    return await scope.limits.set(name, tenant=tenant, reason=body.reason, **changes)


@routes.delete(
    "/limits/{name}",
    response_model=schemas.LimitRemoval,
    operation_id="remove_limit",
    responses=problems(404, 409),
)
async def remove_limit(
    scope: Scoped,
    name: LimitName,
    tenant: Tenant = "",
    reason: Annotated[
        str | None, Query(max_length=1000, description="Reason, recorded in the audit trail.")
    ] = None,
) -> Any:
    """Remove a limit and release the runs waiting for it. For a limit declared in code, only
    operator overrides are removed.
    """
    return {"result": await scope.limits.remove(name, tenant=tenant, reason=reason)}


@routes.post(
    "/limits/{name}/unblock",
    response_model=schemas.Unblocked,
    operation_id="unblock_limit",
    responses=problems(404, 409, *WITH_BODY),
)
async def unblock_limit(
    scope: Scoped, name: LimitName, body: schemas.UnblockLimit | None = None, tenant: Tenant = ""
) -> Any:
    """Unblock a sequence that waits for a failed run to succeed."""
    given = body or schemas.UnblockLimit.model_construct(value=None, reason=None)
    freed = await scope.limits.unblock(name, given.value, tenant=tenant, reason=given.reason)
    return {"unblocked": freed}
