"""The audit of operators' actions."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypedDict, Unpack

from rota.model.audit import AuditEntry
from rota.model.list_filters import TimeOrder
from rota.model.page import LISTED_BYTES, Page
from rota.operations.commands import AsyncCommands, Commands, Cursor, SyncCommands, command
from rota.operations.scope import Scope
from rota.postgres import audit
from rota.postgres.pages import check_filters
from rota.postgres.plans import Plan

Found = list[AuditEntry]


class AuditFilters(TypedDict, total=False):
    """Filters of `app.audit.list`, for type checkers. A timedelta counts back from now."""

    actor: str | None
    action: str | None
    object_type: str | None
    object_id: str | None
    tenant: str | None
    since: datetime | timedelta | None
    until: datetime | timedelta | None


class AuditCommands(Commands):
    scope = Scope(takes=frozenset({"list", "page"}))

    @command
    def list(
        self,
        *,
        order: TimeOrder = "newest",
        before_id: int | None = None,
        limit: int = 50,
        **filters: Unpack[AuditFilters],
    ) -> Plan[Found]:
        """List entries by `actor`, `action`, `object_type`, `object_id`, `tenant`, `since` and
        `until`. `before_id`: only entries after this one in the order of the list."""
        return self._list(order, before_id, limit, filters)

    @command
    def page(
        self,
        *,
        order: TimeOrder = "newest",
        cursor: Cursor = None,
        limit: int = 50,
        **filters: Unpack[AuditFilters],
    ) -> Plan[Page[AuditEntry]]:
        """One page of that list, with the cursor of the next. Values before and after of more than
        8 kB are left out: `{"$omitted": …}` stands in their place, and `get` returns them."""
        check_filters(filters, AuditFilters, "audit")
        return audit.page_audit(
            order=order, cursor=cursor, limit=limit, value_bytes=LISTED_BYTES, **filters
        )

    def _list(
        self, order: str, before_id: int | None, limit: int, filters: AuditFilters
    ) -> Plan[Found]:
        check_filters(filters, AuditFilters, "audit")
        cursor = None if before_id is None else (before_id,)
        found = yield from audit.page_audit(order=order, cursor=cursor, limit=limit, **filters)
        return [*found.items]

    @command
    def get(self, entry_id: int) -> Plan[AuditEntry]:
        """One entry. Raises AuditEntryNotFound if there is none."""
        return audit.find_entry(entry_id)


class Audit(AuditCommands, AsyncCommands):
    """`app.audit`"""

    @property
    def sync(self) -> SyncAudit:
        return SyncAudit(self.database, self.actor).of_tenant(self.tenant)


class SyncAudit(AuditCommands, SyncCommands):
    """`app.audit.sync`"""
