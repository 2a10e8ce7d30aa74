"""Reads the audit, and writes entries that no SQL function records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar

from rota.errors import AuditEntryNotFound
from rota.model.audit import AuditEntry, AuditFilters
from rota.model.exclusion import read_exclusions
from rota.model.field_values import past_instant
from rota.model.fields import Moment
from rota.model.page import PAGE_BYTES, Page
from rota.postgres.clock import read_clock
from rota.postgres.pages import excluded, like, read_page
from rota.postgres.plans import Execute, Plan, call

T = TypeVar("T")


def write_audit(
    actor: str | None,
    action: str,
    object_type: str,
    object_id: str,
    *,
    before: Any = None,
    after: Any = None,
    reason: str | None = None,
    tenant: str | None = None,
) -> Plan[None]:
    yield from call(
        "write_audit",
        actor=actor,
        action=action,
        object_type=object_type,
        object_id=object_id,
        before=None if before is None else json.dumps(before),
        after=None if after is None else json.dumps(after),
        reason=reason,
        tenant=tenant,
    )


def act_as(actor: str | None) -> Plan[None]:
    """Name this actor in the audit for the rest of the transaction."""
    yield from call("act_as", actor=actor)


def because(reason: str | None, plan: Plan[T]) -> Plan[T]:
    """Use this reason for the plan's audit entries that have none of their own."""
    if reason is not None:
        yield Execute("audit/because", {"reason": reason})
    return (yield from plan)


_FILTERS = ("id", "actor", "action", "object_type", "object_id", "tenant")


def page_audit(
    *,
    since: Moment | None = None,
    until: Moment | None = None,
    order: str = "newest",
    cursor: Sequence[Any] | None = None,
    limit: int = 50,
    value_bytes: int | None = None,
    **filters: Any,
) -> Plan[Page[AuditEntry]]:
    now = yield from read_clock()
    texts = filters.pop("text", None)
    exclude = read_exclusions(filters.pop("exclude", None), AuditFilters)
    params = dict.fromkeys(_FILTERS) | filters | excluded(exclude)
    params |= {
        "texts": [like(text) for text in texts] if texts else None,
        "since": past_instant(since, now),
        "until": past_instant(until, now),
        "value_bytes": value_bytes,
    }
    statement = "audit/list_oldest" if order == "oldest" else "audit/list"
    return (
        yield from read_page(
            statement,
            params,
            AuditEntry,
            order=order,
            cursor=cursor,
            limit=limit,
            most_bytes=None if value_bytes is None else PAGE_BYTES,
        )
    )


def find_entry(entry_id: int) -> Plan[AuditEntry]:
    found = yield from page_audit(id=entry_id)
    if not found.items:
        raise AuditEntryNotFound(f"the audit has no entry {entry_id}")
    return found.items[0]
