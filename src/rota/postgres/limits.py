"""Reads limits, and admits the runs that wait for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Unpack

from rota.errors import LimitNotFound
from rota.model.limit import LimitDetails, LimitFilters, LimitInfo, LimitKey, LimitOrder, LimitRun
from rota.model.nearest import listed, nearest
from rota.model.page import Page
from rota.postgres.pages import check_filters, check_order, read_all, read_page
from rota.postgres.plans import Execute, Plan
from rota.postgres.queries import Query, only


def list_limits(*, order: str = "name", **filters: Unpack[LimitFilters]) -> Plan[list[LimitInfo]]:
    order = check_order(order, LimitOrder)
    return read_all("limits/list", _filters(filters), LimitInfo, order=order)


def page_limits(
    *, order: str, cursor: Sequence[Any] | None, limit: int, **filters: Unpack[LimitFilters]
) -> Plan[Page[LimitInfo]]:
    order, params = check_order(order, LimitOrder), _filters(filters)
    return read_page("limits/list", params, LimitInfo, order=order, cursor=cursor, limit=limit)


def _filters(given: LimitFilters, name: str | None = None) -> dict[str, Any]:
    check_filters(given, LimitFilters, "limits")
    named = {field: given.get(field) for field in LimitFilters.__annotations__}
    return named | {"name": name}


def find_limit(name: str, tenant: str = "") -> Plan[LimitInfo]:
    found = yield from read_all("limits/list", _filters({"tenant": tenant}, name), LimitInfo)
    if not found:
        known = [limit.name for limit in (yield from list_limits(tenant=tenant))]
        hint = nearest(name, known, listed("limits"))
        of = f' of tenant "{tenant}"' if tenant else ""
        raise LimitNotFound(f'there is no limit "{name}"{of}', hint=hint)
    return found[0]


def read_limit(name: str, tenant: str = "") -> Plan[LimitDetails]:
    limit = yield from find_limit(name, tenant)
    params = {"name": name, "tenant": tenant}
    keys = yield Execute("limits/keys", params)
    holders = yield Execute("limits/holders", params)
    waiters = yield Execute("limits/waiters", params)
    return LimitDetails(
        limit,
        [LimitKey(**row) for row in keys],
        [LimitRun(**row) for row in holders],
        [LimitRun(**row) for row in waiters],
    )


class Admitted(NamedTuple):
    """The result of an admission. `next_seconds`: when to check again; None: when a run has ended.
    `last_key`: where the next check goes on. `is_waiting`: None if there are no limits at all."""

    runs: int
    next_seconds: float | None
    last_key: str
    is_waiting: bool | None


def admit(limit: int, *, after: str) -> Query[Admitted]:
    """Admit waiting runs as far as the limits allow."""
    return Query("limits/admit", {"limit": limit, "after": after}, only(Admitted._make))
