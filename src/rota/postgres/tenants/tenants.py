"""Reads tenants, and holds the runs of paused ones."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, Unpack

from rota.errors import TenantNotFound
from rota.model.page import Page
from rota.model.tenant import (
    TenantDay,
    TenantFilters,
    TenantInfo,
    TenantOrder,
    TenantShare,
    TenantStats,
)
from rota.postgres.pages import check_filters, check_order, like, read_all, read_page
from rota.postgres.plans import Execute, Plan
from rota.postgres.queries import Query, only

_DAYS = 31


def _params(given: TenantFilters, name: str | None = None) -> dict[str, Any]:
    check_filters(given, TenantFilters, "tenants")
    text = given.get("text")
    return {"name": name, "paused": given.get("paused"), "text": like(text) if text else None}


def list_tenants(
    *, order: str = "name", **filters: Unpack[TenantFilters]
) -> Plan[list[TenantInfo]]:
    order = check_order(order, TenantOrder)
    return read_all("tenants/list", _params(filters), TenantInfo, order=order)


def page_tenants(
    *, order: str, cursor: Sequence[Any] | None, limit: int, **filters: Unpack[TenantFilters]
) -> Plan[Page[TenantInfo]]:
    order, params = check_order(order, TenantOrder), _params(filters)
    return read_page("tenants/list", params, TenantInfo, order=order, cursor=cursor, limit=limit)


def find_tenant(name: str) -> Plan[TenantInfo]:
    found = yield from read_all("tenants/list", _params({}, name), TenantInfo)
    if found:
        return found[0]
    near = get_close_matches(name, [tenant.name for tenant in (yield from list_tenants())], 1)
    hint = f"did you mean {near[0]}?" if near else None
    raise TenantNotFound(
        f'there is no tenant "{name}": no run, schedule or setting names it', hint=hint
    )


def read_shares(days: int, most: int) -> Plan[list[TenantShare]]:
    rows = yield Execute("tenants/shares", {"days": days, "most": most})
    return [TenantShare(**row) for row in rows]


def read_stats(name: str) -> Plan[TenantStats]:
    tenant = yield from find_tenant(name)
    days = yield Execute("tenants/days", {"name": name, "days": _DAYS})
    (recent,) = yield Execute("tenants/recent", {"name": name})
    return TenantStats(tenant, [TenantDay(**row) for row in days], **recent)


class Tended(NamedTuple):
    """The number of moved runs, and when to check again; None if that is not needed."""

    moved: int
    next_seconds: float | None


def tend(limit: int) -> Query[Tended]:
    """Hold the runs of paused tenants, and count for quotas and caps."""
    return Query("tenants/tend", {"limit": limit}, only(Tended._make))
