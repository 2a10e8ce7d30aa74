"""Tenants: shares of work, counts, and one tenant with its runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, get_args
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.api.schemas.values import read_cursor
from rota.model.cursors import write_cursor
from rota.model.run import RunInfo
from rota.model.tenant import TenantInfo, TenantOrder, TenantShare, TenantStats
from rota.web.context import Page
from rota.web.operations import path_of, routes_of
from rota.web.page_scope import PageScope

PAGE_SIZE, _LAST_RUNS = 50, 10
DAYS = 14  # of the chart
ORDERS = {"name": "name", "waiting": "most waiting", "failed": "most failures today"}


@dataclass(frozen=True, slots=True)
class TenantQuery:
    """The filter in the address."""

    text: str | None = None
    order: str = "name"
    paused: bool | None = None
    cursor: str | None = None

    @property
    def orders(self) -> dict[str, str]:
        return ORDERS

    def path(self, cursor: str | None = None) -> str:
        given = {
            "text": self.text,
            "order": None if self.order == "name" else self.order,
            "paused": "1" if self.paused else None,
            "cursor": cursor,
        }
        words = urlencode({key: value for key, value in given.items() if value is not None})
        return f"/tenants?{words}" if words else "/tenants"


@dataclass(frozen=True, slots=True)
class TenantsPage(Page):
    template: ClassVar[str] = "tenants/list.html"
    section: ClassVar[str] = "tenants"

    tenants: list[tuple[str, TenantInfo]]
    query: TenantQuery
    next: str | None
    shares: list[TenantShare]

    @property
    def title(self) -> str:
        return "Tenants"

    @property
    def ended(self) -> int:
        return sum(share.ended for share in self.shares)

    @property
    def most(self) -> int:
        """The highest count of one day and one row: all rows are drawn to the same scale."""
        return max((count for share in self.shares for count in share.counts), default=1) or 1

    @property
    def days(self) -> int:
        return DAYS


@dataclass(frozen=True, slots=True)
class TenantPage(Page):
    template: ClassVar[str] = "tenants/one.html"
    section: ClassVar[str] = "tenants"

    tenant: TenantInfo
    stats: TenantStats
    path: str
    runs: list[RunInfo]

    @property
    def title(self) -> str:
        return self.tenant.name


async def list_tenants(request: Request) -> Response:
    scope = PageScope(request)
    given = request.query_params
    order = given.get("order", "name")
    query = TenantQuery(
        text=(given.get("text") or "").strip()[:200] or None,
        order=order if order in get_args(TenantOrder) else "name",
        paused=True if given.get("paused") else None,
        cursor=given.get("cursor"),
    )
    kind = f"tenants {query.order}"
    chosen: Any = query.order
    found = await scope.tenants.page(
        order=chosen,
        text=query.text,
        paused=query.paused,
        cursor=read_cursor(kind, query.cursor, float, str),
        limit=PAGE_SIZE,
    )
    onward = None if found.cursor is None else query.path(write_cursor(kind, *found.cursor))
    rows = [(path_of("tenants", tenant.name), tenant) for tenant in found.items]
    shares = await scope.tenants.shares(days=DAYS)
    return await scope.show(TenantsPage(rows, query, onward, shares))


async def show_tenant(request: Request) -> Response:
    scope = PageScope(request)
    stats = await scope.tenants.stats(scope.name())
    name = stats.tenant.name
    found = await scope.runs.page(tenant=name, limit=_LAST_RUNS)
    return await scope.show(TenantPage(stats.tenant, stats, path_of("tenants", name), found.runs))


async def export_tenant(request: Request) -> Response:
    """Send all data of the tenant as a file."""
    scope = PageScope(request)
    scope.check("tenants.export")
    return await scope.export_tenant(scope.name())


routes = [
    Route("/tenants", list_tenants),
    Route("/tenants/{name}", show_tenant),
    Route("/tenants/{name}/export", export_tenant),
    *routes_of("tenants"),
]
