"""What operators did."""

from __future__ import annotations

from datetime import datetime, timedelta

from rota.admin.face import AsyncFace, Face, SyncFace, command
from rota.model.audit import AuditEntry
from rota.store import audit
from rota.store.plans import Plan

Found = list[AuditEntry]


class AuditCommands(Face):
    @command
    def list(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        object_type: str | None = None,
        object_id: str | None = None,
        tenant: str | None = None,
        since: datetime | timedelta | None = None,
        until: datetime | timedelta | None = None,
        before_id: int | None = None,
        limit: int = 50,
    ) -> Plan[Found]:
        """The newest first; `before_id` is the next page. A timedelta counts back from now."""
        return audit.list_audit(
            actor=actor, action=action, object_type=object_type, object_id=object_id,
            tenant=tenant, since=since, until=until, before_id=before_id, limit=limit,
        )  # fmt: skip

    @command
    def get(self, entry_id: int) -> Plan[AuditEntry]:
        """One entry; AuditEntryNotFound if there is none."""
        return audit.find_entry(entry_id)


class Audit(AuditCommands, AsyncFace):
    """`app.audit`"""

    @property
    def sync(self) -> SyncAudit:
        return SyncAudit(self.database, self.actor)


class SyncAudit(AuditCommands, SyncFace):
    """`app.audit.sync`"""
