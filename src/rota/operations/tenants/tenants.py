"""Commands about tenants: `app.tenants`. The handle of one tenant is `app.tenant(name)`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Unpack

from rota.errors import FilterError
from rota.model.formatting import plural
from rota.model.page import Page
from rota.model.tenant import (
    Order,
    TenantAmount,
    TenantArchive,
    TenantFilters,
    TenantInfo,
    TenantName,
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
from rota.operations.registry import Noun, PauseEnd, Reason, ShowTime, Version, operation
from rota.operations.tenants.stream import ArchiveStream
from rota.postgres.audit import write_audit
from rota.postgres.plans import Plan, call
from rota.postgres.steps import OnProgress, Steps
from rota.postgres.tenants import delete as tenant_delete
from rota.postgres.tenants import tenants
from rota.postgres.tenants.export import export_tenant
from rota.postgres.versions import expect_version

Found = list[TenantInfo]
Shares = list[TenantShare]


def _set(tenant: TenantInfo, is_changed: bool, at: ShowTime) -> str:
    return "is changed"


def _paused(tenant: TenantInfo, is_changed: bool, at: ShowTime) -> str:
    end = at(tenant.paused_until) if tenant.paused_until else "it is resumed"
    return f"{'is' if is_changed else 'was already'} paused until {end}"


def _before_pause(tenant: TenantInfo) -> str:
    again = " It is already paused: this changes the end of the pause." if tenant.is_paused else ""
    return (
        f"{plural(tenant.waiting, 'run')} and new ones will wait. Running attempts "
        f"({tenant.running:,}) continue.{again}"
    )


def _resumed(tenant: TenantInfo, is_changed: bool, at: ShowTime) -> str:
    return "is resumed" if is_changed else "was not paused"


def _before_resume(tenant: TenantInfo) -> str:
    return f"Held runs ({tenant.held:,}) become claimable in their original order."


def _reset(result: None, is_changed: bool, at: ShowTime) -> str:
    return "is reset to the defaults"


class TenantCommands(Commands):
    noun = Noun("tenant", "tenants", TenantInfo)

    @command
    def list(self, *, order: Order = "name", **filters: Unpack[TenantFilters]) -> Plan[Found]:
        """List tenants with settings, schedules, unfinished runs, or activity in the last week."""
        return tenants.list_tenants(order=order, **filters)

    @command
    def page(
        self,
        *,
        order: Order = "name",
        cursor: Cursor = None,
        limit: int = 50,
        **filters: Unpack[TenantFilters],
    ) -> Plan[Page[TenantInfo]]:
        """One page of that list, with the cursor of the next."""
        return tenants.page_tenants(order=order, cursor=cursor, limit=limit, **filters)

    @command
    def get(self, name: TenantName) -> Plan[TenantInfo]:
        """Get one tenant: its settings (defaults unless changed) and its counts.

        Raises TenantNotFound if no run, schedule or setting names it."""
        return tenants.find_tenant(name)

    @operation(says=_set, title="Settings of tenant")
    def set(
        self,
        name: TenantName,
        reason: Reason = None,
        *,
        version: Version = None,
        **settings: Unpack[TenantSettings],
    ) -> Plan[TenantInfo]:
        """Update the given settings, effective at once; null restores the default. Tenants need no
        registration.

        Raises VersionConflict if the tenant is not at `version`."""
        yield from expect_version("tenant", name, version)
        changes = json.dumps(settings)
        yield from call("set_tenant", name=name, settings=changes, reason=reason, actor=self.actor)
        return (yield from tenants.find_tenant(name))

    @operation(says=_reset, is_dangerous=True, may_end=True)
    def reset(self, name: TenantName, reason: Reason = None) -> Plan[None]:
        """Reset all settings of a tenant to their defaults. Its data is kept.

        Raises TenantNotFound if it has no settings, and WrongState while it is paused."""
        yield from call("reset_tenant", name=name, reason=reason, actor=self.actor)

    @operation(says=_paused, asks=_before_pause)
    def pause(
        self, name: TenantName, reason: Reason = None, until: PauseEnd = None
    ) -> Plan[int | None]:
        """Pause a tenant: none of its runs start; running attempts continue. For a paused tenant, a
        new time or reason replaces the old one.

        Waiting runs are held: the first thousand at once (the number is returned), the others and
        new ones within about a second by workers. None if it was already paused like this."""
        end = None if until is None else (yield from read_instant(until, "until"))
        paused = call("pause_tenant", name=name, reason=reason, until=end, actor=self.actor)
        held: int | None = yield from paused
        return held

    @operation(says=_resumed, asks=_before_resume, is_reason_optional=True)
    def resume(self, name: TenantName, reason: Reason = None) -> Plan[int | None]:
        """Resume a paused tenant. Its runs start again, in order.

        Returns how many were released at once; None if it was not paused. Raises TenantNotFound if
        nothing names it."""
        freed: int | None = yield from call(
            "resume_tenant", name=name, reason=reason, actor=self.actor
        )
        if freed is None:
            yield from tenants.find_tenant(name)
        return freed

    @command
    def stats(self, name: TenantName) -> Plan[TenantStats]:
        """Get the activity of a tenant in the last month, by day, and its recent results."""
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
