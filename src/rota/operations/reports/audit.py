"""The audit of operators' actions."""

from __future__ import annotations

from typing import Unpack

from rota.errors import FilterError
from rota.model.asked import NewestFirst
from rota.model.audit import AuditEntry, AuditFilters, EntryId
from rota.model.page import LISTED_BYTES, Page
from rota.operations.commands import AsyncCommands, Commands, Cursor, SyncCommands
from rota.operations.reading import reading
from rota.operations.registry import Noun
from rota.operations.scope import Scope
from rota.postgres import audit
from rota.postgres.plans import Plan

Found = list[AuditEntry]


class AuditCommands(Commands):
    scope = Scope(takes=frozenset({"list", "page"}))
    noun = Noun("audit_entry", "audit", AuditEntry, FilterError, key="id")

    @reading(FilterError)
    def list(
        self,
        *,
        order: NewestFirst = "newest",
        before_id: int | None = None,
        limit: int = 50,
        **filters: Unpack[AuditFilters],
    ) -> Plan[Found]:
        """List audit entries (who did what, when and why), newest or oldest first.

        `before_id`: only entries after this one in the order of the list."""
        cursor = None if before_id is None else (before_id,)
        found = yield from audit.page_audit(order=order, cursor=cursor, limit=limit, **filters)
        return [*found.items]

    @reading(FilterError)
    def page(
        self,
        *,
        order: NewestFirst = "newest",
        cursor: Cursor = None,
        limit: int = 50,
        **filters: Unpack[AuditFilters],
    ) -> Plan[Page[AuditEntry]]:
        """One page of that list, with the cursor of the next. Values before and after of more than
        8 kB are left out: `{"$omitted": …}` stands in their place, and `get` returns them."""
        return audit.page_audit(
            order=order, cursor=cursor, limit=limit, value_bytes=LISTED_BYTES, **filters
        )

    @reading(FilterError)
    def get(self, entry_id: EntryId) -> Plan[AuditEntry]:
        """Get one audit entry with the values before and after the change.

        Raises AuditEntryNotFound if there is none."""
        return audit.find_entry(entry_id)


class Audit(AuditCommands, AsyncCommands):
    """`app.audit`"""

    @property
    def sync(self) -> SyncAudit:
        return SyncAudit(self.database, self.actor).of_tenant(self.tenant)


class SyncAudit(AuditCommands, SyncCommands):
    """`app.audit.sync`"""
