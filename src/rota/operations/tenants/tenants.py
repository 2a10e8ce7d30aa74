"""Commands about tenants: `app.tenants`. The handle of one tenant is `app.tenant(name)`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Unpack

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
from rota.operations.commands import (
    AsyncCommands,
    Commands,
    Cursor,
    SyncCommands,
    command,
    stepwise,
)
from rota.operations.instants import read_instant
from rota.operations.tenants.stream import ArchiveStream
from rota.postgres.audit import write_audit
from rota.postgres.clock import read_clock
from rota.postgres.plans import Plan
from rota.postgres.steps import OnProgress, Steps
from rota.postgres.tenants import delete as tenant_delete
from rota.postgres.tenants import tenants
from rota.postgres.tenants.export import export_tenant
from rota.postgres.versions import expect_version

Found = list[TenantInfo]
Shares = list[TenantShare]


class TenantCommands(Commands):
    @command
    def list(
        self, *, order: TenantOrder = "name", paused: bool | None = None, text: str | None = None
    ) -> Plan[Found]:
        """List tenants that have settings, schedules or unfinished runs, or were active in the last
        week: by `name`, or the one with most `waiting` runs or most `failed` attempts today
        first."""
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
        """One page of that list, with the cursor of the next."""
        return tenants.page_tenants(
            order=order, paused=paused, text=text, cursor=cursor, limit=limit
        )

    @command
    def get(self, name: str) -> Plan[TenantInfo]:
        """One tenant. Raises TenantNotFound if no run, schedule or setting names it."""
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
        """Change the given settings, at once; None sets the default. A tenant needs no other
        registration. Raises VersionConflict if it is not at `version`."""
        return self._set(checked_tenant(name), reason, version, dict(settings))

    def _set(
        self, name: str, reason: str | None, version: int | None, settings: dict[str, Any]
    ) -> Plan[TenantInfo]:
        yield from expect_version("tenant", name, version)
        yield from tenants.set_tenant(name, settings, reason=reason, actor=self.actor)
        return (yield from tenants.find_tenant(name))

    @command
    def remove(self, name: str, reason: str | None = None) -> Plan[None]:
        """Reset its settings to the defaults; its data is kept. Raises TenantNotFound if it has no
        settings, and WrongState while it is paused."""
        return tenants.remove_tenant(name, reason=reason, actor=self.actor)

    @command
    def pause(
        self, name: str, reason: str | None = None, until: datetime | timedelta | None = None
    ) -> Plan[int | None]:
        """Start none of the tenant's runs until it is resumed, or until `until` (a time, or a
        duration from now); running attempts continue. Waiting runs are held: the first thousand
        at once (the number is returned), the others and new ones within about a second by
        workers. A new `until` or reason replaces the old one; None if it was already paused like
        this."""
        return self._pause(checked_tenant(name), reason, until)

    def _pause(
        self, name: str, reason: str | None, until: datetime | timedelta | None
    ) -> Plan[int | None]:
        end = None if until is None else (yield from read_instant(until, "until"))
        if end is not None and end <= (yield from read_clock()):
            raise TimingError(f"the end of a pause must be in the future, not {end.isoformat()}")
        return (yield from tenants.pause_tenant(name, reason=reason, until=end, actor=self.actor))

    @command
    def resume(self, name: str, reason: str | None = None) -> Plan[int | None]:
        """Release its runs in their original order; returns how many were released at once, None
        if it was not paused. Raises TenantNotFound if nothing names it."""
        return self._resume(name, reason)

    def _resume(self, name: str, reason: str | None) -> Plan[int | None]:
        freed = yield from tenants.resume_tenant(name, reason=reason, actor=self.actor)
        if freed is None:
            yield from tenants.find_tenant(name)
        return freed

    @command
    def stats(self, name: str) -> Plan[TenantStats]:
        """Its unfinished runs, its activity in the last month by day, and the results of its last
        runs."""
        return tenants.read_stats(name)

    @command
    def shares(self, *, days: int = 14, most: int = 5) -> Plan[Shares]:
        """How the attempts of the last `days` were shared: the largest tenants with their weights,
        and all others together; by day (UTC), oldest first."""
        if not 1 <= days <= 31 or not 1 <= most <= 100:
            raise FilterError("days must be from 1 to 31, and most from 1 to 100")
        return tenants.read_shares(days, most)

    @command
    def amount(self, name: str) -> Plan[TenantAmount]:
        """How many rows `delete` would remove, without log lines."""
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
        """Delete all data of a tenant: schedules with their ledgers, runs with attempts and log
        lines, keys, counts, settings. Operator actions stay in the audit. Raises WrongState
        while it has running attempts, unless `cancel_running` cancels them first. After
        `seconds` it stops, and continues when called again. The tenant is paused meanwhile."""
        return tenant_delete.Deletion(
            name,
            cancel_running=cancel_running,
            seconds=seconds,
            reason=reason,
            actor=self.actor,
            on_progress=on_progress,
        ).run()

    def _export(self, name: str, to: str | Path, on_progress: OnProgress | None) -> TenantArchive:
        """Write the archive in this thread."""
        tenant = self.database.run_sync(tenants.find_tenant(name))
        archive = export_tenant(self.database, tenant.name, Path(to), on_progress)
        facts = {"path": Path(to).name, "rows": archive.rows}
        self.database.run_sync(
            write_audit(self.actor, "tenant.exported", "tenant", name, after=facts, tenant=name)
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
        """Write all of its data, as of one moment, to a tar.gz with a JSON Lines file for each
        table. Rows are streamed, however many there are."""
        await self.database.open()
        return await asyncio.to_thread(self._export, name, to, on_progress)

    async def stream(self, name: str) -> AsyncGenerator[bytes]:
        """Return the same archive as an iterator of chunks, while it is written. Raises
        TenantNotFound before the first chunk."""
        await self.database.open()
        tenant = await self.get(name)
        return ArchiveStream(self.database, tenant.name, self.actor).chunks()


class SyncTenants(TenantCommands, SyncCommands):
    """`app.tenants.sync`"""

    def export(
        self, name: str, to: str | Path, *, on_progress: OnProgress | None = None
    ) -> TenantArchive:
        return self._export(name, to, on_progress)
