"""The audit trail."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query

from rota.api.pages import page_of
from rota.api.routing import router
from rota.api.schemas.audit import AuditPage, AuditView
from rota.api.schemas.problem import problems
from rota.api.schemas.values import BIGGEST_ID, Cursor, Instant, Limit, read_cursor
from rota.api.state import Scoped
from rota.model.list_filters import TimeOrder

routes = router("audit")


@routes.get("/audit", response_model=AuditPage, operation_id="list_audit")
async def list_audit(
    scope: Scoped,
    actor: Annotated[str | None, Query(max_length=200, description="Filter by actor.")] = None,
    action: Annotated[str | None, Query(max_length=200, description="Filter by action.")] = None,
    object_type: Annotated[
        str | None, Query(max_length=200, description="Filter by type of object.")
    ] = None,
    object_id: Annotated[
        str | None, Query(max_length=400, description="Filter by name or ID of the object.")
    ] = None,
    tenant: Annotated[str | None, Query(max_length=200, description="Filter by tenant.")] = None,
    since: Annotated[Instant | None, Query(description="Start of the period, inclusive.")] = None,
    until: Annotated[Instant | None, Query(description="End of the period, exclusive.")] = None,
    order: Annotated[TimeOrder, Query(description="Sort order.")] = "newest",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Any:
    """List audit entries (who did what, when and why), newest or oldest first."""
    kind = f"audit {order}"
    found = await scope.audit.page(
        actor=actor, action=action, object_type=object_type, object_id=object_id, tenant=tenant,
        since=since, until=until, order=order, cursor=read_cursor(kind, cursor, int), limit=limit,
    )  # fmt: skip
    return page_of(kind, found)


@routes.get(
    "/audit/{entry_id:int}",
    response_model=AuditView,
    operation_id="get_audit_entry",
    responses=problems(404),
)
async def get_audit_entry(
    scope: Scoped,
    entry_id: Annotated[int, Path(ge=1, le=BIGGEST_ID, description="Audit entry ID.")],
) -> Any:
    """Get one audit entry with the values before and after the change."""
    return await scope.audit.get(entry_id)
