"""Reads tenants, and writes settings that differ from the defaults."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Any, NamedTuple

from rota.errors import TenantNotFound
from rota.model.page import Page
from rota.model.tenant import TenantDay, TenantInfo, TenantOrder, TenantShare, TenantStats
from rota.postgres.pages import check_order, like, read_all, read_page
from rota.postgres.plans import Ask, Plan
from rota.postgres.queries import Query, only

_DAYS = 31


def _params(
    name: str | None = None, paused: bool | None = None, text: str | None = None
) -> dict[str, Any]:
    return {"name": name, "paused": paused, "text": like(text) if text else None}


def list_tenants(
    *, order: str = "name", paused: bool | None = None, text: str | None = None
) -> Plan[list[TenantInfo]]:
    params = _params(paused=paused, text=text)
    return read_all("tenants/list", params, TenantInfo, order=check_order(order, TenantOrder))


def page_tenants(
    *,
    order: str,
    cursor: Sequence[Any] | None,
    limit: int,
    paused: bool | None = None,
    text: str | None = None,
) -> Plan[Page[TenantInfo]]:
    order, params = check_order(order, TenantOrder), _params(paused=paused, text=text)
    return read_page("tenants/list", params, TenantInfo, order=order, cursor=cursor, limit=limit)


def find_tenant(name: str) -> Plan[TenantInfo]:
    found = yield from read_all("tenants/list", _params(name=name), TenantInfo)
    if found:
        return found[0]
    near = get_close_matches(name, [tenant.name for tenant in (yield from list_tenants())], 1)
    hint = f"did you mean {near[0]}?" if near else None
    raise TenantNotFound(
        f'there is no tenant "{name}": no run, schedule or setting names it', hint=hint
    )


def read_shares(days: int, most: int) -> Plan[list[TenantShare]]:
    rows = yield Ask("tenants/shares", {"days": days, "most": most})
    return [TenantShare(**row) for row in rows]


def set_tenant(
    name: str, settings: Mapping[str, Any], *, reason: str | None, actor: str | None
) -> Plan[None]:
    params = {"name": name, "settings": json.dumps(settings), "reason": reason, "actor": actor}
    yield Ask("tenants/set", params)


def pause_tenant(
    name: str, *, reason: str | None, until: datetime | None, actor: str | None
) -> Plan[int | None]:
    """Pause a tenant. Return the number of runs held at once (workers hold the others); None if
    nothing changed."""
    params = {"name": name, "reason": reason, "until": until, "actor": actor}
    (row,) = yield Ask("tenants/pause", params)
    held: int | None = row["held"]
    return held


def resume_tenant(name: str, *, reason: str | None, actor: str | None) -> Plan[int | None]:
    """Resume a tenant. Return the number of runs released at once; None if it was not paused."""
    (row,) = yield Ask("tenants/resume", {"name": name, "reason": reason, "actor": actor})
    freed: int | None = row["freed"]
    return freed


def remove_tenant(name: str, *, reason: str | None, actor: str | None) -> Plan[None]:
    yield Ask("tenants/remove", {"name": name, "reason": reason, "actor": actor})


def read_stats(name: str) -> Plan[TenantStats]:
    tenant = yield from find_tenant(name)
    days = yield Ask("tenants/days", {"name": name, "days": _DAYS})
    (recent,) = yield Ask("tenants/recent", {"name": name})
    return TenantStats(tenant, [TenantDay(**row) for row in days], **recent)


class Tended(NamedTuple):
    """The number of moved runs, and when to check again; None if that is not needed."""

    moved: int
    next_seconds: float | None


def tend(limit: int) -> Query[Tended]:
    """Hold the runs of paused tenants, and count for quotas and caps."""
    return Query("tenants/tend", {"limit": limit}, only(Tended._make))
