"""What one can do with tenants: `app.tenants`. The handle of one is `app.tenant(name)`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Unpack

from rota.admin.commands import AsyncCommands, Commands, Cursor, SyncCommands, command, stepwise
from rota.admin.instants import read_instant
from rota.admin.tenants.stream import ArchiveStream
from rota.errors import FilterError, TimingError
from rota.jobs.values import checked_tenant
from rota.model.page import Page
from rota.model.tenant import (
    TenantAmount,
    TenantArchive,
    TenantInfo,
    TenantOrder,
    TenantRemoval,
    TenantSettings,
    TenantShare,
    TenantStats,
)
from rota.store.audit import write_audit
from rota.store.clock import read_clock
from rota.store.plans import Plan
from rota.store.steps import OnProgress, Steps
from rota.store.tenants import delete as tenant_delete
from rota.store.tenants import tenants
from rota.store.tenants.export import export_tenant
from rota.store.versions import expect_version

Found = list[TenantInfo]
Shares = list[TenantShare]


class TenantCommands(Commands):
    @command
    def list(
        self, *, order: TenantOrder = "name", paused: bool | None = None, text: str | None = None
    ) -> Plan[Found]:
        """Every tenant that has settings, schedules or open runs, or that did something in the last
        week: by `name`, the one with most `waiting` runs or most `failed` attempts today first."""
        return tenants.list_tenants(order=order, paused=paused, text=text)

    @command
    def page(
        self,
        *,
        order: TenantOrder = "name",
        paused: bool | None = None,
        text: str | None = None,
        cursor: Cursor = None,
        limit: int = 50,
    ) -> Plan[Page[TenantInfo]]:
        """A part of that list, and the cursor that leads to the next."""
        return tenants.page_tenants(
            order=order, paused=paused, text=text, cursor=cursor, limit=limit
        )

    @command
    def get(self, name: str) -> Plan[TenantInfo]:
        """One of them; TenantNotFound if no run, schedule or setting names it."""
        return tenants.find_tenant(name)

    @command
    def set(
        self,
        name: str,
        reason: str | None = None,
        *,
        version: int | None = None,
        **settings: Unpack[TenantSettings],
    ) -> Plan[TenantInfo]:
        """Change what is given, at once; None is the default. A tenant needs no other registration.
        VersionConflict if it is not at `version` any more."""
        return self._set(checked_tenant(name), reason, version, dict(settings))

    def _set(
        self, name: str, reason: str | None, version: int | None, settings: dict[str, Any]
    ) -> Plan[TenantInfo]:
        yield from expect_version("tenant", name, version)
        yield from tenants.set_tenant(name, settings, reason=reason, actor=self.actor)
        return (yield from tenants.find_tenant(name))

    @command
    def remove(self, name: str, reason: str | None = None) -> Plan[None]:
        """Back to the defaults; its data stays. TenantNotFound if it has no settings; WrongState
        while it is paused."""
        return tenants.remove_tenant(name, reason=reason, actor=self.actor)

    @command
    def pause(
        self, name: str, reason: str | None = None, until: datetime | timedelta | None = None
    ) -> Plan[int | None]:
        """Nothing of the tenant starts any more until it is resumed, or `until` has come (or so
        long from now); what runs, runs on. Its waiting runs are held: the first thousand at once,
        which is answered, the others and what comes within about a second by workers. Another
        `until` or reason replaces the one before; None if it was paused like this already."""
        return self._pause(checked_tenant(name), reason, until)

    def _pause(
        self, name: str, reason: str | None, until: datetime | timedelta | None
    ) -> Plan[int | None]:
        end = None if until is None else (yield from read_instant(until, "until"))
        if end is not None and end <= (yield from read_clock()):
            raise TimingError(f"a pause ends in the future, not at {end.isoformat()}")
        return (yield from tenants.pause_tenant(name, reason=reason, until=end, actor=self.actor))

    @command
    def resume(self, name: str, reason: str | None = None) -> Plan[int | None]:
        """Its runs are freed in the order in which they came; answers how many at once, None if it
        was not paused. TenantNotFound if nothing names it."""
        return self._resume(name, reason)

    def _resume(self, name: str, reason: str | None) -> Plan[int | None]:
        freed = yield from tenants.resume_tenant(name, reason=reason, actor=self.actor)
        if freed is None:
            yield from tenants.find_tenant(name)
        return freed

    @command
    def stats(self, name: str) -> Plan[TenantStats]:
        """What it has, what it did in the last month by day, and how its last runs went."""
        return tenants.read_stats(name)

    @command
    def shares(self, *, days: int = 14, most: int = 5) -> Plan[Shares]:
        """How the attempts of the last `days` were shared: the tenants with most, beside their
        weights, and all others together; by day (UTC), the oldest first."""
        if not 1 <= days <= 31 or not 1 <= most <= 100:
            raise FilterError("shares: days is 1 to 31, most 1 to 100")
        return tenants.read_shares(days, most)

    @command
    def amount(self, name: str) -> Plan[TenantAmount]:
        """What `delete` would find of it, but for log lines."""
        return tenant_delete.read_amount(name)

    @stepwise
    def delete(
        self,
        name: str,
        reason: str | None = None,
        *,
        cancel_running: bool = False,
        seconds: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Steps[TenantRemoval]:
        """Remove all data of a tenant: schedules with their ledgers, runs with attempts and lines,
        keys, counts, settings. What operators did stays in the audit. WrongState while runs of it
        run, unless `cancel_running` has them cancelled first. After so many `seconds` it stops, and
        goes on when it is called again. It is paused meanwhile."""
        return tenant_delete.Deletion(
            name,
            cancel_running=cancel_running,
            seconds=seconds,
            reason=reason,
            actor=self.actor,
            on_progress=on_progress,
        ).run()

    def _export(self, name: str, to: str | Path, on_progress: OnProgress | None) -> TenantArchive:
        """In this thread."""
        tenant = self.database.run_sync(tenants.find_tenant(name))
        archive = export_tenant(self.database, tenant.name, Path(to), on_progress)
        told = {"path": Path(to).name, "rows": archive.rows}
        self.database.run_sync(
            write_audit(self.actor, "tenant.exported", "tenant", name, after=told, tenant=name)
        )
        return archive


class Tenants(TenantCommands, AsyncCommands):
    """`app.tenants`"""

    @property
    def sync(self) -> SyncTenants:
        return SyncTenants(self.database, self.actor)

    async def export(
        self, name: str, to: str | Path, *, on_progress: OnProgress | None = None
    ) -> TenantArchive:
        """All of its data, as of one moment, into a tar.gz: a file of JSON lines for each table.
        Row by row, however much there is."""
        await self.database.open()
        return await asyncio.to_thread(self._export, name, to, on_progress)

    async def stream(self, name: str) -> AsyncGenerator[bytes]:
        """The same archive in chunks, while it is written. TenantNotFound before the first."""
        await self.database.open()
        tenant = await self.get(name)
        return ArchiveStream(self.database, tenant.name, self.actor).chunks()


class SyncTenants(TenantCommands, SyncCommands):
    """`app.tenants.sync`"""

    def export(
        self, name: str, to: str | Path, *, on_progress: OnProgress | None = None
    ) -> TenantArchive:
        return self._export(name, to, on_progress)
